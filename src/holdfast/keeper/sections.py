"""The parts of a work item that are decided upon as one, and which of them are written anew. Pure: no bytes."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from holdfast.keeper.work import Piece, WorkItem

SMALL = 8
"""A segment below this part of the largest size joins its neighbour when that is rewritten anyhow."""


@dataclass(frozen=True, slots=True)
class Section:
    """The pieces [first, end) of an item, by number: one segment, or extents that follow each other."""

    first: int
    end: int


def find_sections(pieces: Sequence[Piece], bounds: Container[int] = ()) -> list[Section]:
    """All of them, in order. One ends at the latest before a piece whose number is among the bounds."""
    sections: list[Section] = []
    first = 0
    for number in range(1, len(pieces) + 1):
        if (
            number == len(pieces)
            or number in bounds
            or pieces[number].index is not None
            or pieces[first].index is not None
        ):
            sections.append(Section(first, number))
            first = number
    return sections


def choose_rewritten(item: WorkItem, losing: Container[int]) -> list[bool]:
    """For each piece, whether its bytes are written anew: all but clean segments that lose nothing.

    `losing` are the numbers of pieces with which sections begin that lose a record.
    """
    pieces = item.pieces
    rewritten = [
        not item.compacts or piece.file is None or not piece.is_clean or number in losing
        for number, piece in enumerate(pieces)
    ]
    small_bytes = item.segment_bytes_max // SMALL
    for number in range(1, len(pieces)):
        for one, other in ((number - 1, number), (number, number - 1)):
            if rewritten[other] and pieces[one].length_bytes < small_bytes:
                rewritten[one] = True
    return rewritten

"""A work item cut into stretches of offsets that are copied side by side, and put together again."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path

from holdfast.errors import StoreFailed
from holdfast.keeper.work import Rewrite, WorkItem
from holdfast.store.segments import delete_segment

STRETCHES_PER_PART = 2
"""More stretches than parts, because some may have little to copy."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The pieces [first, end) of an item, by number, as an item."""

    first: int
    end: int
    item: WorkItem


def cut_stretches(item: WorkItem, parts: int) -> list[Stretch]:
    """Of about as many bytes each. What lies between two of them, because it was aborted, belongs to the second."""
    stretches = []
    start = item.first
    for first, end in pairwise(_find_bounds(item, STRETCHES_PER_PART * parts)):
        stop = item.end if end == len(item.pieces) else item.pieces[end - 1].end
        stretches.append(
            Stretch(first, end, replace(item, pieces=item.pieces[first:end], first=start, end=stop))
        )
        start = stop
    return stretches


def join_rewrites(
    item: WorkItem, counts: Iterable[Mapping[str, int]], rewrites: Sequence[Rewrite]
) -> Rewrite:
    """What copies of all stretches of an item come to, with what was counted besides."""
    total: Counter[str] = Counter()
    for each in [*counts, *(done.counts for done in rewrites)]:
        total.update(each)
    added = [segment for rewrite in rewrites for segment in rewrite.added]
    removed = {file for rewrite in rewrites for file in rewrite.removed}
    return Rewrite(
        added=tuple(sorted(added, key=lambda segment: segment.first)),
        removed=tuple(piece.file for piece in item.pieces if piece.file in removed and piece.file),
        counts=dict(total),
    )


def delete_added(item: WorkItem, rewrites: Sequence[Rewrite]) -> None:
    """Take away the segments of an item that has failed; what stays is collected some day."""
    for rewrite in rewrites:
        for segment in rewrite.added:
            with suppress(StoreFailed):
                delete_segment(Path(item.directory), segment.file)


def _find_bounds(item: WorkItem, stretches_max: int) -> tuple[int, ...]:
    """The pieces with which stretches of about as many bytes begin, and their end; none is without a piece."""
    starts = list(accumulate((piece.length_bytes for piece in item.pieces), initial=0))
    total_bytes = max(starts.pop(), 1)
    stretches = [start * stretches_max // total_bytes for start in starts]
    begun = [number for number in range(1, len(starts)) if stretches[number] != stretches[number - 1]]
    return (0, *begun, len(starts))

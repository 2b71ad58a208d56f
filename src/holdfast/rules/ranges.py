"""Sets of offsets as half-open ranges: what a replica has cleaned, finer than whole segments."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetRange:
    """The offsets from `start` up to, not including, `end`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        assert self.start <= self.end, f"range {self.start}..{self.end} ends before it starts"


def merged(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """The same offsets as few ranges as possible, in order."""
    result: list[OffsetRange] = []
    for piece in sorted(ranges):
        if piece.start == piece.end:
            continue
        if result and piece.start <= result[-1].end:
            last = result.pop()
            result.append(OffsetRange(start=last.start, end=max(last.end, piece.end)))
        else:
            result.append(piece)
    return tuple(result)


def clean_prefix(cleaned: Iterable[OffsetRange], *, log_start: int = 0) -> int:
    """The first offset at or above `log_start` that is not cleaned: a replica's own MCCO or MXFO.

    Compaction may clean newest first, or leave out a range that an open transaction or a minimum lag holds
    back. Only the unbroken prefix counts, because an unclean record further down may be what a tombstone
    still governs.
    """
    prefix = log_start
    for piece in merged(cleaned):
        if piece.start > prefix:
            break
        prefix = max(prefix, piece.end)
    return prefix


def clipped(ranges: Iterable[OffsetRange], at: int) -> tuple[OffsetRange, ...]:
    """The part below `at`: what is left of cleaned ranges after a truncation."""
    return tuple(
        OffsetRange(start=piece.start, end=min(piece.end, at)) for piece in ranges if piece.start < at
    )

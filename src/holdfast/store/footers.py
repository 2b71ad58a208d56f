"""The footers of a store's journals, read as they lie there: nothing is changed, and whoever writes goes on."""

import mmap
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import CorruptFrame, FormatTooNew, StoreFailed
from holdfast.store import journal
from holdfast.store.file_header import FILE_HEADER_BYTES
from holdfast.store.journals import list_journals


def read_footers(directory: Path) -> Iterator[tuple[int, bytes]]:
    """(number, footer) of every whole frame in order; a store that was away has gaps between the numbers.

    A torn tail, or one that is being written, is the end. Batches are not looked at. StoreFailed if a frame in the
    middle is damaged, or a journal goes away before it is read.
    """
    journals = list_journals(directory)
    successors: list[int | None] = [*journals[1:], None]
    for first_frame, successor in zip(journals, successors, strict=True):
        yield from _read_journal(directory, first_frame, successor)


def find_last_frame(directory: Path) -> int:
    """The number of the last whole frame; 0 if there is none."""
    for first_frame in reversed(list_journals(directory)):
        last = max((number for number, _ in _read_journal(directory, first_frame, None)), default=0)
        if last:
            return last
    return 0


def _read_journal(directory: Path, first_frame: int, successor: int | None) -> Iterator[tuple[int, bytes]]:
    """The frames of one journal, but for those that its successor makes void."""
    path = directory / "journal" / journal.journal_name(first_frame)
    try:
        with path.open("rb") as file:
            if path.stat().st_size <= FILE_HEADER_BYTES:
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield from _read_frames(path, data, first_frame, successor)
    except OSError as failure:
        raise StoreFailed(f"cannot read {path}: {failure.strerror}") from failure


def _read_frames(
    path: Path, data: mmap.mmap, expected: int, successor: int | None
) -> Iterator[tuple[int, bytes]]:
    position = FILE_HEADER_BYTES
    while position < len(data) and (successor is None or expected < successor):
        try:
            frame = journal.read_frame(data, position, expected)
        except FormatTooNew as failure:
            raise StoreFailed(f"{path}: {failure}") from failure
        except CorruptFrame as failure:
            if successor is None and not journal.has_frame_after(data, position, expected):
                return
            raise StoreFailed(f"{path} is damaged in the middle: {failure}") from None
        yield frame.number, frame.footer
        position, expected = frame.end, frame.number + 1

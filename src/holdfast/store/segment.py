"""Segments: one partition's batches in offset order, with a sparse index beside them.

A segment is written once, under a name that nobody else uses, and is never changed: what the control plane names is
whole, and what it does not name is nobody's.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from uuid import UUID

from holdfast.errors import StoreFailed
from holdfast.records.crc import crc32c
from holdfast.store.durable import begin_writeback, make_directory, sync_directory, write_all
from holdfast.store.journal import Buffer
from holdfast.store.segment_index import INDEX_BYTES, IndexEntry, SegmentIndex, index_path

_NAME = re.compile(r"([0-9a-f]{32})/(\d{1,10})/(\d{20})\.(\d{1,19})-([0-9a-z]{1,64})\.log")
_MAKE_TRIES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentName:
    """What the name of a segment says: where it begins, and under which lease of the keeper it was written."""

    topic_id: UUID
    partition: int
    base: int
    lease: int
    unique: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSegment:
    """A segment that is durable, ready to be published."""

    file: str
    length_bytes: int
    crc: int


def segment_file(topic_id: UUID, partition: int, base: int, lease: int, unique: str) -> str:
    """The name of a segment below `segments/`; `unique` tells the attempts of one lease apart: [0-9a-z]."""
    file = f"{topic_id.hex}/{partition}/{base:020d}.{lease}-{unique}.log"
    assert _NAME.fullmatch(file), file
    return file


def parse_segment_file(file: str) -> SegmentName:
    """What `segment_file` was called with; StoreFailed for a name that is none of a segment."""
    match = _NAME.fullmatch(file)
    if match is None:
        raise StoreFailed(f"{file!r} is not the name of a segment")
    topic_id, partition, base, lease, unique = match.groups()
    return SegmentName(
        topic_id=UUID(topic_id), partition=int(partition), base=int(base), lease=int(lease), unique=unique
    )


def segment_path(directory: Path, file: str) -> Path:
    """Where a segment lies in the store's directory; StoreFailed for a name that leads elsewhere."""
    parse_segment_file(file)
    return directory / "segments" / file


class SegmentWriter:
    """Writes one segment of the store in `directory`. It does not exist for anybody before `finish`.

    Used as a context, it abandons what was not finished. Every method raises StoreFailed; then there is nothing left
    to do but to abandon it.
    """

    def __init__(self, directory: Path, file: str) -> None:
        self._path = segment_path(directory, file)
        self._file_name = file
        self._length_bytes = 0
        self._crc = 0
        self._entries: list[IndexEntry] = []
        try:
            self._file: int | None = create_file(self._path)
        except OSError as failure:
            raise StoreFailed(f"cannot begin {self._path}: {failure.strerror}") from failure

    def append(self, batches: Buffer, index_entries: Iterable[tuple[int, int, int]]) -> None:
        """Append whole batches.

        `index_entries` are (base offset, position in this buffer, greatest timestamp of the segment up to the end of
        that batch) of some of them, in order. Those that are nearer to each other than INDEX_BYTES are left out.
        """
        assert self._file is not None, "the segment is finished or abandoned"
        try:
            end = write_all(self._file, [batches], self._length_bytes)
        except OSError as failure:
            raise StoreFailed(f"cannot write to {self._path}: {failure.strerror}") from failure
        begin_writeback(self._file, self._length_bytes, len(batches))
        self._crc = crc32c(batches, self._crc)
        self._add_entries(index_entries, len(batches))
        self._length_bytes = end

    def finish(self) -> WrittenSegment:
        """Make the segment and its index durable."""
        assert self._file is not None, "the segment is finished or abandoned"
        index = SegmentIndex(self._entries, length_bytes=self._length_bytes)
        try:
            os.fdatasync(self._file)
            _write_synced(index_path(self._path), index.encode())
            sync_directory(self._path.parent)
            is_gone = os.fstat(self._file).st_nlink == 0
        except OSError as failure:
            raise StoreFailed(f"cannot sync {self._path}: {failure.strerror}") from failure
        if is_gone:
            raise StoreFailed(f"{self._path} was deleted while it was written")
        self._close()
        return WrittenSegment(file=self._file_name, length_bytes=self._length_bytes, crc=self._crc)

    def abandon(self) -> None:
        """Take back what was written, as far as possible; the rest is collected some day. Twice is no harm."""
        if self._file is None:
            return
        self._close()
        for path in (index_path(self._path), self._path):
            try:
                path.unlink(missing_ok=True)
            except OSError:
                return

    def __enter__(self) -> "SegmentWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    def _add_entries(self, entries: Iterable[tuple[int, int, int]], buffer_bytes: int) -> None:
        last = self._entries[-1] if self._entries else None
        for offset, position, max_timestamp in entries:
            assert 0 <= position < buffer_bytes, f"an entry at {position} of {buffer_bytes} bytes"
            entry = IndexEntry(int(offset), self._length_bytes + int(position), int(max_timestamp))
            if last is not None:
                # The index is searched by halves: an order that does not hold would lead past records.
                assert last.offset < entry.offset, f"{entry} after {last}"
                assert last.max_timestamp <= entry.max_timestamp, f"{entry} after {last}"
                if entry.position < last.position + INDEX_BYTES:
                    continue
            self._entries.append(entry)
            last = entry

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def create_file(path: Path, tries_left: int = _MAKE_TRIES_MAX) -> int:
    """Open a new file. Whoever deletes the last segment of a partition may take the directory away meanwhile."""
    try:
        make_directory(path.parent)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileNotFoundError:
        if tries_left == 0:
            raise
    return create_file(path, tries_left - 1)


def _write_synced(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(file, [data], 0)
        os.fsync(file)
    finally:
        os.close(file)

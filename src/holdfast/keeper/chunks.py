"""Pieces of a log cut into chunks that fit in memory, each of whole batches."""

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import CorruptBatch, CorruptIndex, StoreFailed
from holdfast.keeper.work import Piece
from holdfast.records.codecs import INFLATED_BYTES_MAX
from holdfast.records.kernel.load import Batches, Scattered, locate
from holdfast.store.segment_index import SegmentIndex, rebuild_index

CHUNK_BYTES = 8 * 1024 * 1024
APART_BYTES_MIN = 64 * 1024
"""To map slices and to find their batches takes longer than to copy them where they are smaller on average."""
MADV_POPULATE_READ = 22
"""Of Linux 5.14 and later; Python has no name for it."""
INFLATED_BYTES = INFLATED_BYTES_MAX
"""What a chunk may inflate to; one that inflates to more is halved. A single batch always may."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes of one file: batches that lie in the offsets [first, end)."""

    path: str
    position: int
    length_bytes: int
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Batches that are read at once, in order; `piece` is the number of the one they belong to, or begin with."""

    piece: int
    slices: tuple[Slice, ...]
    is_clean: bool
    is_dense: bool
    """Whether every offset must be there, as in extents, or some may be gone, as in a segment."""

    @property
    def size_bytes(self) -> int:
        """All slices together."""
        return sum(part.length_bytes for part in self.slices)

    def halved(self, batches: Batches) -> "tuple[Chunk, Chunk]":
        """Two chunks of at least one batch each, for one that takes too much memory; there must be two batches."""
        _, table = locate(batches)
        assert len(table) > 1, self
        starts = _starts(table)
        middle = min(max(int(np.searchsorted(starts, self.size_bytes // 2)), 1), len(table) - 1)
        cut_at, offset = int(starts[middle]), int(table["base_offset"][middle])
        before: list[Slice] = []
        after: list[Slice] = []
        start = 0
        for part in self.slices:
            cut_bytes = cut_at - start
            start += part.length_bytes
            if cut_bytes >= part.length_bytes:
                before.append(part)
            elif cut_bytes <= 0:
                after.append(part)
            else:
                before.append(replace(part, length_bytes=cut_bytes, end=offset))
                after.append(
                    replace(
                        part,
                        position=part.position + cut_bytes,
                        length_bytes=part.length_bytes - cut_bytes,
                        first=offset,
                    )
                )
        return replace(self, slices=tuple(before)), replace(self, slices=tuple(after))


def cut(pieces: Sequence[Piece], *, first_piece: int = 0) -> list[Chunk]:
    """Chunks in the order of offsets. A large segment is cut where its index knows that a batch begins.

    Extents that follow each other share a chunk; a segment never does, because it may stay as it is. `first_piece` is
    the number of the first one.
    """
    chunks: list[Chunk] = []
    loose: list[Slice] = []
    first_loose = 0
    loose_bytes = 0

    def flush() -> None:
        if loose:
            chunks.append(Chunk(piece=first_loose, slices=tuple(loose), is_clean=False, is_dense=True))
            loose.clear()

    for number, piece in enumerate(pieces, first_piece):
        if piece.index is not None:
            flush()
            chunks += [
                Chunk(piece=number, slices=(part,), is_clean=piece.is_clean, is_dense=False)
                for part in _cut_segment(piece)
            ]
            continue
        if loose and loose_bytes + piece.length_bytes > CHUNK_BYTES:
            flush()
        if not loose:
            first_loose, loose_bytes = number, 0
        loose_bytes += piece.length_bytes
        loose.append(Slice(piece.path, piece.position, piece.length_bytes, piece.first, piece.end))
    flush()
    return chunks


def _cut_segment(piece: Piece) -> Iterator[Slice]:
    if not piece.length_bytes:
        return
    start, first = 0, piece.first
    if piece.length_bytes > CHUNK_BYTES:
        for offset, position, _ in _load_index(piece).entries:
            if position - start >= CHUNK_BYTES:
                yield Slice(piece.path, start, position - start, first, offset)
                start, first = position, offset
    yield Slice(piece.path, start, piece.length_bytes - start, first, piece.end)


def _load_index(piece: Piece) -> SegmentIndex:
    """Whoever reads the segment makes a damaged index anew; so does a rewrite."""
    assert piece.index is not None, piece
    try:
        found = SegmentIndex.load(Path(piece.index))
        if found.length_bytes == piece.length_bytes:
            return found
    except (CorruptIndex, StoreFailed):
        pass
    return rebuild_index(Path(piece.path))


class ChunkReader:
    """Reads chunks into one buffer, which the next read takes over; one that lies in one piece is not copied at all."""

    def __init__(self) -> None:
        self._room: NDArray[np.uint8] = np.empty(0, np.uint8)

    def find(self, chunk: Chunk) -> Batches:
        """The chunk's batches; StoreFailed if they are not there, CorruptBatch if they are others.

        Large slices of one file stay where they are, even if others' batches lie between them. The position of a fault
        counts from the first of them in the file then, and not in the chunk.
        """
        return _find_apart(chunk) or self.read(chunk)

    def read(self, chunk: Chunk) -> memoryview:
        """The same in one piece."""
        view = (_map(chunk.slices) if len(chunk.slices) == 1 else None) or self._gather(chunk)
        _check_offsets(locate(view)[1], chunk)
        return view

    def _gather(self, chunk: Chunk) -> memoryview:
        size_bytes = chunk.size_bytes
        if len(self._room) < size_bytes:
            self._room = np.empty(size_bytes, np.uint8)
        view = self._room.data[:size_bytes]
        done = 0
        for part in chunk.slices:
            _read_into(view[done : done + part.length_bytes], part)
            done += part.length_bytes
        return view


def _find_apart(chunk: Chunk) -> Scattered | None:
    """The batches of slices that lie apart in one file, if that is worth it."""
    parts = chunk.slices
    if (
        len(parts) == 1
        or len({part.path for part in parts}) > 1
        or chunk.size_bytes < APART_BYTES_MIN * len(parts)
    ):
        return None
    view = _map(parts)
    if view is None:
        return None
    first = min(part.position for part in parts)
    found = Scattered.find(
        view, ((part.position - first, part.position - first + part.length_bytes) for part in parts)
    )
    _check_offsets(found.table, chunk)
    return found


def _map(parts: Sequence[Slice]) -> memoryview | None:
    """A file from its first slice to its last where the system has it: a copy takes as long as all that is done to it.

    None: read them. To look at a page that cannot be read would kill the process; to ask for all pages of the slices
    first is only refused. Files never change once somebody may read them, and those that are deleted stay as long as
    they are mapped.
    """
    first = min(part.position for part in parts)
    start = _page_start(first)
    try:
        file = os.open(parts[0].path, os.O_RDONLY)
        try:
            size_bytes = max(part.position + part.length_bytes for part in parts) - start
            mapped = mmap.mmap(file, size_bytes, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=start)
        finally:
            os.close(file)
        for part in parts:
            page = _page_start(part.position)
            mapped.madvise(MADV_POPULATE_READ, page - start, part.position + part.length_bytes - page)
    except (OSError, ValueError):
        # Shorter than it should be, or on a disk that fails, or on a system that cannot: reading says which.
        return None
    return memoryview(mapped)[first - start :]


def _page_start(position: int) -> int:
    return position - position % mmap.ALLOCATIONGRANULARITY


def _starts(table: NDArray[np.void]) -> NDArray[np.int64]:
    """Where batches would begin if nothing lay between them."""
    starts: NDArray[np.int64] = np.cumsum(table["size_bytes"]) - table["size_bytes"]
    return starts


def _check_offsets(table: NDArray[np.void], chunk: Chunk) -> None:
    """No CRC covers a batch's base offset: what the control plane says of the chunk must hold."""
    firsts = table["base_offset"]
    ends = firsts + table["last_offset_delta"] + 1
    if chunk.is_dense:
        starts = np.cumsum([0, *(part.length_bytes for part in chunk.slices[:-1])])
        rows = np.searchsorted(_starts(table), starts)
        due = np.concatenate(([0], ends[:-1]))
        due[rows] = [part.first for part in chunk.slices]
        due_ends = [part.end for part in chunk.slices]
        is_sound = (firsts == due).all() and (ends[np.append(rows[1:], len(table)) - 1] == due_ends).all()
    else:
        # A peer's segment may begin with a batch that reaches over the start of what is wanted of it.
        is_sound = (
            ends[0] > chunk.slices[0].first
            and ends[-1] <= chunk.slices[0].end
            and (firsts[1:] >= ends[:-1]).all()
        )
    if not is_sound:
        first, last = chunk.slices[0], chunk.slices[-1]
        raise CorruptBatch(f"{first.path} holds other offsets than {first.first} to {last.end - 1}")


def _read_into(target: memoryview, part: Slice) -> None:
    try:
        file = os.open(part.path, os.O_RDONLY)
        try:
            done = 0
            while done < len(target):
                read = os.preadv(file, [target[done:]], part.position + done)
                if read == 0:
                    raise StoreFailed(f"{part.path} ends before byte {part.position + part.length_bytes}")
                done += read
        finally:
            os.close(file)
    except OSError as failure:
        raise StoreFailed(f"cannot read {part.path}: {failure.strerror}") from failure

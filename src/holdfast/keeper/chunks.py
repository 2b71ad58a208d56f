"""Pieces of a log cut into chunks that fit in memory, each of whole batches."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import StoreFailed
from holdfast.keeper.work import Piece
from holdfast.store.segment_index import SegmentIndex

CHUNK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes of one file."""

    path: str
    position: int
    length_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Batches that are read at once, in order; `piece` is the number of the one they belong to, or begin with."""

    piece: int
    slices: tuple[Slice, ...]
    is_clean: bool

    @property
    def size_bytes(self) -> int:
        """All slices together."""
        return sum(part.length_bytes for part in self.slices)


def cut(pieces: Sequence[Piece]) -> list[Chunk]:
    """Chunks in the order of offsets. A large segment is cut where its index knows that a batch begins.

    Extents that follow each other share a chunk; a segment never does, because it may stay as it is.
    """
    chunks: list[Chunk] = []
    loose: list[Slice] = []
    first_loose = 0

    def flush() -> None:
        if loose:
            chunks.append(Chunk(piece=first_loose, slices=tuple(loose), is_clean=False))
            loose.clear()

    for number, piece in enumerate(pieces):
        if piece.index is not None:
            flush()
            chunks += [
                Chunk(piece=number, slices=(part,), is_clean=piece.is_clean) for part in _cut_segment(piece)
            ]
            continue
        if sum(part.length_bytes for part in loose) + piece.length_bytes > CHUNK_BYTES:
            flush()
        if not loose:
            first_loose = number
        loose.append(Slice(piece.path, piece.position, piece.length_bytes))
    flush()
    return chunks


def _cut_segment(piece: Piece) -> Iterator[Slice]:
    if piece.length_bytes <= CHUNK_BYTES:
        if piece.length_bytes:
            yield Slice(piece.path, 0, piece.length_bytes)
        return
    assert piece.index is not None, piece
    start = 0
    for _, position, _ in SegmentIndex.load(Path(piece.index)).entries:
        if position - start >= CHUNK_BYTES:
            yield Slice(piece.path, start, position - start)
            start = position
    yield Slice(piece.path, start, piece.length_bytes - start)


class ChunkReader:
    """Reads chunks into one buffer, which the next read takes over."""

    def __init__(self) -> None:
        self._room: NDArray[np.uint8] = np.empty(0, np.uint8)

    def read(self, chunk: Chunk) -> memoryview:
        """The chunk's batches; StoreFailed if they are not there."""
        size_bytes = chunk.size_bytes
        if len(self._room) < size_bytes:
            self._room = np.empty(size_bytes, np.uint8)
        view = self._room.data[:size_bytes]
        done = 0
        for part in chunk.slices:
            _read_into(view[done : done + part.length_bytes], part)
            done += part.length_bytes
        return view


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

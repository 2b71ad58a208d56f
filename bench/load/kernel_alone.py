"""Compaction with nothing around it: read, index keys newest first, read again, copy what is left, write.

There is no plan, no check of offsets, no index of the new segment, no sync.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np

from holdfast.keeper.work import Piece, WorkItem
from holdfast.records.kernel import KeyIndex, copy_selected, count_data_records
from holdfast.records.kernel.layout import Mask
from holdfast.records.kernel.memory import Octets

CHUNK_BYTES: Final = 16 << 20
MAP_BYTES_MAX: Final = 512 << 20


def compact_alone(items: Sequence[WorkItem], directory: Path, *, threads: int) -> int:
    """Every item into a file below `directory`, as many at a time as there are threads; the records that are left."""
    with ThreadPoolExecutor(threads) as pool:
        targets = [directory / f"{number}.log" for number in range(len(items))]
        return sum(pool.map(_compact, [item.pieces for item in items], targets))


def _compact(pieces: Sequence[Piece], target: Path) -> int:
    chunks = list(_chunks(pieces))
    room = np.empty(max(map(_size_bytes, chunks)), np.uint8)
    out = np.empty(2 * CHUNK_BYTES, np.uint8)
    keys = KeyIndex(bytes_max=MAP_BYTES_MAX, seed=1)
    dead: list[Mask] = [np.empty(0, np.bool_)] * len(chunks)
    for number in reversed(range(len(chunks))):
        batches = _read(chunks[number], room)
        dead[number] = np.zeros(count_data_records(batches), np.bool_)
        keys.shadow(batches, dead[number])
    with target.open("wb", buffering=0) as file:
        for chunk, gone in zip(chunks, dead, strict=True):
            file.write(copy_selected(_read(chunk, room), ~gone, plain=True, out=out).buffer)
    return sum(len(gone) - int(gone.sum()) for gone in dead)


def _chunks(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    chunk: list[Piece] = []
    for piece in pieces:
        if chunk and _size_bytes(chunk) + piece.length_bytes > CHUNK_BYTES:
            yield chunk
            chunk = []
        chunk.append(piece)
    yield chunk


def _size_bytes(chunk: Sequence[Piece]) -> int:
    return sum(piece.length_bytes for piece in chunk)


def _read(chunk: Sequence[Piece], room: Octets) -> memoryview:
    at = 0
    for piece in chunk:
        with Path(piece.path).open("rb", buffering=0) as file:
            read = os.preadv(file.fileno(), [room.data[at : at + piece.length_bytes]], piece.position)
        assert read == piece.length_bytes, piece
        at += read
    return room.data[:at]

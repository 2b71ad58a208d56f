"""A replica's bytes looked at without trust: sound batches are decoded, and damage is named rather than raised."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from holdfast.errors import CorruptBatch, InflatesTooFar, StoreFailed
from holdfast.keeper.chunks import INFLATED_BYTES, Chunk, ChunkReader, Slice, cut
from holdfast.keeper.work import Piece
from holdfast.records.arrow import decode
from holdfast.records.batch import BatchView, check_length, validate
from holdfast.records.crc import crc32c
from holdfast.spark.held import Holding
from holdfast.spark.stored_plan import StoredRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes that are not what was written. `offset` is the first that they should hold, as far as one can tell."""

    store: int
    topic: str
    partition: int
    path: str
    position: int
    offset: int
    why: str


def examine(work: StoredRange, columns: list[str]) -> Iterator[pa.Table | Damage]:
    """The records of a range as far as they can be read, and what cannot be. Those near damage may come twice.

    No two ranges may share a segment.
    """
    holding = Holding(work.hold)
    reader = ChunkReader()
    crcs: dict[int, int] = {}
    damaged: set[int] = set()
    # Files are read to their ends, also beyond the range: nobody else checks the CRC of a segment.
    for chunk in _cut(work):
        if isinstance(chunk, Damage):
            yield chunk
            continue
        holding.renew()
        try:
            batches = reader.read(chunk)
            if not chunk.is_dense:
                crcs[chunk.piece] = crc32c(batches, crcs.get(chunk.piece, 0))
            yield from _decode_parts(reader, chunk, batches, work, columns)
        except (CorruptBatch, StoreFailed):
            damaged.add(chunk.piece)
            yield from _salvage(chunk, work, columns)
    yield from _check_segments(work, {number: crc for number, crc in crcs.items() if number not in damaged})


def _cut(work: StoredRange) -> Iterator[Chunk | Damage]:
    """Piece by piece where an index cannot be made anew: what is wrong with one is not the fault of the others."""
    try:
        yield from cut(work.pieces)
    except StoreFailed:
        for number, piece in enumerate(work.pieces):
            try:
                yield from (replace(chunk, piece=number) for chunk in cut([piece]))
            except StoreFailed as failure:
                yield _damage(work, piece, 0, piece.first, str(failure))


def _decode_parts(
    reader: ChunkReader, chunk: Chunk, batches: memoryview, work: StoredRange, columns: list[str]
) -> Iterator[pa.Table]:
    try:
        yield _decode(batches, chunk.is_dense, work, columns)
    except InflatesTooFar:
        for half in chunk.halved(batches):
            yield from _decode_parts(reader, half, reader.read(half), work, columns)


def _decode(batches: memoryview, is_dense: bool, work: StoredRange, columns: list[str]) -> pa.Table:
    start = max(work.offsets.start, work.settled_to) if is_dense else work.offsets.start
    return decode(
        batches, start=start, end=work.offsets.end, columns=columns, inflated_total_bytes_max=INFLATED_BYTES
    )


def _salvage(chunk: Chunk, work: StoredRange, columns: list[str]) -> Iterator[pa.Table | Damage]:
    """Batch by batch: what is sound counts, and each that is not is named."""
    for part in chunk.slices:
        try:
            batches = _read(part)
        except StoreFailed as failure:
            yield _damage(work, part, 0, part.first, str(failure))
            continue
        position, due = 0, part.first
        while position < len(batches):
            view = BatchView(batches, position)
            try:
                check_length(view, len(batches))
            except CorruptBatch as failure:
                # Where the next one begins nobody knows.
                yield _damage(work, part, position, due, failure.why)
                break
            end = position + view.size_bytes
            try:
                validate(batches, position)
                if view.next_offset <= due or view.next_offset > part.end:
                    raise CorruptBatch(
                        f"offsets {view.base_offset} to {view.last_offset} do not follow", position
                    )
                yield _decode(batches[position:end], chunk.is_dense, work, columns)
                due = view.next_offset
            except CorruptBatch as failure:
                yield _damage(work, part, position, due, failure.why)
            position = end


def _read(part: Slice) -> memoryview:
    try:
        file = os.open(part.path, os.O_RDONLY)
        try:
            data = os.pread(file, part.length_bytes, part.position)
        finally:
            os.close(file)
    except OSError as failure:
        raise StoreFailed(f"cannot be read: {failure.strerror}") from failure
    if len(data) != part.length_bytes:
        raise StoreFailed(f"ends before byte {part.position + part.length_bytes}")
    return memoryview(data)


def _check_segments(work: StoredRange, crcs: dict[int, int]) -> Iterator[Damage]:
    """What no batch's CRC covers, such as where its offsets begin, the segment's does."""
    for number, crc in crcs.items():
        piece = work.pieces[number]
        if crc != piece.crc:
            yield _damage(
                work, piece, 0, piece.first, f"the CRC of the file is {crc:#010x}, not {piece.crc:#010x}"
            )


def _damage(work: StoredRange, where: Piece | Slice, position: int, offset: int, why: str) -> Damage:
    return Damage(
        store=work.store,
        topic=work.offsets.topic,
        partition=work.offsets.partition,
        path=where.path,
        position=where.position + position,
        offset=offset,
        why=why,
    )

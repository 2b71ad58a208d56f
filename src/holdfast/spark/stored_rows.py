"""A task that reads the stores' own files: checked batches, decoded by the kernel into large Arrow batches."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.errors import CorruptBatch, HoldfastError, InflatesTooFar, ReadingOver, StoreFailed
from holdfast.keeper.chunks import INFLATED_BYTES, Chunk, ChunkReader, cut
from holdfast.records.arrow import decode
from holdfast.records.crc import crc32c
from holdfast.records.kernel.scanning import Selection
from holdfast.spark.held import Holding
from holdfast.spark.rows import ROWS_MAX, decoded_columns, to_spark
from holdfast.spark.stored_plan import StoredRange

Made = TypeVar("Made")


def read_stored(work: StoredRange, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Every record of the range that the pieces hold, control records left out."""
    target = to_arrow_schema(schema, timezone="UTC")
    for table in decode_stored(work, decoded_columns(target)):
        for batch in table.combine_chunks().to_batches(max_chunksize=ROWS_MAX):
            yield to_spark(batch, target, work.offsets)


def decode_stored(work: StoredRange, columns: list[str]) -> Iterator[pa.Table]:
    """The decoder's columns, chunk by chunk; every CRC is checked, of batches and of segments that are read whole."""
    return read_chunks(work, lambda batches, selection: decode(batches, columns=columns, **asdict(selection)))


def read_chunks(work: StoredRange, use: Callable[[memoryview, Selection], Made]) -> Iterator[Made]:
    """What `use` makes of the batches of each chunk, which it must not keep; it has to check their CRCs.

    It is used again on the halves of a chunk that inflates too far.
    """
    holding = Holding(work.hold)
    reader = ChunkReader()
    crcs: dict[int, int] = {}
    chunks = cut_or_explain(work)
    while chunks:
        chunk = chunks.pop(0)
        if chunk.slices[-1].end <= work.offsets.start or chunk.slices[0].first >= work.offsets.end:
            continue
        holding.renew()
        try:
            batches = reader.read(chunk)
            yield use(batches, _selection(chunk, work))
        except InflatesTooFar:
            chunks[:0] = chunk.halved(batches)
            continue
        except (CorruptBatch, StoreFailed) as failure:
            raise explain(failure, chunk, work) from failure
        if not chunk.is_dense and _is_whole(work, chunk.piece):
            crcs[chunk.piece] = crc32c(batches, crcs.get(chunk.piece, 0))
    _check_segments(work, crcs)


def cut_or_explain(work: StoredRange) -> list[Chunk]:
    """The chunks of a range; a file that is gone is told of as such."""
    try:
        return cut(work.pieces)
    except StoreFailed as failure:
        raise StoreFailed(f"replica {work.store}: {failure}") from failure


def explain(failure: HoldfastError, chunk: Chunk, work: StoredRange) -> HoldfastError:
    """What is wrong, where, and whose fault it may be."""
    if gone := find_gone(chunk):
        return ReadingOver(
            f"{gone} is gone: the read took longer than its files were held for; ask for more with the option"
            " heldSeconds, or read again. If it happens at once, replica"
            f" {work.store} has lost the file"
        )
    if isinstance(failure, CorruptBatch):
        path, position = locate(chunk, failure.position)
        return StoreFailed(
            f"replica {work.store} is damaged: {path} at byte {position}: {failure.why};"
            f" read another one with the option replica, and see `holdfast log diff {work.offsets.topic}`"
        )
    return StoreFailed(f"replica {work.store}: {failure}")


def find_gone(chunk: Chunk) -> str | None:
    """The first file of a chunk that is not there."""
    return next((part.path for part in chunk.slices if not Path(part.path).exists()), None)


def locate(chunk: Chunk, position: int) -> tuple[str, int]:
    """The file, and the byte in it, of a position in a chunk's bytes."""
    for part in chunk.slices:
        if position < part.length_bytes:
            return part.path, part.position + position
        position -= part.length_bytes
    last = chunk.slices[-1]
    return last.path, last.position + last.length_bytes


def _selection(chunk: Chunk, work: StoredRange) -> Selection:
    # The first extent may begin before the last segment ends.
    start = max(work.offsets.start, work.settled_to) if chunk.is_dense else work.offsets.start
    return Selection(start=start, end=work.offsets.end, inflated_total_bytes_max=INFLATED_BYTES)


def _is_whole(work: StoredRange, number: int) -> bool:
    """Whether all of a segment is read, so that its CRC can be known."""
    piece = work.pieces[number]
    return work.offsets.start <= piece.first and piece.end <= work.offsets.end


def _check_segments(work: StoredRange, crcs: dict[int, int]) -> None:
    """CRC of whole segments: it covers what the CRCs of their batches leave out."""
    for number, crc in crcs.items():
        piece = work.pieces[number]
        if crc != piece.crc:
            raise StoreFailed(
                f"replica {work.store} is damaged: the CRC of {piece.path} is {crc:#010x}, not {piece.crc:#010x}"
            )

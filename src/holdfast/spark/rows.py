"""A partition's stored batches as Arrow batches in the shape that Spark expects."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import Isolation
from holdfast.client.reader import FETCH_BYTES, Chunk, OffsetRange, read_range
from holdfast.records.arrow import scan_chunks, to_batch
from holdfast.records.buffers import ReadableBytes
from holdfast.records.encode import hashes_of_keys
from holdfast.records.kernel.scanning import Selection
from holdfast.spark.schema import KEY_HASH

Item = TypeVar("Item")

ROWS_MIN: Final = 32_768
"""Smaller Arrow batches cost more in transfer to the JVM than they save in memory."""

ROWS_MAX: Final = 4 * ROWS_MIN
STORED_BYTES_MIN: Final = FETCH_BYTES // 2
"""As much is an Arrow batch of its own, whatever its rows. An answer ends with a whole batch, mostly a little below the
bytes that were asked for: if it had to wait for the next one, both would be copied."""

TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000
"""Spark counts microseconds in 64 bits."""

DECODED: Final = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    "headers": "headers",
    KEY_HASH: "key",
}
"""Spark's columns that come from the records, by their name in the decoder; the others are constant."""


def read_rows(
    cluster: Cluster,
    wanted: OffsetRange,
    schema: StructType,
    *,
    isolation: Isolation,
    node_id: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Every record of the range, control records and, under READ_COMMITTED, aborted ones left out."""
    target = to_arrow_schema(schema, timezone="UTC")
    decoded = decoded_columns(target)
    for stored in read_stored(cluster, wanted, isolation=isolation, node_id=node_id):
        # The reader has checked every CRC: once is enough.
        for found in scan_chunks(stored, Selection(start=wanted.start, end=wanted.end, check_crcs=False)):
            batch = to_batch(found, decoded)
            for first in range(0, batch.num_rows, ROWS_MAX):
                yield to_spark(batch.slice(first, ROWS_MAX), target, wanted)


def decoded_columns(target: pa.Schema) -> list[str]:
    """The decoder's columns that these are made of: one, at least."""
    return list(dict.fromkeys(DECODED[name] for name in target.names if name in DECODED)) or ["offset"]


def read_stored(
    cluster: Cluster, wanted: OffsetRange, *, isolation: Isolation, node_id: int | None = None
) -> Iterator[bytes | memoryview]:
    """The visible batches of the range as they are stored, checked, in pieces that fill an Arrow batch each."""
    chunks = read_range(cluster, wanted, isolation=isolation, node_id=node_id, allocate=pooled)
    return gather(ahead(chunks))


def pooled(size: int) -> memoryview:
    """Memory that the process has already: to zero fresh pages takes as long as what is read into them.

    Arrow's pool keeps what it is given back, and does not zero it.
    """
    return memoryview(pa.allocate_buffer(size)).cast("B")


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Has the next item made while the last one is in use: decoding hides the way to the broker and back."""
    with ThreadPoolExecutor(max_workers=1) as maker:
        coming = maker.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = maker.submit(next, items, None)
            yield item


def gather(chunks: Iterable[Chunk]) -> Iterator[bytes | memoryview]:
    """Visible batches put together until they hold enough rows, or bytes, for one Arrow batch.

    An answer is not divided, unless it has very many rows: what is left of it would be copied beside the next one.
    """
    pieces: list[_Piece] = []
    rows = stored_bytes = 0
    for chunk in chunks:
        for batch in without_aborted(chunk.batches, chunk.aborted):
            start, end = batch.position, batch.position + batch.size_bytes
            if pieces and pieces[-1].buffer is batch.buffer and pieces[-1].end == start:
                start = pieces.pop().start
            pieces.append(_Piece(batch.buffer, start, end))
            rows += batch.record_count
            stored_bytes += batch.size_bytes
            # Of compressed batches fewer: what they inflate to is bounded for all that are read together.
            if rows >= (ROWS_MIN if batch.codec else ROWS_MAX // 2) or stored_bytes >= FETCH_BYTES:
                yield _joined(pieces)
                pieces, rows, stored_bytes = [], 0, 0
        if rows >= ROWS_MIN or stored_bytes >= STORED_BYTES_MIN:
            yield _joined(pieces)
            pieces, rows, stored_bytes = [], 0, 0
    if pieces:
        yield _joined(pieces)


class _Piece(NamedTuple):
    """Batches that lie behind each other in one answer."""

    buffer: ReadableBytes
    start: int
    end: int


def _joined(pieces: Sequence[_Piece]) -> bytes | memoryview:
    """A single piece need not be copied."""
    views = [memoryview(piece.buffer)[piece.start : piece.end] for piece in pieces]
    return views[0] if len(views) == 1 else b"".join(views)


def to_spark(batch: pa.RecordBatch, target: pa.Schema, source: OffsetRange) -> pa.RecordBatch:
    """The decoder's columns and the constant ones, under Spark's names and types."""
    makers: dict[str, Callable[[pa.DataType], pa.Array]] = {
        "topic": lambda kind: pa.repeat(pa.scalar(source.topic, kind), batch.num_rows),
        "partition": lambda kind: pa.repeat(pa.scalar(source.partition, kind), batch.num_rows),
        "timestamp": lambda kind: _microseconds(batch["timestamp"], kind),
        "headers": lambda kind: _headers(batch["headers"], kind),
        KEY_HASH: lambda kind: hashes_of_keys(batch["key"]).cast(kind),
    }
    columns = [
        makers[field.name](field.type)
        if field.name in makers
        else batch[DECODED[field.name]].cast(field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _microseconds(milliseconds: pa.Array, kind: pa.DataType) -> pa.Array:
    """A producer may claim any time: what Spark cannot count in microseconds becomes null."""
    try:
        return milliseconds.cast(kind)
    except pa.ArrowInvalid:
        count = milliseconds.view(pa.int64())
        # Not by the absolute value: -2⁶³ has none in 64 bits.
        known = pc.and_(pc.greater_equal(count, -TIMESTAMP_MS_MAX), pc.less_equal(count, TIMESTAMP_MS_MAX))
        return pc.if_else(known, count, None).view(milliseconds.type).cast(kind)


def _headers(lists: pa.ListArray, kind: pa.DataType) -> pa.Array:
    """As Spark's Kafka source has it: a record without headers has null, not an empty list."""
    none = pc.equal(pc.list_value_length(lists), 0)
    entries = lists.flatten().cast(kind.value_type)
    offsets = pc.subtract(lists.offsets, lists.offsets[0])
    return pa.ListArray.from_arrays(offsets, entries, type=kind, mask=none)

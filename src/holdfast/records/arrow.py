"""Record batches → one Arrow table, without a Python loop over records."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.records.batch import CONTROL_BIT, LOG_APPEND_TIME_BIT, SEQUENCE_MASK, TRANSACTIONAL_BIT
from holdfast.records.buffers import ReadableBytes
from holdfast.records.codecs import INFLATED_BYTES_MAX, INFLATED_TOTAL_BYTES_MAX
from holdfast.records.kernel.fields import scan_headers
from holdfast.records.kernel.gather import gather, lay_out
from holdfast.records.kernel.layout import Columns
from holdfast.records.kernel.memory import Octets
from holdfast.records.kernel.scanning import Scan, Selection, Stretch, open_groups

HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.field("item", HEADER, nullable=False)), nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int16(), nullable=False),
        pa.field("sequence", pa.int32(), nullable=False),
        pa.field("transactional", pa.bool_(), nullable=False),
        pa.field("control", pa.bool_(), nullable=False),
    ]
)
"""timestamp_type is 0 for the producer's time, 1 for the broker's; producer_id, producer_epoch and sequence
are -1 for producers that have none."""

ARRAY_BYTES_MAX = 2**31 - 1
CHUNK_BYTES = 8 << 20
"""Payload per chunk of the table: small enough for the CPU's cache, large enough for Spark, and far from the
2 GiB that Arrow's 32-bit offsets can address. Only a single batch may exceed it."""


def decode(
    buffer: ReadableBytes,
    *,
    start: int | None = None,
    end: int | None = None,
    columns: Iterable[str] | None = None,
    include_control: bool = False,
    check_crcs: bool = True,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
    inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX,
) -> pa.Table:
    """The records of whole batches with offsets in [start, end); raises CorruptBatch.

    `columns` names those of SCHEMA to build, in order: key and offset alone are faster than everything.
    A batch that inflates to more than `inflated_bytes_max` is corrupt, and so is a buffer whose batches inflate
    to more than `inflated_total_bytes_max`, read in parts or not.
    """
    names = SCHEMA.names if columns is None else list(columns)
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown:
        raise ValueError(f"no such column: {', '.join(unknown)}; there are {', '.join(SCHEMA.names)}")
    selection = Selection(
        start=start,
        end=end,
        include_control=include_control,
        check_crcs=check_crcs,
        inflated_bytes_max=inflated_bytes_max,
        inflated_total_bytes_max=inflated_total_bytes_max,
    )
    chunks = [to_batch(found, names) for found in scan_chunks(buffer, selection)]
    return pa.Table.from_batches(chunks, pa.schema([SCHEMA.field(name) for name in names]))


def scan_chunks(buffer: ReadableBytes, selection: Selection) -> Iterator[Scan]:
    """Where the records lie, in parts that each make one chunk of a table; none is empty."""
    for stretch in open_chunks(buffer, selection):
        found = stretch.scan(make_columns)
        if len(found.columns.offset):
            yield found


def open_chunks(buffer: ReadableBytes, selection: Selection) -> Iterator[Stretch]:
    """The same parts before their records are found."""
    return open_groups(buffer, selection, group_bytes=CHUNK_BYTES)


def to_batch(found: Scan, columns: Iterable[str]) -> pa.RecordBatch:
    """The columns of SCHEMA by name, of one part."""
    names = list(columns)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return pa.RecordBatch.from_arrays([_COLUMNS[name](found) for name in names], schema=schema)


def _offset(found: Scan) -> pa.Array:
    return pa.array(found.columns.offset)


def _timestamp(found: Scan) -> pa.Array:
    return pa.array(found.columns.timestamp).view(SCHEMA.field("timestamp").type)


def _key(found: Scan) -> pa.Array:
    return _binary(found.data, found.columns.key_start, found.columns.key_bytes)


def _value(found: Scan) -> pa.Array:
    return _binary(found.data, found.columns.value_start, found.columns.value_bytes)


def _headers(found: Scan) -> pa.Array:
    """Lists of name and value; mostly empty ones."""
    offsets = np.zeros(len(found.columns.offset) + 1, np.int32)
    np.cumsum(found.columns.header_count, out=offsets[1:])
    count = int(offsets[-1])
    name_start, value_start = np.empty((2, count), np.int64)
    name_bytes, value_bytes = np.empty((2, count), np.int32)
    if count:
        scan_headers(found.data, found.columns, (name_start, name_bytes), (value_start, value_bytes))
    names = _as_text(_binary(found.data, name_start, name_bytes))
    values = _binary(found.data, value_start, value_bytes)
    entries = pa.StructArray.from_arrays([names, values], fields=list(HEADER))
    return pa.ListArray.from_arrays(pa.array(offsets), entries, type=SCHEMA.field("headers").type)


def _sequence(found: Scan) -> pa.Array:
    """Each record's own number: the batch's first, plus its distance from the base offset, wrapped at 2³¹."""
    batches = found.batches
    sequences = np.full(len(found.columns.offset), -1, np.int32)
    if (batches["base_sequence"] >= 0).any():
        distance = found.columns.offset - np.repeat(batches["base_offset"], batches["row_count"])
        base = np.repeat(batches["base_sequence"], batches["row_count"])
        np.copyto(sequences, (base + distance) & SEQUENCE_MASK, where=base >= 0, casting="unsafe")
    return pa.array(sequences)


def _of_batch(field: str) -> Callable[[Scan], pa.Array]:
    return lambda found: pa.array(np.repeat(found.batches[field], found.batches["row_count"]))


def _attribute(bit: int, kind: type[np.generic]) -> Callable[[Scan], pa.Array]:
    def column(found: Scan) -> pa.Array:
        flags = (found.batches["attributes"] & bit != 0).astype(kind)
        return pa.array(np.repeat(flags, found.batches["row_count"]))

    return column


_COLUMNS: dict[str, Callable[[Scan], pa.Array]] = {
    "offset": _offset,
    "timestamp": _timestamp,
    "timestamp_type": _attribute(LOG_APPEND_TIME_BIT, np.int8),
    "key": _key,
    "value": _value,
    "headers": _headers,
    "producer_id": _of_batch("producer_id"),
    "producer_epoch": _of_batch("producer_epoch"),
    "sequence": _sequence,
    "transactional": _attribute(TRANSACTIONAL_BIT, np.bool_),
    "control": _attribute(CONTROL_BIT, np.bool_),
}


def _binary(data: Octets, starts: NDArray[np.int64], lengths: NDArray[np.int32]) -> pa.Array:
    rows = len(lengths)
    offsets = allocate(4 * (rows + 1)).view(np.int32)
    validity = np.zeros((rows + 7) // 8, np.uint8)
    total, nulls = lay_out(lengths, offsets, validity)
    assert total <= ARRAY_BYTES_MAX, "a chunk is one batch, or some of a bounded size"
    output = allocate(total)
    gather(data, starts, offsets, output)
    buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(output)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)


def make_columns(count: int) -> Columns:
    """Room for so many records."""
    return Columns.empty(count, allocate)


def allocate(count: int) -> Octets:
    """Memory of Arrow's pool, which keeps warm what tables give back; fresh pages cost more than decoding."""
    return np.frombuffer(pa.allocate_buffer(count), np.uint8)


def _as_text(names: pa.Array) -> pa.Array:
    """As strings. Kafka does not check that names are UTF-8, and its Java client replaces what is not."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        distinct = names.dictionary_encode()
        texts: list[Any] = [name.as_py().decode(errors="replace") for name in distinct.dictionary]
        return pa.array(texts, pa.string()).take(distinct.indices)

"""Whole buffers as Arrow tables."""

import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings

from holdfast.records import arrow
from holdfast.records.arrow import SCHEMA, decode
from holdfast.records.batch import Codec, seal
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.control import ControlType, control_batch
from holdfast.records.walk import walk
from tests.records import oracles
from tests.records.kernel.test_scan import buffers


def as_rows(table: pa.Table) -> list[tuple[object, ...]]:
    """offset, timestamp, key, value, headers of every row."""
    timestamps = table["timestamp"].cast("int64").to_pylist()
    others = [table[name].to_pylist() for name in ("offset", "key", "value", "headers")]
    return [
        (offset, timestamp, key, value, tuple((header["key"], header["value"]) for header in headers))
        for timestamp, offset, key, value, headers in zip(timestamps, *others, strict=True)
    ]


def plain(buffer: bytes) -> list[tuple[object, ...]]:
    """The same from the plain reader."""
    return [
        (record.offset, record.timestamp_ms, record.key, record.value, tuple(record.headers))
        for view in walk(buffer)
        if not view.is_control
        for record in read_records(view)
    ]


@settings(max_examples=150)
@given(buffer=buffers())
def test_decode_equals_the_plain_reader(buffer: bytes) -> None:
    """Every record in every codec, nulls told from empty, in a table that Arrow itself finds valid."""
    table = decode(buffer)
    table.validate(full=True)
    assert table.schema == SCHEMA
    assert as_rows(table) == plain(buffer)


@pytest.mark.parametrize(("library", "codec"), oracles.WRITERS)
@settings(max_examples=25)
@given(bare=oracles.records)
def test_decode_what_others_build(library: str, codec: Codec, bare: list[Record]) -> None:
    """Batches of other libraries come out as they went in."""
    table = decode(oracles.write(oracles.WRITERS[library, codec], bare, codec))
    assert as_rows(table) == [
        (offset, record.timestamp_ms, record.key, record.value, tuple(record.headers))
        for offset, record in enumerate(bare)
    ]


def test_producer_columns() -> None:
    """Producer, sequence (wrapped), flags and the kind of timestamp, batch by batch."""
    wrapping = build_batch(
        [Record(), Record(), Record(offset=9)],
        base_offset=5,
        producer_id=77,
        producer_epoch=4,
        base_sequence=2**31 - 1,
        transactional=True,
    )
    marker = control_batch(ControlType.COMMIT, base_offset=10, producer_id=77, producer_epoch=4)
    nobody = build_batch([Record()], base_offset=11, log_append_time_ms=8)
    table = decode(wrapping + marker + nobody, include_control=True)
    assert table["producer_id"].to_pylist() == [77, 77, 77, 77, -1]
    assert table["producer_epoch"].to_pylist() == [4, 4, 4, 4, -1]
    assert table["sequence"].to_pylist() == [2**31 - 1, 0, 3, -1, -1]
    assert table["transactional"].to_pylist() == [True, True, True, True, False]
    assert table["control"].to_pylist() == [False, False, False, True, False]
    assert table["timestamp_type"].to_pylist() == [0, 0, 0, 0, 1]


def test_a_range_of_offsets() -> None:
    """start and end cut through batches, half open."""
    buffer = b"".join(build_batch([Record()] * 10, base_offset=10 * n) for n in range(5))
    assert decode(buffer, start=17, end=32)["offset"].to_pylist() == list(range(17, 32))
    assert decode(buffer, start=50).num_rows == decode(buffer, end=0).num_rows == 0


def test_columns_can_be_chosen() -> None:
    """Only the named columns, in that order; an unknown one is named in the error."""
    buffer = build_batch([Record(key=b"k", value=b"v")])
    table = decode(buffer, columns=["key", "offset"])
    assert table.column_names == ["key", "offset"]
    assert table.to_pylist() == [{"key": b"k", "offset": 0}]
    with pytest.raises(ValueError, match="no such column: partition"):
        decode(buffer, columns=["offset", "partition"])


def test_long_buffers_become_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chunk grows past its bound, for Arrow's offsets have 32 bits, and nothing is lost."""
    monkeypatch.setattr(arrow, "CHUNK_BYTES", 1000)
    batches = [
        build_batch([Record(value=bytes(90))] * 5, base_offset=5 * n, codec=codec)
        for n, codec in enumerate([Codec.NONE, Codec.ZSTD] * 10)
    ]
    table = decode(b"".join(batches))
    assert table["offset"].to_pylist() == list(range(100))
    assert table["value"].num_chunks > 5
    assert max(chunk.nbytes for chunk in table["value"].chunks) < 2000


def test_header_names_need_not_be_text() -> None:
    """Kafka does not check them; what is not UTF-8 is replaced, as the Java client does."""
    batch = bytearray(build_batch([Record(headers=[("good", b"1"), ("evil", None), ("grün", b"")])]))
    batch[batch.index(b"evil") + 1] = 0xFF
    seal(batch)
    table = decode(batch)
    table.validate(full=True)
    assert table["headers"].to_pylist() == [
        [{"key": "good", "value": b"1"}, {"key": "e\ufffdil", "value": None}, {"key": "grün", "value": b""}]
    ]
    assert as_rows(table) == plain(bytes(batch))


def test_timestamps_are_milliseconds_utc() -> None:
    """A timestamp is an instant, whatever the reader's time zone, and the farthest ones do not overflow."""
    table = decode(build_batch([Record(timestamp_ms=0), Record(timestamp_ms=2**63 - 1)]))
    assert table.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")
    assert table["timestamp"].cast("int64").to_pylist() == [0, 2**63 - 1]


def test_nothing_decodes_to_nothing() -> None:
    """An empty buffer has the whole schema and no rows; so have empty batches."""
    assert decode(b"").schema == SCHEMA
    assert decode(build_batch([], last_offset=4)).num_rows == 0


def test_a_table_outlives_its_buffer() -> None:
    """Columns are copies: reusing the buffer does not change a table that was made from it."""
    buffer = bytearray(build_batch([Record(key=b"key", value=b"value")]))
    table = decode(buffer)
    struct.pack_into(f"{len(buffer)}s", buffer, 0, b"")
    assert table.to_pylist()[0]["value"] == b"value"

"""Batches that we build, and batches that we read, against aiokafka and kafka-python."""

import pytest
from hypothesis import given, settings

from holdfast.errors import CorruptBatch
from holdfast.records.batch import BatchView, Codec, validate
from holdfast.records.build import build_batch, read_records
from holdfast.records.record import Record
from tests.records import oracles


@pytest.mark.parametrize(("library", "codec"), oracles.READERS)
@settings(max_examples=40)
@given(start=oracles.base_offset, bare=oracles.records)
def test_others_read_what_we_build(library: str, codec: Codec, start: int, bare: list[Record]) -> None:
    """Every field of every record survives the way from our builder to another library's reader."""
    batch = build_batch(bare, base_offset=start, codec=codec)
    assert oracles.read(oracles.READERS[library, codec], batch) == oracles.numbered(bare, start)


@pytest.mark.parametrize(("library", "codec"), oracles.WRITERS)
@settings(max_examples=40)
@given(bare=oracles.records)
def test_we_read_what_others_build(library: str, codec: Codec, bare: list[Record]) -> None:
    """Every field of every record survives the way from another library's builder to our reader."""
    batch = oracles.write(oracles.WRITERS[library, codec], bare, codec)
    assert list(read_records(validate(batch))) == oracles.numbered(bare, 0)


@settings(max_examples=60)
@given(gapped=oracles.gapped_records())
def test_gaps_keep_their_offsets(gapped: tuple[int, list[Record]]) -> None:
    """Records with offsets of their own keep them, for us and for aiokafka."""
    start, placed = gapped
    batch = build_batch(placed, base_offset=start)
    assert list(read_records(validate(batch))) == placed
    assert oracles.read(oracles.AiokafkaBatch, batch) == placed


def test_a_gap_may_end_the_batch() -> None:
    """last_offset covers records that are gone, so that readers go on behind them."""
    view = validate(build_batch([Record(value=b"x", offset=12)], base_offset=10, last_offset=19))
    assert (view.base_offset, view.last_offset, view.next_offset, view.record_count) == (10, 19, 20, 1)
    assert [record.offset for record in read_records(view)] == [12]


def test_an_empty_batch_keeps_its_header() -> None:
    """Without records the offsets, the producer and the newest timestamp stay, uncompressed."""
    batch = build_batch(
        [],
        base_offset=5,
        last_offset=9,
        codec=Codec.ZSTD,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        max_timestamp=1234,
    )
    view = validate(batch)
    assert (view.base_offset, view.next_offset, view.record_count, view.size_bytes) == (5, 10, 0, 61)
    assert (view.producer_id, view.producer_epoch, view.last_sequence) == (7, 1, 7)
    assert (view.codec, view.max_timestamp) == (Codec.NONE, 1234)
    assert list(read_records(view)) == []
    assert oracles.AiokafkaBatch(batch).next_offset == 10


def test_delete_horizon_takes_the_base_timestamp() -> None:
    """The horizon replaces the base timestamp, and the records' own timestamps still come out right."""
    bare = [Record(key=b"k", timestamp_ms=1000), Record(key=b"l", timestamp_ms=2000)]
    batch = build_batch(bare, delete_horizon_ms=99_000)
    view = validate(batch)
    assert (view.delete_horizon_ms, view.max_timestamp) == (99_000, 2000)
    assert [record.timestamp_ms for record in read_records(view)] == [1000, 2000]
    assert [record.timestamp_ms for record in oracles.read(oracles.AiokafkaBatch, batch)] == [1000, 2000]
    assert validate(build_batch(bare)).delete_horizon_ms is None


def test_log_append_time_is_every_records_time() -> None:
    """With the broker's time all records carry it, whatever the producer wrote."""
    batch = build_batch([Record(timestamp_ms=1), Record(timestamp_ms=2)], log_append_time_ms=777)
    view = validate(batch)
    assert view.is_log_append_time
    assert [record.timestamp_ms for record in read_records(view)] == [777, 777]
    assert [record.timestamp_ms for record in oracles.read(oracles.AiokafkaBatch, batch)] == [777, 777]


def test_offsets_that_go_back_are_our_own_bug() -> None:
    """The builder refuses to write what a reader would have to refuse."""
    with pytest.raises(ValueError, match="offset 3"):
        build_batch([Record(offset=5), Record(offset=3)])
    with pytest.raises(ValueError, match="last_offset 4"):
        build_batch([Record(offset=5)], last_offset=4)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\x0c\x00\x00\x00\x01\x01", "records in 6 bytes"),
        (b"\x7e\x00\x00\x00\x01\x01\x00", "a record of 63 bytes"),
        (b"\x0c\x00\x00\x00\x7f\x01\x00", "a field of -64 bytes"),
        (b"\x0c\x00\x00\x00\x7e\x01\x00", "a field of 63 bytes"),
        (b"\x0c\x00\x00\x00\x01\x01\x02", "1 record headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "header without a name"),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", "stray bytes"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "left over"),
        (b"\x0c\x00\x00\x02\x01\x01\x00", "out of order"),
        (b"\x0c\x00\x00\x01\x01\x01\x00", "out of order"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", "does not end"),
    ],
)
def test_records_that_do_not_add_up(payload: bytes, why: str) -> None:
    """Each way in which one record can contradict its batch has a message of its own."""
    batch = build_batch([Record()])[:61] + payload
    view = BatchView(batch)
    view.size_bytes = len(batch)
    with pytest.raises(CorruptBatch, match=why):
        list(read_records(view))

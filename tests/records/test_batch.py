"""The batch header: reading, checking, patching."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import CorruptBatch
from holdfast.records.batch import (
    DELETE_HORIZON_BIT,
    HEADER,
    BatchView,
    Codec,
    assign,
    seal,
    stamp_log_append_time,
    validate,
)
from holdfast.records.build import Record, build_batch, read_records
from tests.records import oracles

BATCH = build_batch([Record(key=b"k", value=b"v", timestamp_ms=1000)] * 3, base_offset=40)


def patched(form: str, at: int, value: int, *, batch: bytes = BATCH) -> bytearray:
    """The batch with one field changed and its CRC made to fit."""
    changed = bytearray(batch)
    struct.pack_into(form, changed, at, value)
    if BatchView(changed).size_bytes == len(changed):
        seal(changed)
    return changed


producer_state = st.fixed_dictionaries(
    {
        "is_transactional": st.integers(0, 1),
        "producer_id": st.integers(0, 2**63 - 1),
        "producer_epoch": st.integers(0, 2**15 - 1),
        "base_sequence": st.integers(0, 2**31 - 1),
    }
)


@settings(max_examples=60)
@given(bare=oracles.records, codec=st.sampled_from(Codec), producer=producer_state)
def test_header_fields_as_aiokafka_sees_them(
    bare: list[Record], codec: Codec, producer: dict[str, int]
) -> None:
    """Our view and aiokafka's agree on every header field of a batch that aiokafka built."""
    batch = oracles.write(oracles.AiokafkaBuilder, bare, codec, **producer)
    ours, theirs = validate(batch), oracles.AiokafkaBatch(batch)
    for name in ("base_offset", "magic", "crc", "attributes", "last_offset_delta", "max_timestamp"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name in ("producer_id", "producer_epoch", "base_sequence", "is_transactional", "next_offset"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.base_timestamp == theirs.first_timestamp
    assert ours.codec == theirs.compression_type
    assert ours.is_control == theirs.is_control_batch
    assert ours.size_bytes == len(batch)
    assert ours.record_count == len(bare)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_at_any_position(kind: type) -> None:
    """The view reads in place, wherever the batch begins, and hands out the payload without a copy."""
    buffer = kind(b"noise" + BATCH + b"more noise")
    view = validate(buffer, 5)
    assert (view.base_offset, view.last_offset, view.next_offset) == (40, 42, 43)
    assert view.records == BATCH[61:]
    assert view.records.obj is (buffer.obj if isinstance(buffer, memoryview) else buffer)


@pytest.mark.parametrize(
    ("base_sequence", "count", "last_sequence"),
    [(0, 1, 0), (2**31 - 2, 2, 2**31 - 1), (2**31 - 2, 5, 2), (-1, 5, -1)],
)
def test_sequence_wraps(base_sequence: int, count: int, last_sequence: int) -> None:
    """After 2³¹ - 1 comes 0; a batch without a sequence has none at its end either."""
    view = validate(build_batch([Record()] * count, base_sequence=base_sequence))
    assert view.last_sequence == last_sequence


@pytest.mark.parametrize(
    ("form", "at", "value", "why"),
    [
        (">b", 16, 1, "record format v1"),
        (">i", 8, 48, "shorter than its header"),
        (">i", 8, -1, "shorter than its header"),
        (">i", 8, 2**31 - 1, "of which only"),
        (">h", 21, 5, "unknown codec 5"),
        (">i", 23, -1, "last delta -1"),
        (">i", 23, 1, "3 records with a last offset delta of 1"),
        (">q", 0, -1, "offsets from -1"),
        (">q", 0, 2**63 - 2, "offsets from"),
        (">i", 57, -1, "-1 records"),
        (">i", 57, 0, "0 records in"),
    ],
)
def test_each_fault_is_named(form: str, at: int, value: int, why: str) -> None:
    """A header that contradicts itself is refused even though its CRC is right, with the position."""
    with pytest.raises(CorruptBatch, match=why) as caught:
        validate(b"###" + bytes(patched(form, at, value)), 3)
    assert caught.value.position == 3


def test_a_count_that_the_payload_cannot_hold() -> None:
    """2³¹ - 1 records are refused from the header alone, compressed payload or not empty."""
    crowded = patched(">i", 23, 2**31 - 1)
    with pytest.raises(CorruptBatch, match="2147483647 records in"):
        validate(patched(">i", 57, 2**31 - 1, batch=bytes(crowded)))


@settings(max_examples=200)
@given(at=st.integers(0, len(BATCH) - 1), flip=st.integers(1, 255))
def test_every_byte_under_the_crc_counts(at: int, flip: int) -> None:
    """Any changed byte is noticed, save those of base offset and leader epoch, which the broker fills in."""
    changed = bytearray(BATCH)
    changed[at] ^= flip
    if at < 8 or 12 <= at < 16:
        assert BatchView(changed).crc == BatchView(BATCH).crc
    else:
        with pytest.raises(CorruptBatch):
            validate(changed)


def test_assign_keeps_the_crc() -> None:
    """Offset and leader epoch change in place, nothing else does, and the batch stays valid."""
    buffer = bytearray(b"12" + BATCH)
    assign(buffer, 2, base_offset=2**40, leader_epoch=9)
    view = validate(buffer, 2)
    assert (view.base_offset, view.leader_epoch) == (2**40, 9)
    assert [record.offset for record in read_records(view)] == [2**40, 2**40 + 1, 2**40 + 2]
    assign(buffer, 2, base_offset=40, leader_epoch=-1)
    assert buffer[2:] == BATCH


def test_stamping_the_brokers_time() -> None:
    """LogAppendTime sets bit, timestamp and a fitting CRC, which aiokafka confirms."""
    buffer = bytearray(BATCH)
    stamp_log_append_time(buffer, 0, timestamp_ms=5_000)
    view = validate(buffer)
    assert (view.is_log_append_time, view.max_timestamp, view.first_timestamp) == (True, 5_000, 5_000)
    stamped = oracles.read(oracles.AiokafkaBatch, bytes(buffer))
    assert {record.timestamp_ms for record in stamped} == {5_000}


def test_the_first_time_is_that_of_the_first_record() -> None:
    """Not where the header has a delete horizon in its place: then all that is known is the greatest."""
    times = [Record(value=b"v", timestamp_ms=time) for time in (7_000, 9_000, 3_000)]
    batch = build_batch(times)
    assert (BatchView(batch).first_timestamp, BatchView(batch).max_timestamp) == (7_000, 9_000)
    stamped = patched(">h", 21, DELETE_HORIZON_BIT, batch=batch)
    assert BatchView(stamped).first_timestamp == 9_000


@pytest.mark.parametrize("length", [0, 1, 60])
def test_too_short_for_a_header(length: int) -> None:
    """Fewer bytes than a header has are a corrupt batch, not a struct error."""
    with pytest.raises(CorruptBatch, match=f"{length} bytes are too few"):
        validate(BATCH[:length])


def test_header_is_61_bytes() -> None:
    """The layout is the one Kafka documents."""
    assert HEADER.size == 61

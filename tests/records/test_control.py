"""Control batches: ours, Kafka's own layout, and the filler."""

import struct

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from holdfast.errors import CorruptBatch
from holdfast.records.batch import validate
from holdfast.records.build import Record, build_batch
from holdfast.records.control import Control, ControlType, control_batch, filler_batch, read_control
from tests.records import oracles

# A COMMIT marker at offset 3 as the format's documentation lays it out, written down by hand.
COMMIT_BY_HAND = bytes.fromhex(
    "0000000000000003 00000042 00000000 02 5b2fe72c 0030 00000000 000001790ec90760 000001790ec90760"
    "0000000000000fa0 0001 ffffffff 00000001"
    "20 00 00 00 08 00000001 0c 0000 00000005 00"
)


@pytest.mark.parametrize(
    ("control_type", "marker"), [(ControlType.COMMIT, COMMIT_MARKER), (ControlType.ABORT, ABORT_MARKER)]
)
def test_markers_are_what_clients_look_for(control_type: ControlType, marker: ControlRecord) -> None:
    """aiokafka and kafka-python both recognise the marker, its producer and its type."""
    batch = control_batch(
        control_type, base_offset=8, producer_id=4000, producer_epoch=3, coordinator_epoch=6
    )
    view = validate(batch)
    assert (view.is_control, view.is_transactional, view.base_sequence) == (True, True, -1)
    assert read_control(view) == Control(type=control_type, version=0, offset=8, coordinator_epoch=6)
    theirs = oracles.AiokafkaBatch(batch)
    assert (theirs.is_control_batch, theirs.producer_id, theirs.next_offset) == (True, 4000, 9)
    assert ControlRecord.parse(next(iter(theirs)).key) == marker
    kafka_python = next(iter(oracles.KafkaPythonBatch(batch)))
    assert (kafka_python.commit, kafka_python.abort) == (marker == COMMIT_MARKER, marker == ABORT_MARKER)


def test_a_marker_from_elsewhere() -> None:
    """A marker laid out byte by byte from the documentation is read field by field."""
    view = validate(COMMIT_BY_HAND)
    assert (view.producer_id, view.producer_epoch, view.last_offset) == (4000, 1, 3)
    assert read_control(view) == Control(type=ControlType.COMMIT, version=0, offset=3, coordinator_epoch=5)


def test_unknown_types_stay_numbers() -> None:
    """Kafka's internal logs hold further control types; they are shown, not refused."""
    leader_change = Record(key=struct.pack(">hh", 0, 2), value=b"anything")
    control = read_control(validate(build_batch([leader_change], control=True)))
    assert control == Control(type=2, version=0, offset=0, coordinator_epoch=None)


def test_an_emptied_marker_says_nothing() -> None:
    """The remnant that a cleaner leaves has no type any more."""
    emptied = build_batch(
        [], base_offset=4, producer_id=1, producer_epoch=0, transactional=True, control=True
    )
    assert read_control(validate(emptied)) is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_control_record_needs_a_type(key: bytes | None) -> None:
    """A key too short for a type is corruption."""
    with pytest.raises(CorruptBatch, match="without a type"):
        read_control(validate(build_batch([Record(key=key)], control=True)))


@pytest.mark.parametrize(("base_offset", "last_offset"), [(0, None), (17, 17), (17, 2**31 + 16)])
def test_the_filler_moves_every_client_on(base_offset: int, last_offset: int | None) -> None:
    """One COMMIT record of producer 0, with no sequence, whose next offset lies behind the whole range."""
    batch = filler_batch(base_offset=base_offset, last_offset=last_offset)
    last = base_offset if last_offset is None else last_offset
    view = validate(batch)
    assert (view.base_offset, view.next_offset, view.record_count) == (base_offset, last + 1, 1)
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (0, 0, -1)
    control = read_control(view)
    assert control is not None
    assert (control.type, control.offset) == (ControlType.COMMIT, last)
    assert oracles.AiokafkaBatch(batch).next_offset == last + 1
    assert next(iter(oracles.KafkaPythonBatch(batch))).offset == last

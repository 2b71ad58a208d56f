"""Control batches: markers that readers obey and never show.

A transaction coordinator ends a transaction on a partition with one control batch of one record:
key = int16 version, int16 type; value = int16 version, int32 coordinator epoch.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from holdfast.errors import CorruptBatch
from holdfast.records.batch import NO_TIMESTAMP, BatchView
from holdfast.records.build import Record, build_batch, read_records

FILLER_PRODUCER_ID = 0
"""Never allotted to a producer, so that a filler cannot end anybody's transaction."""

_CONTROL_BYTES_MAX = 64 << 10
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class ControlType(IntEnum):
    """How a transaction ended. Other types exist in Kafka's own internal logs."""

    ABORT = 0
    COMMIT = 1


_KNOWN_TYPES: dict[int, ControlType] = {int(known): known for known in ControlType}


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What a control record says; a type that is not known here stays a number."""

    type: ControlType | int
    version: int
    offset: int
    coordinator_epoch: int | None


def control_batch(
    control_type: ControlType,
    *,
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    last_offset: int | None = None,
    coordinator_epoch: int = 0,
    leader_epoch: int = -1,
    timestamp_ms: int = NO_TIMESTAMP,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """The marker that ends a producer's transaction on a partition."""
    last_offset = base_offset if last_offset is None else last_offset
    marker = Record(
        key=_KEY.pack(0, control_type),
        value=_VALUE.pack(0, coordinator_epoch),
        timestamp_ms=timestamp_ms,
        offset=last_offset,
    )
    return build_batch(
        [marker],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        delete_horizon_ms=delete_horizon_ms,
    )


def filler_batch(*, base_offset: int, last_offset: int | None = None, leader_epoch: int = -1) -> bytes:
    """A harmless control batch over a range whose records are gone, so that every client moves past it.

    librdkafka takes an answer without records for a message too large to fetch, unless it sees a control
    batch; a COMMIT of a producer that never wrote changes nothing for any client.
    """
    return control_batch(
        ControlType.COMMIT,
        base_offset=base_offset,
        last_offset=last_offset,
        producer_id=FILLER_PRODUCER_ID,
        producer_epoch=0,
        leader_epoch=leader_epoch,
    )


def read_control(view: BatchView) -> Control | None:
    """What the control batch says, or None for one that a cleaner has emptied: it says nothing any more."""
    record = next(read_records(view, bytes_max=_CONTROL_BYTES_MAX), None)
    if record is None:
        return None
    assert record.offset is not None
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatch("a control record without a type", view.position)
    version, number = _KEY.unpack_from(record.key)
    control_type = _KNOWN_TYPES.get(number, number)
    coordinator_epoch = None
    if number in _KNOWN_TYPES and record.value and len(record.value) >= _VALUE.size:
        coordinator_epoch = _VALUE.unpack_from(record.value)[1]
    return Control(
        type=control_type, version=version, offset=record.offset, coordinator_epoch=coordinator_epoch
    )

"""Frames for store tests: real batches with real footers."""

from uuid import UUID

from holdfast.records.batch import assign, validate
from holdfast.records.build import Record, build_batch
from holdfast.store import footer
from holdfast.store.footer import ExtentAppended

TOPIC = UUID("00000000-0000-4000-8000-000000000001")
CLUSTER = UUID("00000000-0000-4000-8000-00000000c1c1")


def batch_at(offset: int, *values: bytes) -> bytearray:
    """A batch of the values that begins at `offset`."""
    batch = bytearray(build_batch([Record(value=value, timestamp_ms=1) for value in values]))
    assign(batch, 0, base_offset=offset, leader_epoch=0)
    return batch


def frame_of(offset: int, *values: bytes) -> tuple[list[bytearray], bytes]:
    """Body and footer of a frame that holds one batch of one partition."""
    batch = batch_at(offset, *values)
    last = validate(batch).last_offset
    return [batch], footer.encode([ExtentAppended(TOPIC, 0, offset, last, [1], len(batch), 1, 0)])

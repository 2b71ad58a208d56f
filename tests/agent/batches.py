"""Record batches as a producer sends them, for tests of what becomes of them."""

from holdfast.records.batch import BatchView, validate
from holdfast.records.build import Record, build_batch

NOW_MS = 1_700_000_000_000


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    producer_id: int = -1,
    producer_epoch: int = 0,
    base_sequence: int = 0,
    timestamp_ms: int = NOW_MS,
    transactional: bool = False,
) -> bytes:
    """One batch with a record for each value, all under one key or none; idempotent if a producer id is given."""
    idempotent = producer_id >= 0
    return build_batch(
        [Record(key=key, value=value, timestamp_ms=timestamp_ms) for value in values],
        producer_id=producer_id,
        producer_epoch=producer_epoch if idempotent else -1,
        base_sequence=base_sequence if idempotent else -1,
        transactional=transactional,
    )


def view(data: bytes) -> BatchView:
    """A validated view over a writable copy, as the agent has it."""
    return validate(memoryview(bytearray(data)))

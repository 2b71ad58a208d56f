"""How large the control plane is after many aborted transactions of one message to each of two topics.

The frames are applied to it without a log: a million transactions of real clients would take an hour. They say
what the agent's say of transactions and extents. Left out is how far each producer has got, one row that is
written over and over; and many transactions share a frame.
"""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from holdfast.control.sqlite import SqliteControlPlane
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import NO_EPOCH, Phase
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    TopicCreated,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
)
from holdfast.store.store import Place, StoredFrame

PRODUCERS = 32
FRAME_TURNS = 8
"""Turns of all producers in a frame; a group commit has one, but a frame for each would double the time."""
BATCH_BYTES = 170
TOPICS = (UUID(int=1), UUID(int=2))
EPOCH = 0
TIMEOUT_MS = 60_000


def aborted_bytes(directory: Path, transactions: int) -> int:
    """Bytes of the database once as many transactions have been begun, written to and aborted."""
    path = directory / "aborted.db"
    plane = SqliteControlPlane(path)
    try:
        plane.add_store(1)
        created: list[Change] = [
            TopicCreated(f"topic-{topic.int}", topic, [[1]], {"retention.ms": "-1"}) for topic in TOPICS
        ]
        plane.apply([_frame(1)], created)
        turns = iter(range(transactions // PRODUCERS))
        for number in range(2, 2 + transactions // PRODUCERS // FRAME_TURNS):
            changes = [change for _ in range(FRAME_TURNS) for change in _turn(next(turns))]
            plane.apply([_frame(number)], changes)
    finally:
        plane.close()
    return path.stat().st_size


def _frame(number: int) -> StoredFrame:
    place = Place(journal=1, position=number)
    return StoredFrame(store=1, number=number, body=place, footer=b"", end=place)


def _turn(turn: int) -> Iterator[Change]:
    """One transaction of each producer, from its beginning to its end."""
    for index in range(PRODUCERS):
        producer_id, instance = index + 1, 1 + turn * PRODUCERS + index
        yield TransactionBegun(instance, producer_id)
        offset = turn * PRODUCERS + index
        for topic in TOPICS:
            yield ExtentAppended(topic, 0, offset, offset, [1], BATCH_BYTES, offset, 0, instance)
        yield TransactionEnded(instance, False, offset)
        yield TransactionalIdSet(
            f"producer-{index}",
            turn and turn + 1,
            NO_INSTANCE,
            producer_id,
            EPOCH,
            TIMEOUT_MS,
            Phase.ABORTED.value,
            NO_INSTANCE,
            turn + 2,
            producer_id,
            NO_EPOCH,
            -1,
        )

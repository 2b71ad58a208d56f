"""What is known of producers does not depend on their batches: compaction takes those away."""

from typing import Any

import pytest

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.writes import AppendBatch, MoveLogStart
from holdfast.errors import OutOfOrderSequence
from tests.agent.batches import batch, view
from tests.keeper.engine import Engine

PRODUCER = 7


def send(engine: Engine, key: PartitionKey, sequence: int) -> int:
    """A batch of two records of an idempotent producer; where it lies, or lay."""
    data = batch(b"v", b"w", key=b"k", producer_id=PRODUCER, base_sequence=sequence)
    leader = engine.cluster.plane.find_partition(*key).leader
    stored: Any = engine.call(
        lambda: engine.cluster.commits.submit(AppendBatch(key, view(data), leader, in_sync_min=1))
    )
    return int(stored.first_offset)


def test_a_retry_is_known_after_its_batch_is_gone(engine: Engine) -> None:
    """It is answered with the offset that it had, nothing is written twice, and the sequence goes on."""
    key = engine.create("t")
    assert [send(engine, key, sequence) for sequence in range(0, 12, 2)] == [0, 2, 4, 6, 8, 10]
    engine.append(key, (b"k", b"newest"))
    producers = engine.cluster.plane.find_producers(*key)
    engine.round()
    assert [row[0] for row in engine.read(key, 1)] == [12]
    assert engine.cluster.plane.find_producers(*key) == producers
    assert send(engine, key, 10) == 10
    assert send(engine, key, 4) == 4
    assert engine.cluster.plane.find_bounds(*key).end == 13
    with pytest.raises(OutOfOrderSequence):
        send(engine, key, 14)
    assert send(engine, key, 12) == 13
    engine.round()
    assert [row[0] for row in engine.read(key, 1)] == [14]


@pytest.mark.parametrize("policy", ["compact,delete", "delete"])
def test_upkeep_goes_on_where_the_log_begins_now(engine: Engine, policy: str) -> None:
    """The log start may pass what was settled, and what was not: every replica settles what follows."""
    key = engine.create("t", cleanup_policy=policy)
    for number in range(3):
        engine.append(key, *((b"%d" % one, b"%d" % number) for one in range(10)))
        if number == 0:
            engine.round()
    engine.call(lambda: engine.cluster.commits.submit(MoveLogStart(key, 25)))
    while engine.cluster.plane.trim(1000):
        pass
    engine.append(key, (b"last", b"1"))
    assert engine.round().rewrites == 3
    for replica in engine.removal(key).replicas:
        assert replica.settled_to == 31
    for store in (1, 2, 3):
        assert [row[0] for row in engine.read(key, store, 25)] == [25, 26, 27, 28, 29, 30]

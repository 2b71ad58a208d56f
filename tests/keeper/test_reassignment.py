"""Partitions on their way to other stores: nothing goes before the new replicas are in sync, whatever happens."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.reassignment import is_under_way
from holdfast.control.plane import Partition
from holdfast.errors import InvalidReplicaAssignment, InvalidReplicationFactor, NoReassignmentInProgress
from tests.keeper.engine import Engine

SECONDS_MAX = 20.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Five stores and a keeper."""
    made = Engine(tmp_path / "data", nodes=5)
    yield made
    made.end()


@pytest.fixture
def key(engine: Engine) -> PartitionKey:
    """A partition on stores 1, 2 and 3, led by 1, that has been compacted."""
    key = engine.create("t")
    assert where(engine, key).replicas == (1, 2, 3)
    engine.append(key, (b"a", b"1"), (b"b", b"1"))
    engine.append(key, (b"a", b"2"))
    engine.round()
    return key


def where(engine: Engine, key: PartitionKey) -> Partition:
    return engine.cluster.plane.find_partition(*key)


def begin(engine: Engine, key: PartitionKey, *goal: int, may_change_factor: bool = True) -> None:
    engine.call(lambda: engine.cluster.reassignment.begin(*key, goal, may_change_factor=may_change_factor))


def cancel(engine: Engine, key: PartitionKey) -> None:
    engine.call(lambda: engine.cluster.reassignment.cancel(*key))


def wait_until_settled(engine: Engine, key: PartitionKey) -> Partition:
    """Where it is when it is on its way no longer."""
    deadline = time.monotonic() + SECONDS_MAX
    while is_under_way(where(engine, key)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return where(engine, key)


def test_what_is_left_stays_until_the_new_replicas_are_in_sync(engine: Engine, key: PartitionKey) -> None:
    """Writes go to all of them meanwhile; then the first of the goal leads, and the others hold nothing any more."""
    begin(engine, key, 4, 5)
    partition = where(engine, key)
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))
    assert (partition.joining, partition.leader) == ((4, 5), 1)
    engine.append(key, (b"c", b"3"))
    assert engine.table(key, 1) == {b"a": b"2", b"b": b"1", b"c": b"3"}
    engine.round()
    partition = wait_until_settled(engine, key)
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 5), (), ())
    assert partition.leader == 4
    assert engine.table(key, 4) == engine.table(key, 5) == {b"a": b"2", b"b": b"1", b"c": b"3"}
    assert [each.store for each in engine.removal(key).replicas] == [4, 5]


def test_a_replica_that_leaves_while_it_is_looked_at_is_nothing_to_do(
    engine: Engine, key: PartitionKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its manifest was there, its places in what was written are not: the keeper ended of that."""
    begin(engine, key, 4, 5)
    engine.append(key, (b"c", b"3"))
    plane = engine.cluster.plane
    ask = plane.find_removal

    def find_removal(*about: Any) -> Any:
        found = ask(*about)
        monkeypatch.setattr(plane, "find_removal", ask)
        engine.round()
        wait_until_settled(engine, key)
        return found

    monkeypatch.setattr(plane, "find_removal", find_removal)
    assert list(engine.gateway.list_views(3)) == []
    assert where(engine, key).replicas == (4, 5)


def test_without_new_replicas_it_is_done_at_once(engine: Engine, key: PartitionKey) -> None:
    """Another order, or fewer."""
    begin(engine, key, 3, 1)
    assert (where(engine, key).replicas, is_under_way(where(engine, key))) == ((3, 1), False)


@pytest.mark.parametrize("loses", ["nothing", "the control plane"])
def test_it_outlives_the_process(engine: Engine, key: PartitionKey, loses: str) -> None:
    """The next one goes on, and finishes what has become ready."""
    begin(engine, key, 1, 4)
    engine.close()
    if loses == "the control plane":
        for file in (*engine.data.glob("control.db*"), *engine.data.glob("stores/*/snapshot/*")):
            file.unlink()
    engine.open()
    partition = where(engine, key)
    assert (partition.replicas, partition.adding, partition.removing) == ((1, 4, 2, 3), (4,), (2, 3))
    engine.round()
    assert wait_until_settled(engine, key).replicas == (1, 4)
    assert engine.table(key, 4) == engine.table(key, 1)


def test_what_is_ready_is_finished_by_the_next_process(
    engine: Engine, key: PartitionKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one ended between the moment when all were in sync and the last step."""
    begin(engine, key, 1, 4)
    monkeypatch.setattr(engine.cluster.reassignment, "finish_what_is_ready", lambda: None)
    engine.round()
    assert (where(engine, key).joining, is_under_way(where(engine, key))) == ((), True)
    engine.close()
    engine.open()
    assert wait_until_settled(engine, key).replicas == (1, 4)


def test_taken_back(engine: Engine, key: PartitionKey) -> None:
    """It lies where it lay, and what was copied already is nobody's; there is nothing more to take back then."""
    begin(engine, key, 4, 5, 1)
    cancel(engine, key)
    assert (where(engine, key).replicas, is_under_way(where(engine, key))) == ((1, 2, 3), False)
    engine.round()
    assert (where(engine, key).replicas, where(engine, key).joining) == ((1, 2, 3), ())
    with pytest.raises(NoReassignmentInProgress):
        cancel(engine, key)


def test_another_goal_takes_the_place_of_the_first(engine: Engine, key: PartitionKey) -> None:
    """What the first would have brought goes at once; what was there before it stays until the second is reached."""
    begin(engine, key, 4)
    begin(engine, key, 5, 2)
    partition = where(engine, key)
    assert (partition.replicas, partition.adding, partition.removing) == ((5, 2, 1, 3), (5,), (1, 3))
    begin(engine, key, 1, 2, 3)
    assert (where(engine, key).replicas, is_under_way(where(engine, key))) == ((1, 2, 3), False)


def test_it_waits_for_a_replica_of_the_goal_that_is_away(engine: Engine, key: PartitionKey) -> None:
    """The new one is in sync, but of what is to stay one is not: nothing goes."""
    begin(engine, key, 2, 4)
    with engine.away(2):
        engine.append(key, (b"c", b"3"))
        engine.round()
        assert where(engine, key).joining == ()
        assert where(engine, key).removing == (1, 3)
    engine.look()
    engine.round()
    assert wait_until_settled(engine, key).replicas == (2, 4)


@pytest.mark.parametrize("goal", [(), (1, 1), (1, 9)])
def test_goals_that_make_no_sense(engine: Engine, key: PartitionKey, goal: tuple[int, ...]) -> None:
    """None, one twice, one that does not exist."""
    with pytest.raises(InvalidReplicaAssignment):
        begin(engine, key, *goal)
    assert where(engine, key).replicas == (1, 2, 3)


def test_goals_that_cannot_be_reached_now(engine: Engine, key: PartitionKey) -> None:
    """A store that is away takes no copy; and who forbids another number of replicas gets none."""
    with engine.away(4):
        engine.append(key, (b"c", b"3"))
        with pytest.raises(InvalidReplicaAssignment, match="store 4 is away"):
            begin(engine, key, 1, 4)
    with pytest.raises(InvalidReplicationFactor):
        begin(engine, key, 1, 5, may_change_factor=False)
    begin(engine, key, 1, 2, 5, may_change_factor=False)
    assert where(engine, key).adding == (5,)

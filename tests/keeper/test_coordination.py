"""Who waits for whom in a running engine: stores that are away, transactions that are open, times and bytes."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.replica_standing import PartitionCoordination, Waiting
from holdfast.agent.writes import AppendBatch
from holdfast.control.replicas import StorePhase
from holdfast.errors import UnknownTopicOrPartition
from holdfast.keeper.blockers import Reason
from holdfast.records.build import Record, build_batch
from holdfast.rules.blockers import Track
from holdfast.store.store import Place
from tests.agent.batches import view
from tests.keeper.engine import Engine, pass_time

PARTITIONS_MAX = 10


def read(engine: Engine, topic: str | None = "t") -> PartitionCoordination:
    """The only partition that is told."""
    (found,) = engine.cluster.coordination.read(topic, PARTITIONS_MAX).partitions
    return found


def waiting(engine: Engine, track: Track) -> list[tuple[int | None, Reason]]:
    return [(each.store, each.reason) for each in read(engine).waiting if each.track is track]


def fill(engine: Engine, **configs: str) -> PartitionKey:
    key = engine.create("t", 1, -1, **configs)
    engine.append(key, (b"a", b"old"), (b"b", b"old"))
    engine.round()
    return key


def test_values_of_the_group_and_of_each_replica(engine: Engine) -> None:
    """As the control plane has them; where everything is clean nobody waits."""
    key = fill(engine)
    engine.append(key, (b"a", None))
    engine.round()
    found = read(engine)
    assert (found.topic, found.partition, found.compacted) == ("t", 0, True)
    assert (found.log_start, found.last_stable, found.log_end) == (0, 3, 3)
    assert (found.mtro, found.mxro) == (3, 3)
    assert [
        (each.store, each.phase, each.held_to, each.settled_to, each.mxfo, each.mcco, each.unsettled_bytes)
        for each in found.replicas
    ] == [(store, StorePhase.IN_SYNC, 3, 3, 3, 3, 0) for store in (1, 2, 3)]
    (grace,) = found.waiting
    assert (grace.reason, grace.at) == (Reason.GRACE, 2)
    assert grace.remaining_ms is not None
    assert 0 < grace.remaining_ms <= 24 * 3600 * 1000


def test_a_store_that_is_away(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named on both tracks, since the others got past it; tombstones wait in bytes on the others."""
    key = fill(engine)
    with engine.away(3):
        engine.append(key, (b"a", None))
        assert (3, Reason.AWAY) in waiting(engine, Track.TOMBSTONES)
        engine.round()
        pass_time(engine, monkeypatch, 90_000)
        found = read(engine)
        assert (found.mtro, found.mxro) == (2, 2)
        assert [(each.track, each.store, each.reason, each.at) for each in found.waiting] == [
            (track, 3, Reason.AWAY, 2) for track in Track
        ]
        assert 90_000 <= found.waiting[0].for_ms < 120_000, "by the grace clock, from the others' pass on"
        assert [each.phase for each in found.replicas] == [StorePhase.IN_SYNC] * 2 + [StorePhase.AWAY]
        (one, two, three) = found.replicas
        assert one.waiting_tombstone_bytes == two.waiting_tombstone_bytes > 0
        assert three.waiting_tombstone_bytes == 0
        assert found.waiting_bytes[Track.TOMBSTONES] == 2 * one.waiting_tombstone_bytes
        assert found.waiting_bytes[Track.OUTCOMES] == 0, "it lacks what it would have to settle"
        engine.call(lambda: engine.cluster.care.fence(3))
    found = read(engine)
    assert (found.mtro, [each.reason for each in found.waiting]) == (3, [Reason.GRACE])
    assert (found.replicas[2].phase, found.replicas[2].mcco) == (StorePhase.FENCED, None)


def test_one_that_catches_up(engine: Engine) -> None:
    """From when it is back until it has everything."""
    key = fill(engine)
    with engine.away(3):
        engine.append(key, (b"a", b"new"))
        engine.round()
    engine.look()
    assert waiting(engine, Track.TOMBSTONES) == [(3, Reason.JOINING)]
    assert read(engine).replicas[2].joined_from == 3
    engine.round()
    assert (3, Reason.JOINING) not in waiting(engine, Track.TOMBSTONES)


def open_transaction(engine: Engine, key: PartitionKey, name: str) -> tuple[int, int]:
    """One batch of a transaction that stays open; its producer id and first offset."""
    transactions = engine.cluster.transactions
    state = engine.call(lambda: transactions.initialise(name, None, 60_000))
    data = build_batch(
        [Record(key=b"a", value=b"open", timestamp_ms=1_000)],
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        base_sequence=0,
        transactional=True,
    )
    leader = engine.cluster.plane.find_partition(*key).leader

    async def append() -> Any:
        joined = transactions.join(name, state.producer_id, state.epoch, implicit=True, place=key)
        return await engine.cluster.commits.submit(AppendBatch(key, view(data), leader, membership=joined))

    stored = engine.call(append)
    return state.producer_id, int(stored.first_offset)


def placed(engine: Engine, key: PartitionKey, offset: int) -> tuple[Place, int]:
    """Where the extent of an offset lies on store 1, and how long it is."""
    _, (extent,) = engine.cluster.plane.find_extents(*key, offset, 1)
    return extent.places[1], extent.length_bytes


def test_an_open_transaction(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with its producer and its first offset, in plain topics too; its own age counts."""
    key = fill(engine, cleanup_policy="delete")
    assert engine.cluster.coordination.read(None, PARTITIONS_MAX).partitions == [], "nothing that matters"
    producer_id, first = open_transaction(engine, key, "payments-7")
    later_ms = engine.cluster.coordination._wall_ms() + 5_000
    monkeypatch.setattr(engine.cluster.coordination, "_wall_ms", lambda: later_ms)
    partition = read(engine, None)
    sizes = {replica.unsettled_bytes for replica in partition.replicas}
    assert sizes == {len(engine.cluster.stores.by_number[1].read(*placed(engine, key, first)))}
    (found,) = partition.waiting
    assert (found.track, found.reason, found.store, found.at) == (
        Track.OUTCOMES,
        Reason.OPEN_TRANSACTION,
        None,
        first,
    )
    assert found.transaction is not None
    assert found.transaction.transactional_id == "payments-7"
    assert (found.transaction.producer_id, found.transaction.first_offset) == (producer_id, first)
    assert 4_000 < found.for_ms < 60_000


def test_times_that_nobody_writes_down(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count from the first look on, as long as the reason stays the same."""
    key = fill(engine, **{"min.cleanable.dirty.ratio": "1.0"})
    now_ms = 0
    monkeypatch.setattr(engine.cluster.coordination._sightings, "_now_ms", lambda: now_ms)

    def ratio() -> list[Waiting]:
        return [each for each in read(engine).waiting if each.reason is Reason.DIRTY_RATIO]

    assert [each.for_ms for each in ratio()] == [0, 0, 0]
    now_ms = 700
    assert [(each.store, each.for_ms) for each in ratio()] == [(1, 700), (2, 700), (3, 700)]
    assert {(each.dirty_bytes or 0) > 0 for each in ratio()} == {True}
    engine.call(lambda: engine.cluster.care.assign(key.topic_id, 0, (1, 2)))
    now_ms = 900
    assert [(each.store, each.for_ms) for each in ratio()] == [(1, 900), (2, 900)]
    (one, two, three) = engine.cluster.coordination.read_stores()
    assert {one.phase, two.phase, three.phase} == {StorePhase.IN_SYNC}
    with engine.away(3):
        engine.append(engine.create("u"), (b"k", b"v"))
        now_ms = 1_900
        assert [each.for_ms for each in engine.cluster.coordination.read_stores()][2] == 1_000


def test_what_is_asked_for(engine: Engine) -> None:
    """Compacted topics, or all of one topic; so many at most, and how many are left out is told."""
    engine.create("a", partitions=3)
    engine.create("plain", partitions=2, cleanup_policy="delete")
    coordination = engine.cluster.coordination

    def names(topic: str | None, most: int = PARTITIONS_MAX) -> tuple[list[tuple[str, int]], int]:
        found = coordination.read(topic, most)
        return [(each.topic, each.partition) for each in found.partitions], found.omitted

    assert names(None) == ([("a", 0), ("a", 1), ("a", 2)], 0)
    assert names(None, 2) == ([("a", 0), ("a", 1)], 1)
    assert names("plain") == ([("plain", 0), ("plain", 1)], 0)
    with pytest.raises(UnknownTopicOrPartition):
        names("none")
    with engine.away(2):
        engine.append(engine.create("z", cleanup_policy="delete"), (b"k", b"v"))
        assert names(None)[0][-3:] == [("plain", 0), ("plain", 1), ("z", 0)], "a replica is away"


def test_a_topic_that_goes_away_meanwhile(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is left out, and what was seen of it is forgotten."""
    engine.create("a")
    engine.create("t")
    plane = engine.cluster.plane
    find: Callable[..., Any] = plane.find_removal
    gone = engine.cluster.catalog.get("t").topic_id

    def find_removal(topic_id: Any, partition: int) -> Any:
        if topic_id == gone:
            raise UnknownTopicOrPartition("it is gone")
        return find(topic_id, partition)

    monkeypatch.setattr(plane, "find_removal", find_removal)
    assert read(engine, None).topic == "a"

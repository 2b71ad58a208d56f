"""A replica is away for longer than delete.retention.ms while the others compact: what it needs is not forgotten."""

from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.control.replicas import StorePhase
from holdfast.errors import OutcomeMissing
from holdfast.keeper import plan as planning
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.plan import Plan, ReplicaView
from holdfast.rules import removal
from tests.keeper.engine import Engine, pass_time

RETENTION_MS = 60_000
KEYS = [b"a", b"b", b"c"]


def act(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Mapping[int, Any]:
    """The story; the tables that each node shows at the end, as a leader."""
    key = engine.create("t", delete_retention_ms=str(RETENTION_MS))
    engine.append(key, *((name, b"old") for name in KEYS))
    engine.round()
    with engine.away(3):
        engine.append(key, (b"a", None))
        assert engine.phase(3) is StorePhase.AWAY
        for number in range(3):
            engine.append(key, (b"b", b"%d" % number))
            pass_time(engine, monkeypatch, (number + 1) * 10 * RETENTION_MS)
            assert engine.round().rewrites == 2
    engine.look()
    assert engine.phase(3) is StorePhase.JOINING
    engine.round()
    assert engine.phase(3) is StorePhase.IN_SYNC
    tables = {}
    for node in (1, 2, 3):
        if engine.cluster.plane.find_partition(*key).leader != node:
            engine.lead(key, node)
        tables[node] = engine.table(key, node)
    return tables


def test_a_delete_outlives_the_outage_of_a_replica(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three passes each on the others, ten retentions apart: the tombstone waits for the one that is away."""
    expected = {b"b": b"2", b"c": b"old"}
    assert act(engine, monkeypatch) == {1: expected, 2: expected, 3: expected}


def test_without_the_gate_the_delete_is_lost(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same story where only those that are here count: deleted data is back, so it is the gate that helps."""
    computed = removal.removal_offset

    def over_those_here(reports: Any, members: Any) -> Any:
        here = {
            state.store for state in engine.cluster.plane.list_stores() if state.phase is StorePhase.IN_SYNC
        }
        return computed(reports, [member for member in members if member in here])

    monkeypatch.setattr("holdfast.control.replica_rules.removal_offset", over_those_here)
    assert act(engine, monkeypatch)[3] == {b"a": b"old", b"b": b"2", b"c": b"old"}


def test_cleanup_goes_on_when_the_replica_is_back(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has compacted too, and consumers have had their time, the tombstone goes, everywhere."""
    key = engine.create("t", delete_retention_ms=str(RETENTION_MS))
    engine.append(key, (b"a", b"old"))
    engine.round()
    with engine.away(3):
        engine.append(key, (b"a", None))
        engine.round()
        pass_time(engine, monkeypatch, 10 * RETENTION_MS)
        engine.round()
        assert engine.removal(key).removable.mtro == 1
    engine.look()
    engine.round()
    engine.round()
    assert engine.removal(key).removable.mtro == 2
    for since_ms in (0, RETENTION_MS // 2):
        pass_time(engine, monkeypatch, 10 * RETENTION_MS + since_ms)
        engine.round()
        assert [engine.read(key, store) for store in (1, 2, 3)] == [[(1, b"a", None)]] * 3
    pass_time(engine, monkeypatch, 12 * RETENTION_MS)
    engine.round()
    assert [engine.read(key, store) for store in (1, 2, 3)] == [[]] * 3


def test_a_replica_without_an_outcome_stops_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told of at the end of the round, and what else is due is done."""
    lost, well = engine.create("lost"), engine.create("well")
    for key in (lost, well):
        engine.append(key, (b"a", b"1"), (b"a", b"2"))

    def plan(view: ReplicaView, limits: KeeperLimits) -> Plan | None:
        if view.topic == "lost":
            raise OutcomeMissing("offset 0 is of an instance that nobody knows")
        return planning.plan(view, limits)

    monkeypatch.setattr("holdfast.keeper.round.plan", plan)
    with pytest.raises(OutcomeMissing, match="lost/0 on store 3 has stopped"):
        engine.round()
    assert [engine.read(well, store) for store in (1, 2, 3)] == [[(1, b"a", b"2")]] * 3
    assert [engine.read(lost, store) for store in (1, 2, 3)] == [[(0, b"a", b"1"), (1, b"a", b"2")]] * 3

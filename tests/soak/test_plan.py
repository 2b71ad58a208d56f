"""One seed, one plan; and the plans of many seeds have in them what a soak is for."""

from collections import Counter
from random import Random

import pytest

from soak import plan
from soak.workload import Setting
from soak.workloads import WORKLOADS
from soak.workloads.produce import ProducerSpec
from soak.workloads.read import ReaderSpec


def test_a_seed_is_a_plan() -> None:
    """Whoever plays it again gets the same kills, faults and clients."""
    for seed in range(50):
        assert plan.draw(seed) == plan.draw(seed)
        assert plan.draw(seed).lines() == plan.draw(seed).lines()
    assert plan.draw(1) != plan.draw(2)


def test_another_workload_changes_nobody_elses_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure's seed stays what it was when workloads are added."""
    before = plan.draw(3)

    def draw(chance: Random, setting: Setting) -> list[ReaderSpec]:
        return [ReaderSpec(partitions=chance.randrange(1, 1 + setting.partitions))]

    monkeypatch.setitem(WORKLOADS, "another", draw)
    after = plan.draw(3)
    assert after.specs[: len(before.specs)] == before.specs
    assert after.kills == before.kills


def test_plans_reach_everything() -> None:
    """One and three nodes, every fault, killed starts, both kinds of producers, groups."""
    plans = [plan.draw(seed) for seed in range(200)]
    faults = Counter(type(fault).__name__ for each in plans for kill in each.kills for fault in kill.faults)
    assert set(faults) == {"TornTail", "Garbage", "LostPlane", "StalePlane"}
    assert min(faults.values()) > 20
    assert {each.setting.nodes for each in plans} == {1, 3}
    assert {each.setting.partitions for each in plans} == {1, 2, 3}
    assert any(kill.starts_killed_after_ms for each in plans for kill in each.kills)
    for each in plans:
        kinds = {spec.is_idempotent for spec in each.specs if isinstance(spec, ProducerSpec)}
        assert kinds == {True, False}
    assert len({type(spec) for each in plans for spec in each.specs}) == len(WORKLOADS)

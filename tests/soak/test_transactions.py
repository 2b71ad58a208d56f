"""Transactions while workers and the log are killed, the short version: the same code with fixed seeds."""

from pathlib import Path
from random import Random

import pytest

from soak import plan, play
from soak.plan import Plan
from soak.workload import Setting, Spec
from soak.workloads import transfers, transform

PIPELINES = {"confluent-kafka": 683, "kafka-python": 2361, "aiokafka": 2013}
BANK = 1562


def pipeline(client: str, seed: int) -> Plan:
    def draw(chance: Random, setting: Setting) -> Spec:
        return transform.draw_one(chance, setting, client)

    return plan.draw_alone(seed, "transform", draw)


def bank(client: str, seed: int) -> Plan:
    def draw(chance: Random, setting: Setting) -> Spec:
        return transfers.draw_one(chance, setting, client)

    return plan.draw_alone(seed, "transfers", draw)


def play_and_check(drawn: Plan, directory: Path) -> None:
    report = play.run(drawn, directory)
    assert not report.violations, "\n".join(map(str, [*report.plan.lines(), *report.violations]))
    assert report.acknowledged >= play.ACKNOWLEDGED_AT_END


@pytest.mark.parametrize("client", PIPELINES)
def test_a_pipeline_writes_every_input_once(client: str, tmp_path: Path) -> None:
    """Whoever is killed when: t2 and t3 together are t1, in order, and the group is at its end."""
    play_and_check(pipeline(client, PIPELINES[client]), tmp_path / "round")


def test_an_auditor_never_sees_a_wrong_total(tmp_path: Path) -> None:
    """Transfers over two partitions are seen whole or not at all."""
    play_and_check(bank("holdfast-tv2", BANK), tmp_path / "round")


def test_the_fixed_seeds_have_what_they_are_for() -> None:
    """Whoever changes how plans are drawn must look for others."""
    plans = [*(pipeline(client, seed) for client, seed in PIPELINES.items()), bank("holdfast-tv2", BANK)]
    assert {each.setting.nodes for each in plans} == {1, 3}
    for each in plans:
        assert each.kills
        (spec,) = each.specs
        assert isinstance(spec, transform.TransformSpec | transfers.TransfersSpec)
        assert len(spec.faults) == 2, "two workers"
        assert {fault.kind for faults in spec.faults for fault in faults} == {"kill", "zombie"}

"""The doctor beside the truth: it finds exactly what readers meet, whatever compaction and lag do to the logs."""

from random import Random

import pytest

from holdfast.lab import account, library
from holdfast.lab.engines.engine import StepError
from holdfast.lab.engines.model import Model
from holdfast.lab.schedule import Scheduler
from holdfast.lab.setting import setting_of
from holdfast.lab.verdict import judge
from tests.doctor.model_source import examine

SEEDS = 40


def tables(model: Model, names: list[int | str]) -> list[tuple[int, dict[str, str | None]]]:
    """What readers of some replicas end up with."""
    replicas = [model.replicas[int(name)] for name in names]
    return [
        (each.last_stable_offset, {key: entry.value for key, entry in sorted(each.table().items())})
        for each in replicas
    ]


@pytest.mark.parametrize("policy", ["kafka", "coordinated"])
def test_random_schedules(policy: str) -> None:
    """After every few steps: differences where readers of caught-up replicas differ, and nowhere else."""
    found = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        setting = setting_of(rng, policy, None)
        model = Model(policy=policy, replicas=setting.replicas, config=setting.config)
        scheduler = Scheduler(rng, model)
        for number in range(setting.length):
            try:
                model.apply(scheduler.next())
            except StepError:
                continue
            if number % 5:
                continue
            examined = examine(
                model, keys_max=rng.choice((1, 2, 1000)), range_offsets=rng.choice((1, 2, 5, 1000))
            )
            differ = len({str(each) for each in tables(model, examined.replicas)}) > 1
            assert bool(examined.findings) == differ, (
                seed,
                number,
                examined,
                tables(model, examined.replicas),
            )
            blamed = {finding.replica for finding in examined.findings}
            assert blamed <= {each.replica for each in judge(model)}, (seed, number)
            found += differ
    assert bool(found) == (policy == "kafka"), f"seeds 0 to {SEEDS - 1}: {found} differences"


@pytest.mark.parametrize("name", library.names())
def test_every_harm_is_named_before_leadership_moves(name: str) -> None:
    """After every line the doctor names the replicas that the truth convicts; at the first one the harm, too."""
    story = account.begin(library.load(name), policy="kafka")
    assert isinstance(story.engine, Model)
    found = False
    for frame in account.advance(story):
        findings, judged = examine(story.engine).findings, judge(story.engine)
        assert {each.replica for each in findings} == {each.replica for each in judged}, frame.line.text
        if findings and not found:
            found = True
            assert {(each.replica, each.variant) for each in findings} == {
                (each.replica, each.variant) for each in judged
            }
            assert all(each.what and each.advice for each in findings)
    assert found == (not story.agreed)

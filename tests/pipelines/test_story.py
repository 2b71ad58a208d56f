"""What `make story` holds reconciliation against; the story itself takes minutes, and is run by hand."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.story import truth
from bench.story.audit import tells_the_truth
from bench.story.day import BATCH_MIN, undisturbed, write_pipeline
from bench.story.truth import Fate, fates, find_truth
from holdfast.pipelines.config import Mode
from holdfast.pipelines.recon.day import judge_day
from holdfast.pipelines.recon.law import Finding, Kind
from tests.pipelines.recon.test_day import GOOD

EXPECTED = {
    "good": Fate(tenant="acme", end_state="qualified"),
    "unaudited": Fate(tenant="acme", end_state="qualified"),
    "doubled": Fate(tenant="acme", end_state="qualified"),
    "given-up": Fate(tenant="birch", end_state="failed"),
}
DELIVERED = Counter({("good", "qualified"): 1, ("unaudited", "qualified"): 1, ("doubled", "qualified"): 2})
AUDITED = Counter({("good", "qualified"): 1, ("doubled", "qualified"): 1})


def found(monkeypatch: pytest.MonkeyPatch, audited: Counter[tuple[str, str]]) -> truth.Truth:
    topics = {"dual.qualified": DELIVERED, "dual.audit": audited}
    monkeypatch.setattr(truth, "count_ids", lambda _, topic: topics[topic])
    return find_truth("nowhere", "dual", EXPECTED)


def test_the_truth_is_told_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found(monkeypatch, AUDITED)
    assert (dict(told.missing), dict(told.duplicate)) == (
        {"acme": {"unaudited"}, "birch": {"given-up"}},
        {"acme": {"doubled"}},
    )
    assert (told.count("missing"), told.count("other")) == (2, 0)
    for stray in (("nobody's", "failed"), ("good", "failed")):
        assert found(monkeypatch, AUDITED + Counter([stray])).count("other") == 1


def test_a_verdict_is_exact_if_it_names_what_is_wrong_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = found(monkeypatch, AUDITED)
    right = ((Kind.MISSING, "unaudited"), (Kind.DUPLICATE, "doubled"))
    for named, is_exact in (
        (right, True),
        (right[:1], False),
        ((*right, (Kind.MISSING, "good")), False),
        ((*right, (Kind.ORPHAN, "good")), False),
        (((Kind.DUPLICATE, "unaudited"), (Kind.MISSING, "doubled")), False),
    ):
        findings = tuple(Finding(kind=kind, id=single, why="", sightings=()) for kind, single in named)
        assert tells_the_truth(judge_day(replace(GOOD, findings=findings)), told) == is_exact


@pytest.mark.parametrize("mode", list(Mode))
def test_each_mode_has_a_pipeline_of_its_own(mode: Mode, tmp_path: Path) -> None:
    pipeline = write_pipeline(tmp_path, mode, "127.0.0.1:1", 1_000)
    assert (pipeline.mode, pipeline.name, pipeline.trigger.records_max) == (mode, mode.value, BATCH_MIN)
    assert (pipeline.budget.duplicate > 0) == (mode is Mode.DUAL)


def test_every_message_has_one_fate() -> None:
    told = fates(300)
    assert (len(told), {each.end_state for each in told.values()}) == (
        300,
        {"qualified", "not_qualified", "failed"},
    )


def test_the_rate_is_that_of_what_came_after_the_last_fault() -> None:
    samples = [(0.0, 0), (10.0, 500), (20.0, 500), (30.0, 600), (40.0, 1_600), (50.0, 2_600)]
    assert undisturbed(samples, 15.0) == 100.0
    assert undisturbed(samples, 50.0) == 0.0

"""The scenarios on the log itself: no harm under coordination, and Kafka's harm or a loud stop without it."""

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UsageError
from holdfast.lab import account, library, steps
from holdfast.lab.account import Account
from holdfast.lab.engines.engine import StepError
from holdfast.lab.engines.holdfast import HoldfastEngine, open_engine
from holdfast.lab.scenario import Scenario, parse
from holdfast.rules.transaction import Outcome
from tests.cli.test_lab import Invoke, invoke

__all__ = ["invoke"]


@contextmanager
def told(scenario: Scenario, policy: str) -> Iterator[tuple[Account, HoldfastEngine]]:
    """A whole run, and the engine while it is still there."""
    with open_engine(scenario, policy=policy) as engine:
        story = account.begin_on(engine, scenario)
        for _ in account.advance(story):
            pass
        yield story, engine


def shape(document: Any) -> Any:
    """A JSON document with types in the place of values."""
    if isinstance(document, dict):
        return {key: shape(value) for key, value in document.items()}
    if isinstance(document, list):
        return [shape(value) for value in document[:1]]
    return None if document is None else type(document).__name__


@pytest.mark.parametrize("name", library.names())
def test_coordination_prevents_it_and_cleanup_resumes(name: str) -> None:
    """All agree through every node, and in the end nothing is left in files and control plane that may go."""
    scenario = library.load(name)
    model = account.run(scenario, policy="coordinated")
    with told(scenario, "coordinated") as (story, engine):
        assert story.agreed, story.as_json()["evidence"]
        assert [strip.seen for strip in story.frames[-1].strips] == [
            strip.seen for strip in model.frames[-1].strips
        ]
        kept = [cell.label for strip in story.frames[-1].strips for cell in strip.cells]
        assert not [label for label in kept if label.endswith(("✗", "?")) or label.startswith("⊘")]
        assert engine.outcomes_kept() == set()
        assert story.removed() == model.removed()


@pytest.mark.parametrize("name", ["aborted-to-committed", "stuck"])
def test_a_lost_outcome_is_a_loud_stop(name: str) -> None:
    """Kafka guesses here. The log stops the replica that lacks the outcome, and the others go on."""
    with told(library.load(name), "kafka") as (story, _):
        assert (story.agreed, story.verdict) == (False, "halted")
        assert [replica.id for replica in story.halted] == [3]
        assert "no outcome is known" in (story.halted[0].halted or "")
        ended = next(frame for frame in story.frames if frame.line.verb in ("commit", "abort"))
        assert ended.sentence.endswith("replica 3 does not hear of it.")
        states = [strip.state for strip in story.frames[-1].strips]
        assert states == ["leader", "in sync", "stopped"]


def test_two_late_replicas_have_a_harm_each() -> None:
    """What one replica does not hear of is lost, what the other cannot decide stops it."""
    with told(library.load("two-late-replicas"), "kafka") as (story, _):
        assert story.verdict == "diverged: tombstone"
        assert [(finding.replica, finding.about) for finding in story.findings] == [(4, "K")]
        assert [replica.id for replica in story.halted] == [5]


def test_a_short_outage_does_no_harm() -> None:
    """Time protects, as long as there is enough of it: what the policy kafka does is not simply to lose things."""
    with told(library.load("short-outage"), "kafka") as (story, _):
        assert story.agreed
        assert story.removed()["tombstones"] == 3


def test_the_deleted_value_is_back(invoke: Invoke) -> None:
    """Exit code 1 and the name of the harm; the JSON is as the model's, key by key."""
    code, out, err = invoke("run", "tombstone", "--engine", "holdfast", "--policy", "kafka", "--json")
    document = json.loads(out)
    assert (code, err) == (1, "")
    assert (document["engine"], document["policy"]) == ("holdfast", "kafka")
    assert (document["diverged"], document["halted"], document["variant"]) == (True, False, "tombstone")
    assert document["replicas"][2]["read_committed"] == {"K": "V"}
    assert document["evidence"][0]["what"] == "K reads V, but was deleted at offset 1"
    _, out, _ = invoke("run", "tombstone", "--policy", "kafka", "--json")
    assert shape(document) == shape(json.loads(out))


def test_it_is_told_step_by_step(invoke: Invoke, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same account as the model's, and the way to the cure on the same engine; no warnings beside it."""
    story = [
        "set delete.retention.ms 1h",
        "set min.cleanable.dirty.ratio 0",
        "produce K=V",
        "kill 3",
        "delete K",
    ]
    story += ["churn 2 every 2h", "return 3", "await-isr", "consume-via 3"]
    (tmp_path / "short.scn").write_text("\n".join(story))
    code, out, _ = invoke("run", str(tmp_path / "short.scn"), "--engine", "holdfast")
    assert code == 1
    assert "replicas 1 and 2 drop the outdated K=V and the delete of K" in " ".join(out.split())
    assert "holdfast lab run short --engine holdfast" in out
    assert [record for record in caplog.records if record.name.startswith("holdfast")] == []


def test_transactions_of_both_generations_open_aborted_and_committed() -> None:
    """What is undecided is shown as such, a follower leaves out what was aborted, read_uncommitted does not."""
    scenario = parse(
        "versions",
        "set transaction.version 2\nbegin p\nproduce a=1 by p\ncommit p\nbegin p\nproduce b=2 by p\nabort p\n"
        "begin q\nproduce c=3 by q\nconsume-via 2\nconsume-via 2 read_uncommitted",
    )
    with told(scenario, "coordinated") as (story, _):
        assert story.agreed
        assert [[cell.label for cell in strip.cells] for strip in story.frames[-1].strips] == [
            ["a=1", "⊘b=2", "c=3?"]
        ] * 3
        assert story.frames[-1].strips[1].seen == {"a": "1"}
        assert [frame.sentence.partition("gets ")[2] for frame in story.frames[-2:]] == [
            "a=1.",
            "a=1, b=2 and c=3.",
        ]


def test_members_come_and_go() -> None:
    """A new replica counts before it has a byte and serves when it has all; one that left is gone."""
    scenario = parse("members", "produce K=V\njoin new\nawait-isr\nleave 3\ndelete K\nconsume-via new")
    with told(scenario, "coordinated") as (story, _):
        assert story.agreed
        assert [strip.replica for strip in story.frames[-1].strips] == [1, 2, 4]
        assert [strip.state for strip in story.frames[1].strips][-1] == "behind"


def test_steps_that_cannot_be_taken() -> None:
    """Each says why, as the model does; the engine goes on."""
    refused: dict[steps.Step, str] = {
        steps.Return(2): "replica 2 is not down",
        steps.Kill(4): "there is no replica 4",
        steps.End("p", Outcome.COMMITTED): "producer p has no transaction open",
        steps.Produce("K", "V", "p"): "producer p has no transaction open",
        steps.Leave(1): "replica 1 is no member that could be spared",
        steps.Join(2): "replica 2 is a member already",
    }
    with open_engine(parse("any", "produce K=V"), policy="coordinated") as engine:
        for step, why in refused.items():
            with pytest.raises(StepError, match=why):
                engine.apply(step)
        for taken in (steps.Kill(2), steps.Kill(3), steps.Begin("p"), steps.Produce("K", "V", "p")):
            engine.apply(taken)
        refused = {
            steps.Kill(1): "replica 1 is the last one in sync",
            steps.Begin("p"): "producer p has a transaction open already",
            steps.ConsumeVia(2): "replica 2 is down",
        }
        for step, why in refused.items():
            with pytest.raises(StepError, match=why):
                engine.apply(step)
        engine.apply(steps.Return(2))
        for step in (steps.ConsumeVia(2), steps.ForceLeader(2)):
            with pytest.raises(StepError, match="replica 2 is not in sync"):
                engine.apply(step)
        engine.apply(steps.AwaitIsr())
        engine.apply(steps.ConsumeVia(2))
        assert engine.in_sync == {1, 2}


def test_a_line_that_cannot_be_run_is_named() -> None:
    """As by the model."""
    why = r"line 1 \(return 2\): replica 2 is not down"
    with pytest.raises(UsageError, match=why), told(parse("any", "return 2"), "coordinated"):
        pytest.fail("it was run")


@pytest.mark.parametrize(
    "step",
    [
        steps.Truncate(0),
        steps.Collect(1),
        steps.ReadMembership(1),
        steps.Deliver(0),
        steps.Lose(0),
        steps.Repeat(0),
        steps.Talk(1, 2),
        steps.BackUp(1),
        steps.PutBack(1),
        steps.Produce("K", "V", acknowledged=False),
    ],
)
def test_what_only_a_model_can_do_is_refused_before_the_run(
    step: steps.Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name, and nothing is begun."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scenario = parse("any", "produce K=V\nadvance 1h")
    line = replace(scenario.lines[1], steps=(step,))
    scenario = replace(scenario, lines=(scenario.lines[0], line))
    named = rf"line 2 \(advance 1h\): the engine holdfast has no step {type(step).__name__}"
    with pytest.raises(UsageError, match=named), open_engine(scenario, policy="kafka"):
        pytest.fail("it began")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever breaks it off, be it with a store away: no directory and no thread stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def break_off() -> None:
        with told(parse("any", "produce K=V\nkill 3"), "coordinated"):
            assert [path.name.startswith("holdfast-lab-") for path in tmp_path.iterdir()] == [True]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert list(tmp_path.iterdir()) == []
    assert "lab" not in [thread.name for thread in threading.enumerate()]


def test_spark_is_for_this_engine(invoke: Invoke) -> None:
    """The model has no files to rewrite."""
    code, _, err = invoke("run", "tombstone", "--spark")
    assert code == 2
    assert "--engine holdfast" in err

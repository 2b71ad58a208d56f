"""What of the engine `kafka` needs no broker: its time, its cluster's size, and the steps that it cannot take."""

from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.lab import library
from holdfast.lab.engines.kafka_cluster import check_steps, nodes_of
from holdfast.lab.engines.kafka_java import JavaWriters
from holdfast.lab.engines.kafka_pass import gone
from holdfast.lab.engines.kafka_timing import SEGMENT_MS_MIN, timing_of
from holdfast.lab.engines.model import Model
from holdfast.lab.scenario import parse
from holdfast.rules.policy import HOUR_MS, NEVER_MS, Fate
from holdfast.rules.transaction import Outcome
from tests.cli.test_lab import Invoke, invoke

__all__ = ["invoke"]

TEN_MINUTES_MS = 600_000


def test_the_fastest_story_has_two_seconds_of_retention() -> None:
    """A day is two seconds, and all of the scenario's settings follow; segments roll no faster than brokers can."""
    scenario = library.load("tombstone")
    timing = timing_of(scenario, None)
    configs = timing.topic_configs(scenario.config)
    assert timing.real_ms(24 * HOUR_MS) == 2000
    assert configs["delete.retention.ms"] == "2000"
    assert configs["segment.ms"] == str(SEGMENT_MS_MIN)
    assert "max.compaction.lag.ms" not in configs
    assert timing.broker_properties(scenario.config)["producer.id.expiration.ms"] == "2000"
    assert timing.story_ms(2.0) == 24 * HOUR_MS


def test_the_storys_time_takes_as_long_as_it_is_given() -> None:
    """130 hours pass in `tombstone`: within ten minutes its day of retention is 24/130 of them."""
    scenario = library.load("tombstone")
    timing = timing_of(scenario, TEN_MINUTES_MS)
    assert timing.real_ms(130 * HOUR_MS) == TEN_MINUTES_MS
    assert timing.topic_configs(scenario.config)["delete.retention.ms"] == str(round(600_000 * 24 / 130))
    assert timing.real_ms(NEVER_MS) == NEVER_MS


def test_most_controllers_stay_up() -> None:
    """A broker for each replica, and more where two are away at once."""
    assert nodes_of(library.load("tombstone")) == 3
    assert nodes_of(library.load("leader-change")) == 5
    assert nodes_of(library.load("two-late-replicas")) == 5
    assert nodes_of(parse("x", "replicas 1\nproduce K=V")) == 1


def test_what_brokers_cannot_be_made_to_do_is_named() -> None:
    """A part of a fetch, or a new member; and nothing is started for it."""
    with pytest.raises(UsageError, match=r"line \d+ \(join new\): the engine kafka has no step Join"):
        check_steps(library.load("mixed-sources"))
    with pytest.raises(
        UsageError, match=r"\(fetch 2 1\): the engine kafka has no step Fetch of some batches"
    ):
        check_steps(parse("x", "produce K=V\nlag 2\nfetch 2 1"))
    for name in set(library.names()) - {"mixed-sources"}:
        check_steps(library.load(name))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--engine", "kafka", "--policy", "coordinated"], "real brokers compact in Kafka's way alone"),
        (["--within", "10m"], "--client and --guard are for --engine kafka"),
        (["--engine", "kafka", "--client", "sarama"], "unknown client 'sarama'"),
        (["--engine", "kafka", "--within", "0s"], "--within takes some time"),
        (["--engine", "kafka", "--kafka-version", "0.0.0"], "make kafka KAFKA=0.0.0"),
    ],
)
def test_bad_usage_is_one_line(invoke: Invoke, words: list[str], says: str) -> None:
    """Before any broker starts."""
    code, out, err = invoke("run", "tombstone", *words)
    assert code == (1 if "0.0.0" in words else 2)
    assert out == ""
    assert says in err


def test_what_is_gone_is_told_by_the_history() -> None:
    """A delete, an outcome, what was shadowed and what was aborted, each by its name; what is there is not told."""
    story = parse(
        "x",
        "replicas 1\nset delete.retention.ms 1h\nset producer.id.expiration.ms 1h\nset segment.ms 1m\n"
        "set min.cleanable.dirty.ratio 0\nproduce K=V\ndelete K\nbegin p\nproduce A=1 by p\nabort p\n"
        "produce L=1\nproduce L=2\nchurn 8 every 40m",
    )
    model = Model(policy="kafka", replicas=1, config=story.config)
    for line in story.lines:
        for step in line.steps:
            model.apply(step)
    fates = {
        (entry.key, entry.value, entry.marker): fate
        for fate, entry in gone(model.history, model.replicas[1])
        if entry.key != "filler"
    }
    assert fates == {
        ("K", "V", None): Fate.SHADOWED,
        ("K", None, None): Fate.TOMBSTONE,
        ("A", "1", None): Fate.ABORTED,
        (None, None, Outcome.ABORTED): Fate.OUTCOME,
        ("L", "1", None): Fate.SHADOWED,
    }


def test_a_jre_is_not_enough_for_the_java_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs brokers, but has no compiler: that is said before anything is started."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho java.base@17\n")
    java.chmod(0o755)
    monkeypatch.setattr("holdfast.lab.engines.kafka_java.find_java", lambda: str(java))
    with pytest.raises(UsageError, match=r"--client java needs a JDK, and .* has no compiler"):
        JavaWriters("127.0.0.1:1", tmp_path, tmp_path, generation=1)

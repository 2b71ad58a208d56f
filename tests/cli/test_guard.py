"""`holdfast guard` as a command: where it is not needed, where it cannot work, and what it holds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.retry import refusal
from holdfast.client.topics import create_topic, describe_configs
from holdfast.errors import HoldfastError, RightMissing
from holdfast.guard import world as world_module
from holdfast.guard.decide import Alter
from holdfast.guard.lever import Lags, mark_of, pulled
from holdfast.guard.state import Hold, Outage, Stage, State, Taint
from holdfast.guard.state_file import StateFile
from holdfast.guard.world import DryWorld, KafkaWorld
from tests.cli.commands import Command, run_holdfast

OWNER = Lags("1000", None)


@pytest.mark.holdfast_only
def test_holdfast_needs_no_guard(command: Command, tmp_path: Path) -> None:
    """It says so and leaves, and writes nothing."""
    state = tmp_path / "guard.json"
    answer = command.run("guard", "--state", str(state))
    assert (answer.code, answer.err) == (0, "")
    assert answer.text.startswith("this is Holdfast: no guard is needed")
    assert not state.exists()


def test_nobody_to_guard(tmp_path: Path) -> None:
    """One line and exit code 3."""
    told = Command("127.0.0.1:1").refused("guard", "--state", str(tmp_path / "guard.json"), code=3)
    assert "cannot connect to 127.0.0.1:1" in told


def test_bad_usage(command: Command, tmp_path: Path) -> None:
    """One line and exit code 2."""
    assert "takes some time" in command.refused("guard", "--interval", "0s", code=2)
    assert "not a duration" in command.refused("guard", "--margin", "soon", code=2)
    assert run_holdfast("guard", "status", "--state", str(tmp_path / "none.json")).code == 3


def test_status_tells_what_is_held(tmp_path: Path) -> None:
    """From the file alone: also when no guard runs, which is said."""
    path = tmp_path / "guard.json"
    hold = Hold(
        topic="orders",
        topic_id="id",
        stage=Stage.PAUSED,
        owner_min_ms=None,
        owner_max_ms=None,
        since_ms=1,
        outages=(Outage(partition=0, replica=3, last_in_sync_ms=None, leader_epoch=4),),
        taints=(Taint(partition=0, replica=3, why="because"),),
    )
    StateFile(path).write(State(cluster_id="c", mark=5, holds=(hold,)))
    answer = run_holdfast("guard", "status", "--state", str(path))
    assert answer.code == 3
    assert "replica 3 may be harmed (because): to be examined" in answer.text
    assert answer.text.endswith("1 topic paused\n")
    with StateFile(path).held():
        answer = run_holdfast("guard", "status", "--state", str(path), "--json")
    assert (answer.code, answer.json["running"]) == (1, True)
    assert answer.json["paused"][0]["outages"][0]["replica"] == 3
    path.write_text("broken")
    answer = run_holdfast("guard", "status", "--state", str(path))
    assert (answer.code, answer.out, answer.err.count("\n")) == (3, b"", 1)


def test_a_look_at_a_cluster(cluster: Cluster, topic: str) -> None:
    """Every broker's settings, who is in sync, log ends and sizes; a change is seen at the next look, a dry one not."""
    state = State(cluster_id="c", mark=5)
    create_topic(cluster, f"{topic}-c", partitions=2, configs={"cleanup.policy": "compact"})
    world = KafkaWorld(cluster, [f"{topic}*"])
    assert world.check(5) == 1
    (seen,) = world.look(state, []).topics.values()
    assert (seen.name, sorted(seen.partitions), seen.out) == (f"{topic}-c", [0, 1], [])
    assert list(seen.lags.values()) == [Lags()]
    held = Hold(
        topic=seen.name,
        topic_id=seen.topic_id,
        stage=Stage.PAUSED,
        owner_min_ms=None,
        owner_max_ms=None,
        since_ms=1,
    )
    state = State(cluster_id="c", mark=5, holds=(held,))
    dry = DryWorld(cluster, [f"{topic}*"])
    pull = Alter(topic=seen.name, change=Lags().changes_to(pulled(5)))
    dry.alter(pull)
    (lags,) = dry.look(state, []).topics[seen.name].lags.values()
    assert mark_of(lags) == 5
    assert _lags(cluster, seen.name) == Lags()
    world.alter(pull)
    look = world.look(state, [])
    again = look.topics[seen.name]
    assert [mark_of(lags) for lags in again.lags.values()] == [5]
    assert again.hosts <= look.brokers
    assert set(again.ends.values()) == {0}
    assert (again.size_bytes or 0) >= 0
    world.alter(Alter(topic=seen.name, change=pulled(5).changes_to(OWNER)))
    assert _lags(cluster, seen.name) == OWNER


def test_rights_that_are_missing_are_named(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, before anything is changed: what the controller would refuse it is asked for without doing it."""
    create_topic(cluster, f"{topic}-c", partitions=1, configs={"cleanup.policy": "compact"})
    asked = []

    def refuse(
        cluster: Cluster, topics: Sequence[str], put: Mapping[str, str]
    ) -> dict[str, HoldfastError | None]:
        asked.append((list(topics), dict(put)))
        return {name: refusal(29, f"configs of topic {name!r}") for name in topics}

    monkeypatch.setattr(world_module, "try_configs", refuse)
    with pytest.raises(RightMissing, match=f"the right AlterConfigs on topic '{topic}-c' is missing"):
        KafkaWorld(cluster, [f"{topic}*"]).check(5)
    assert [topics for topics, _ in asked] == [[f"{topic}-c"]]
    assert _lags(cluster, f"{topic}-c") == Lags()


def _lags(cluster: Cluster, topic: str) -> Lags:
    own = {
        entry.name: entry.value for entry in describe_configs(cluster, topic) if entry.source.name == "TOPIC"
    }
    return Lags(own.get("min.compaction.lag.ms"), own.get("max.compaction.lag.ms"))

"""A guard beside real brokers: nothing diverges, it may be killed, and cleanup goes on when all are back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.guard.lever import mark_of
from holdfast.guard.state import Stage
from holdfast.lab import account, library
from holdfast.lab.engines.kafka import KafkaEngine
from holdfast.lab.engines.kafka_cluster import open_engine
from holdfast.lab.engines.kafka_options import KafkaOptions
from tests.cli.commands import Command, run_holdfast
from tests.kafka.guarded import own_lags
from tests.kafka.patience import wait_for

RUN_SECONDS_MAX = 600
SCENARIO = "tombstone"

pytestmark = pytest.mark.timeout(RUN_SECONDS_MAX)


@pytest.fixture(scope="module")
def engine(pytestconfig: pytest.Config) -> Iterator[KafkaEngine]:
    """Brokers and a guard for one scenario."""
    options = KafkaOptions(version=pytestconfig.getoption("kafka"), guard=True)
    with open_engine(library.load(SCENARIO), options) as opened:
        yield opened


def test_a_guarded_cluster_does_not_diverge(engine: KafkaEngine) -> None:
    """The guard is killed in the middle of the pause, and the replica comes back before it does: nothing is lost.

    Afterwards the owner's settings are as they were, the doctor finds nothing, and the deleted value and its tombstone
    are gone on all three.
    """
    guard = engine.guard
    assert guard is not None
    command = Command(engine.bootstrap)
    before = own_lags(engine.bootstrap)
    assert mark_of(before) is None
    second = command.run("guard", "--topic", "lab", "--state", str(guard.file.path))
    assert (second.code, second.err.count("\n")) == (3, 1)
    assert "another guard's" in second.err
    story = account.begin_on(engine, library.load(SCENARIO))
    for frame in account.advance(story):
        if frame.line.verb == "kill":
            assert mark_of(own_lags(engine.bootstrap)) is not None
            assert run_holdfast("guard", "status", "--state", str(guard.file.path)).code == 1
        if frame.line.verb == "churn" and guard.stage is Stage.PAUSED:
            guard.kill()
        if frame.line.verb == "return":
            assert guard.stage is Stage.PAUSED
            assert mark_of(own_lags(engine.bootstrap)) is not None
            guard.start()
    told = story.as_json()
    assert (told["diverged"], told["variant"]) == (False, None)
    assert own_lags(engine.bootstrap) == before
    wait_for(lambda: _is_cleaned(engine), "cleanup on all three brokers")
    assert command.run("doctor", "--topic", "lab").code == 0
    assert guard.stop() == 0
    assert "no longer guarded" in guard.log
    assert "Traceback" not in guard.log


def test_a_replica_that_was_out_before_is_examined(engine: KafkaEngine, tmp_path: Path) -> None:
    """Nobody guarded when it left: it is suspected, and the doctor clears it before the owner's settings come back.

    The guard is killed when that is written down and not done yet; the next one does it.
    """
    guard = engine.guard
    assert guard is not None
    assert set(engine._look_at_partition().in_sync) == {1, 2, 3}
    before = own_lags(engine.bootstrap)
    brokers = engine._brokers
    brokers.kill_node(2)
    wait_for(lambda: 2 not in engine._look_at_partition().in_sync, "replica 2 to leave")
    guard.start("tests.kafka.mortal_guard", "after restoring was written down", str(tmp_path / "death"))
    wait_for(lambda: guard.stage is Stage.PAUSED, "the pause")
    state = guard.file.read()
    assert state is not None
    assert [(taint.partition, taint.replica) for taint in state.holds[0].taints] == [(0, 2)]
    brokers.launch(2)
    brokers.wait_ready()
    wait_for(lambda: guard.is_dead, "the guard's death")
    assert guard.stage is Stage.RESTORING
    assert mark_of(own_lags(engine.bootstrap)) is not None
    assert "lab:0 is being examined" in guard.log
    guard.start()
    wait_for(lambda: guard.stage is None, "the end of the pause")
    assert own_lags(engine.bootstrap) == before
    assert guard.stop() == 0


def _is_cleaned(engine: KafkaEngine) -> bool:
    engine.write_filler()
    for replica in engine.replicas.values():
        replica.touch()
    return not any(entry.key == "K" for replica in engine.replicas.values() for entry in replica.entries)

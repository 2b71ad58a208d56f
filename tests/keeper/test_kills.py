"""Whoever is killed, and whatever is away meanwhile: in the end all replicas show what was written, and no more."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.processes import find_busy_jvm, find_keeper, find_worker, is_alive, kill, list_below
from soak.rest import count_in_segments, find_orphans
from soak.server import ON_SPARK
from soak.workloads.upkeep import RETENTION_MS, TOPIC
from tests.agent.test_disk import mounted
from tests.keeper.stage import Stage

SEED = 7_919
KEEPER_KILLS = 4
SPARK_SECONDS_MAX = 300.0
"""A session is there in ten seconds, on a machine that has nothing else to do."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A log under load."""
    made = Stage(tmp_path / "round", seed=SEED)
    try:
        made.start()
        made.go_on(50)
        yield made
    finally:
        made.close()


def test_the_keeper_is_killed(stage: Stage) -> None:
    """At any moment of a round: what it has not published is nobody's, and the next one goes on at once."""
    for _ in range(KEEPER_KILLS):
        keeper = stage.wait_for(stage.find_keeper, "keeper")
        stage.go_on(40)
        kill(keeper)
    stage.end()


def test_the_agent_is_killed(stage: Stage) -> None:
    """Its keeper finds nobody to publish to, and the next one begins with what is recorded."""
    for _ in range(3):
        stage.wait_for(stage.find_keeper, "keeper")
        stage.go_on(60)
        stage.crash()
        stage.server.process.start()
    stage.end()


def test_a_store_is_away_for_longer_than_its_retention(stage: Stage) -> None:
    """The others go on, and forget no delete that it needs; then it is brought along."""
    with stage.without(3):
        assert stage.phase(3) == "away"
        gone_at = time.monotonic()
        stage.wait_for(lambda: time.monotonic() - gone_at > 3 * RETENTION_MS / 1000, "time that passes")
        stage.wait_for(
            lambda: all(count.deletes for count in count_in_segments(stage.data, TOPIC) if count.store != 3),
            "deletes that wait for it",
        )
    stage.go_on(50)
    stage.wait_for(lambda: stage.phase(3) == "in sync", "store that is in sync")
    stage.end()


def test_a_store_is_fenced_and_rebuilt_under_load(stage: Stage) -> None:
    """Its next life begins empty and ends up the same."""
    with stage.without(2):
        stage.go_on(100)
        stage.care("fence", 2)
        stage.go_on(100)
    stage.go_on(50)
    stage.care("rebuild", 2)
    stage.go_on(100)
    stage.wait_for(lambda: stage.phase(2) == "in sync", "store that is in sync")
    stage.end()


def test_a_store_is_full_under_load(tmp_path: Path) -> None:
    """Neither frames nor rewrites fit in: it is left behind, comes back once there is room, and ends up the same."""
    stage = Stage(tmp_path / "round", seed=SEED)
    path = stage.data / "stores" / "3"
    stage.server.process.start()
    stage.crash()
    founded = path.rename(tmp_path / "3")
    with mounted(path, "size=256k") as remount:
        shutil.copytree(founded, path, dirs_exist_ok=True)
        try:
            stage.start()
            stage.wait_for(lambda: stage.phase(3) == "away", "store that is full")
            stage.go_on(50)
            remount("size=256m")
            stage.wait_for(lambda: stage.phase(3) == "in sync", "store that is in sync")
            stage.end()
        finally:
            stage.close()


@pytest.fixture
def on_spark(tmp_path: Path) -> Iterator[Stage]:
    """A log under load whose keeper splits every rewrite over Spark tasks."""
    made = Stage(tmp_path / "round", seed=SEED, settings=ON_SPARK)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.kills
@pytest.mark.timeout(4 * SPARK_SECONDS_MAX)
def test_a_python_worker_and_then_sparks_java_are_killed(on_spark: Stage) -> None:
    """A worker's task is run again. Without a JVM the keeper ends, and says so; the next one has its own."""
    up = on_spark.server.process.pid

    def fails_without_workers() -> bool:
        # One that has nothing to do is not missed.
        worker = find_worker(up)
        if worker is not None:
            kill(worker)
        return "run again, one by one" in on_spark.server.process.log

    on_spark.wait_for(fails_without_workers, "task that failed", SPARK_SECONDS_MAX)
    keeper, jvm = (
        find_keeper(up),
        on_spark.wait_for(lambda: find_busy_jvm(up), "JVM at work", SPARK_SECONDS_MAX),
    )
    assert "the keeper ended with" not in on_spark.server.process.log
    kill(jvm)
    on_spark.wait_for(lambda: find_keeper(up) not in (None, keeper), "keeper that follows", SPARK_SECONDS_MAX)
    on_spark.end(SPARK_SECONDS_MAX)
    stop_without_a_trace(on_spark)
    log = on_spark.server.process.log
    assert log.count("the keeper ended with") == log.count("the keeper ended with 1") == 1, log[-5000:]
    assert log.count("Spark's Java has ended") == 1, log[-5000:]


def stop_without_a_trace(stage: Stage) -> None:
    """Stop the log: no file is left that nobody named, no process, and nothing was said that only we understand."""
    stage.wait_for(lambda: not find_orphans(stage.data), "end of all orphans")
    processes = list_below(stage.server.process.pid)
    assert stage.server.process.stop() == 0
    stage.wait_for(lambda: not any(map(is_alive, processes)), "end of all processes")
    assert "Traceback" not in stage.server.process.log, stage.server.process.log[-5000:]

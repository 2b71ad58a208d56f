"""`holdfast pipeline`: checked, run, watched and stopped from the command line."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from tests.cli.commands import Answer, Command, run_holdfast
from tests.pipelines.files import write_pipeline

SHORT = ("--master", "local[1]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")

SPARK_S_MAX = 300.0
"""A session takes seconds to start, and much longer on a machine that is busy."""


def test_file_is_wrong(tmp_path: Path, command: Command) -> None:
    """One line with the place, and exit code 2, before anybody is asked."""
    path = write_pipeline(tmp_path, mode="adaptor", prefix="p")
    told = command.refused("pipeline", "check", str(path), code=2)
    assert (
        told
        == f"{path}:27: delivery: 'adaptor' is not one of adapter, transaction, dual: did you mean 'adapter'?"
    )


def test_nothing_runs(tmp_path: Path, command: Command, cluster: Cluster) -> None:
    """Status says so, with exit code 1; so does stop. There is no adapter to run in another mode."""
    path = write_pipeline(tmp_path, mode="transaction", prefix="idle")
    for name in ("in", "qualified", "audit", "tally"):
        create_topic(cluster, f"idle.{name}", partitions=1)
    answer = command.run("pipeline", "status", str(path), "--json")
    assert answer.code == 1
    (part,) = answer.json["parts"]
    assert (part["part"], part["phase"], part["is_running"]) == ("service", "never started", False)
    assert part["lags"][0] == {
        "name": "service",
        "topic": "idle.in",
        "group": "idle.service",
        "lag": 0,
        "partitions": {"0": 0},
    }
    stopped = run_holdfast("pipeline", "stop", str(path))
    assert (stopped.code, stopped.err[:38]) == (1, "holdfast: nothing of 'idle' is running")
    told = command.refused("pipeline", "run", str(path), "--only", "adapter")
    assert told.endswith("delivery transaction has no adapter to run")


@pytest.mark.kills
@pytest.mark.timeout(900)
def test_check_run_status_stop(tmp_path: Path, command: Command, cluster: Cluster) -> None:
    """The way of a pipeline from its first check to its end, with a transform that forgets the end state first."""
    path = write_pipeline(tmp_path, mode="transaction", prefix="cli")
    for name in ("in", "qualified", "audit", "tally"):
        create_topic(cluster, f"cli.{name}", partitions=1)
    checks = tmp_path / "checks.py"
    right = checks.read_text()
    checks.write_text("def assess(messages):\n    return messages\n")
    with command.start("pipeline", "check", str(path), *SHORT) as process:
        out, err = process.communicate(timeout=SPARK_S_MAX)
    answer = Answer(code=process.returncode, out=out, err=err.decode())
    assert answer.code == 1
    assert [line[:2] for line in answer.text.splitlines()] == ["ok"] * 5 + ["NO"]
    assert f"NO  {path}:16: the transform gives back no column 'end_state'" in answer.text
    checks.write_text(right)
    words = [sys.executable, "-m", "holdfast", "pipeline", "run", str(path), "-b", command.bootstrap, *SHORT]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            told = running.stderr.readline()
            assert told.startswith("service: Spark UI at http://127.0.0.1:"), told
            while (
                command.run("pipeline", "status", str(path), "--json").json["parts"][0]["phase"] != "running"
            ):
                assert running.poll() is None
                time.sleep(0.2)
            status = command.ok("pipeline", "status", str(path))
            assert "running" in status.text
            second = command.run("pipeline", "run", str(path), *SHORT)
            assert (second.code, f"running already as process {running.pid}" in second.err) == (1, True), (
                second.err
            )
            stopped = run_holdfast("pipeline", "stop", str(path))
            assert (stopped.code, stopped.text) == (0, "the service has left\n"), stopped.err
            assert running.wait(SPARK_S_MAX) == 0
        finally:
            running.kill()
    after = command.run("pipeline", "status", str(path), "--json")
    assert (after.code, after.json["parts"][0]["phase"]) == (1, "stopped")

"""Service and adapter as the processes that users run, each killed once; the next start does what is left to do."""

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.state import PartState
from holdfast.pipelines.status import look_at
from holdfast.pipelines.tally import decode_tally, merge
from holdfast.spark.steps import Step
from tests.pipelines.files import make_pipeline
from tests.pipelines.kills import strike
from tests.pipelines.processes import start, wait_for
from tests.pipelines.runs import consume, expected, fill, read_once, run_adapters, run_service, send
from tests.process import HoldfastProcess
from tests.spark.kills import Kill

SEED = 20261117
MESSAGES = 600
BATCH = 60
STOP_S_MAX = 120.0

# Of the matrix that `make soak` goes through, one for each victim, and each part.
KILLS = [
    Kill(victim="driver", form="service", step=Step.ENDED),
    Kill(victim="worker", form="service", step=Step.WRITTEN),
    Kill(victim="holdfast", form="adapter", step=Step.STAGED),
    Kill(victim="driver", form="adapter", step=Step.REPORTED),
]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """A Holdfast that may be killed."""
    with HoldfastProcess(tmp_path_factory.mktemp("mortal") / "data", "--partitions", "2") as process:
        yield process


@pytest.mark.kills
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kill", KILLS, ids=str)
def test_killed_at_a_step(spark: SparkSession, mortal: HoldfastProcess, tmp_path: Path, kill: Kill) -> None:
    """In the middle of a micro-batch's transaction: data, audit and books are those of the oracle, each once."""
    strike(kill, spark, mortal, tmp_path)


def kill_in_batch(
    pipeline: Pipeline, part: str, process: "subprocess.Popen[bytes]", batch_id: int
) -> PartState:
    """SIGKILL as soon as it tells of that batch, whatever it does just then with the next one."""
    state = wait_for(pipeline, part, process, lambda query: query.batch_id >= batch_id)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return state


@pytest.mark.kills
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [SEED])
def test_transaction_service_killed(
    spark: SparkSession, cluster: Cluster, bootstrap: str, tmp_path: Path, seed: int
) -> None:
    """Data, audit and books are those of the oracle, each once, although batches were broken off."""
    pipeline = make_pipeline(
        tmp_path, mode="transaction", prefix="kill-t", bootstrap=bootstrap, records=BATCH
    )
    filled = fill(cluster, "kill-t", MESSAGES)
    process = start(pipeline, "service")
    try:
        state = kill_in_batch(pipeline, "service", process, random.Random(seed).randrange(3))
    finally:
        process.kill()
        process.wait()
    assert state.queries[0].rows < MESSAGES
    assert [part.phase for part in look_at(pipeline, cluster)] == ["killed"]
    run_service(spark, pipeline)
    qualified, audit = expected(filled)
    assert read_once(bootstrap, "kill-t.qualified") == qualified
    assert read_once(bootstrap, "kill-t.audit") == audit
    books = merge(decode_tally(message.value()) for message in consume(bootstrap, "kill-t.tally"))
    assert all(record.is_balanced for record in books.values())
    assert sum(record.stages["ingested"].count for record in books.values()) == MESSAGES


@pytest.mark.kills
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [SEED])
def test_service_and_adapter_killed(
    spark: SparkSession, cluster: Cluster, bootstrap: str, tmp_path: Path, seed: int
) -> None:
    """The service is killed; then the adapter, which works on without it. Each goes on where it was."""
    pipeline = make_pipeline(tmp_path, mode="adapter", prefix="kill-a", bootstrap=bootstrap, records=BATCH)
    filled = fill(cluster, "kill-a", MESSAGES)
    for part, batch_id in (("service", random.Random(seed).randrange(1, 3)), ("adapter", 0)):
        process = start(pipeline, part)
        try:
            state = kill_in_batch(pipeline, part, process, batch_id)
        finally:
            process.kill()
            process.wait()
    assert state.spark_ui.startswith("http://127.0.0.1:")
    assert [part.phase for part in look_at(pipeline, cluster)] == ["killed", "killed"]
    run_service(spark, pipeline)
    run_adapters(spark, pipeline)
    qualified, audit = expected(filled)
    assert read_once(bootstrap, "kill-a.qualified") == qualified
    assert read_once(bootstrap, "kill-a.audit") == audit
    assert [[lag.lag for lag in part.lags] for part in look_at(pipeline, cluster)] == [[0], [0]]


@pytest.mark.kills
@pytest.mark.timeout(1200)
def test_adapter_killed_alone(cluster: Cluster, bootstrap: str, tmp_path: Path) -> None:
    """The service beside it does not notice; the next adapter goes on where this one was, and audit has all once."""
    pipeline = make_pipeline(tmp_path, mode="adapter", prefix="alone", bootstrap=bootstrap, records=BATCH)
    filled = fill(cluster, "alone", MESSAGES)
    service, adapter = start(pipeline, "service"), start(pipeline, "adapter")
    try:
        kill_in_batch(pipeline, "adapter", adapter, 1)
        filled |= send(cluster, "alone.in", BATCH, seed=1)
        wait_for(pipeline, "service", service, lambda query: query.rows >= len(filled))
        assert [part.phase for part in look_at(pipeline, cluster)] == ["running", "killed"]
        adapter = start(pipeline, "adapter")
        qualified, audit = expected(filled)
        wait_for(
            pipeline,
            "adapter",
            adapter,
            lambda query: lags_of(pipeline, cluster)[1] == 0 and query.rows > 0,
        )
        for process in (service, adapter):
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_S_MAX) == 0
    finally:
        for process in (service, adapter):
            process.kill()
            process.wait()
    assert read_once(bootstrap, "alone.qualified") == qualified
    assert read_once(bootstrap, "alone.audit") == audit


def lags_of(pipeline: Pipeline, cluster: Cluster) -> list[int]:
    """Of the service's group, then of the adapter's."""
    return [lag.lag for part in look_at(pipeline, cluster) for lag in part.lags]

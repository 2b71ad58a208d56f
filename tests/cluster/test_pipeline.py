"""A whole pipeline on a cluster, one of whose executors is killed while it writes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.pipelines import delivery
from holdfast.pipelines.tally import decode_tally, merge
from holdfast.spark.sink import Sink
from holdfast.spark.steps import Step
from tests.cluster.trouble import KillExecutor
from tests.pipelines.files import make_pipeline
from tests.pipelines.runs import consume, expected, fill, read_once, run_service
from tests.process import HoldfastProcess

MESSAGES = 120
BATCH = 60


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A client of a Holdfast."""
    with (
        HoldfastProcess(tmp_path_factory.mktemp("log") / "data") as process,
        Cluster(process.bootstrap) as client,
    ):
        yield client


@pytest.mark.timeout(900)
def test_executor_killed(
    spark: SparkSession, log: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data, audit and books are those of the oracle, each once: what was counted twice was not sent twice."""
    pipeline = make_pipeline(
        tmp_path, mode="transaction", prefix="far", bootstrap=log.bootstrap, records=BATCH
    )
    filled = fill(log, "far", MESSAGES)
    counter = tmp_path / "steps"
    hook = KillExecutor(step=Step.WRITTEN, nth=3, counter=str(counter))
    monkeypatch.setattr(delivery, "Sink", partial(Sink, on_step=hook))
    run_service(spark, pipeline)
    assert counter.stat().st_size > 3, "nothing has happened"
    qualified, audit = expected(filled)
    assert read_once(log.bootstrap, "far.qualified") == qualified
    assert read_once(log.bootstrap, "far.audit") == audit
    books = merge(decode_tally(message.value()) for message in consume(log.bootstrap, "far.tally"))
    assert all(record.is_balanced for record in books.values())
    assert sum(record.stages["ingested"].count for record in books.values()) == MESSAGES

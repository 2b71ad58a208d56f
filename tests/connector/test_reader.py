"""Pipelines that read through Spark's own Kafka connector. `make test-connector` runs them, on a Spark that has one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.status import look_at
from holdfast.spark.session import spark_session
from tests.pipelines.files import write_pipeline
from tests.pipelines.runs import expected, fill, read_once, run_adapters, run_service, send
from tests.process import HoldfastProcess
from tests.spark.streams import SHORT_LIVED

MESSAGES = 120
BATCH = 60


@pytest.fixture(scope="module")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A session with the connector on its class path."""
    jars = ",".join(map(str, Path(pytestconfig.getoption("connector")).glob("*.jar")))
    session = spark_session("tests", master="local[2]", config=SHORT_LIVED | {"spark.jars": jars})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A client of a Holdfast."""
    with (
        HoldfastProcess(tmp_path_factory.mktemp("log") / "data") as process,
        Cluster(process.bootstrap) as client,
    ):
        yield client


def make(directory: Path, prefix: str, bootstrap: str, reader: str) -> Pipeline:
    """The example in mode adapter, so that there are two readers."""
    path = write_pipeline(directory, mode="adapter", prefix=prefix, bootstrap=bootstrap, records=BATCH)
    path.write_text(path.read_text() + f"reader: {reader}\n")
    return load_pipeline(path)


@pytest.mark.parametrize(
    "readers", [("kafka", "kafka"), ("holdfast", "kafka"), ("kafka", "holdfast")], ids="-".join
)
def test_every_message_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, readers: tuple[str, str]
) -> None:
    """A checkpoint goes on with either reader, and groups are told how far they are."""
    prefix = "-".join(readers)
    filled = fill(cluster, prefix, MESSAGES)
    for number, reader in enumerate(readers):
        pipeline = make(tmp_path, prefix, cluster.bootstrap, reader)
        run_service(spark, pipeline)
        run_adapters(spark, pipeline)
        qualified, audit = expected(filled)
        assert read_once(cluster.bootstrap, f"{prefix}.qualified") == qualified
        assert read_once(cluster.bootstrap, f"{prefix}.audit") == audit
        assert {lag.lag for part in look_at(pipeline, cluster) for lag in part.lags} == {0}
        filled |= send(cluster, f"{prefix}.in", BATCH, seed=number)

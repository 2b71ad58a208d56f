"""Pipelines on Apache Kafka: each delivery mode once, held against the oracle as on Holdfast."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.pipelines.check import check_cluster
from holdfast.pipelines.status import look_at
from holdfast.pipelines.tally import decode_tally, merge
from tests.kafka.peers import Peers
from tests.pipelines.files import make_pipeline
from tests.pipelines.runs import consume, expected, fill, read_once, run_adapters, run_service

MESSAGES = 120
BATCH = 60


@pytest.fixture(scope="module")
def cluster(peers: Peers) -> Iterator[Cluster]:
    """A client of Kafka."""
    with Cluster(f"127.0.0.1:{peers.kafka.port}") as cluster:
        yield cluster


@pytest.mark.parametrize("mode", ["adapter", "transaction", "dual"])
def test_every_message_once(spark: SparkSession, cluster: Cluster, tmp_path: Path, mode: str) -> None:
    """In its topic and in the audit topic; nothing fails here, so that mode dual has no fault to show."""
    bootstrap, prefix = cluster.bootstrap, f"pipeline-{mode}"
    pipeline = make_pipeline(tmp_path, mode=mode, prefix=prefix, bootstrap=bootstrap, records=BATCH)
    filled = fill(cluster, prefix, MESSAGES)
    assert [str(each) for each in check_cluster(pipeline, cluster) if not each.is_good] == []
    run_service(spark, pipeline)
    run_adapters(spark, pipeline)
    qualified, audit = expected(filled)
    assert read_once(bootstrap, f"{prefix}.qualified") == qualified
    assert read_once(bootstrap, f"{prefix}.audit") == audit
    assert {lag.lag for part in look_at(pipeline, cluster) for lag in part.lags} == {0}
    if mode == "transaction":
        books = merge(decode_tally(message.value()) for message in consume(bootstrap, f"{prefix}.tally"))
        assert all(record.is_balanced for record in books.values())
        assert sum(record.stages["ingested"].count for record in books.values()) == MESSAGES

"""Fingerprints that a streaming query keeps: closing a day reads what is not kept, and looks where ids differ."""

import shutil
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import EndState
from holdfast.pipelines.queries import fingerprint_query
from holdfast.pipelines.recon import keeping, looking
from holdfast.pipelines.recon.close import Desk, close_day
from holdfast.pipelines.recon.day import DayState, Verdict
from holdfast.pipelines.recon.law import Kind
from tests.pipelines.recon.scenes import DAY, Scene

NOON = DAY.start_ms + 43_200_000
SECONDS_MAX = 240.0
LONG_MS = 1 << 50
"""The day of these tests is long ago."""


class Stream:
    """A scene whose fingerprints Spark keeps, and what closing it tells of its progress."""

    def __init__(self, spark: SparkSession, cluster: Cluster, directory: Path) -> None:
        self.scene = Scene(cluster, directory, "streamed")
        self.scene.create_topics()
        self.told: list[str] = []
        self.desk = Desk(
            session=spark,
            cluster=cluster,
            pipeline=self.scene.pipeline,
            tasks=2,
            on_progress=self.told.append,
        )

    def keep(self) -> None:
        """All that is there now, by the query of `pipeline run --fingerprints`."""
        pipeline = self.scene.pipeline
        query = fingerprint_query(self.desk.session, pipeline, {"availableNow": True})
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            query.await_end()
            if not query.start_again_if_python_was_slow():
                break
            assert time.monotonic() < deadline, query.failure()
        assert query.failure() is None

    def close(self, tenant: str) -> Verdict:
        self.told.clear()
        return close_day(self.desk, tenant, DAY)


@pytest.mark.timeout(300)
def test_a_day_that_was_fingerprinted_as_it_came(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two micro-batches, the second with all of the first in it, as after a lost checkpoint: it counts once."""
    monkeypatch.setattr(looking, "HERE_OFFSETS_MAX", 0)
    monkeypatch.setattr(keeping, "KEPT_MS", LONG_MS)
    stream = Stream(spark, cluster, tmp_path)
    stream.scene.run("acme", [f"id-{number}" for number in range(60)])
    stream.scene.ingest("birch", "lost", NOON)
    stream.scene.write()
    stream.keep()
    stream.scene.run("acme", [f"more-{number}" for number in range(60)])
    stream.scene.ingest("birch", "doubled", NOON)
    stream.scene.audit("birch", "doubled", NOON, EndState.FAILED)
    stream.scene.audit("birch", "doubled", NOON, EndState.FAILED)
    stream.scene.write()
    shutil.rmtree(stream.scene.pipeline.checkpoint)
    stream.keep()
    acme = stream.close("acme")
    assert (acme.state, acme.total.ingested, acme.total.ended) == (DayState.CLOSED, 120, 120)
    assert "fingerprints of 0 offsets that are not kept" in stream.told
    birch = stream.close("birch")
    assert birch.state is DayState.OPEN
    assert {(each.kind, each.id) for each in birch.evidence.findings} == {
        (Kind.MISSING, "lost"),
        (Kind.DUPLICATE, "doubled"),
    }

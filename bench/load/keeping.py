"""What it costs a pipeline to have its fingerprints kept beside it: the service's rate with and without."""

import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bench.load.pipelines import Ground, fill, judge, make_pipeline
from holdfast.pipelines.config import Mode
from holdfast.pipelines.delivery import delivery_of
from holdfast.pipelines.queries import fingerprint_query
from holdfast.pipelines.service import Service
from tests.process import HoldfastProcess

SIZE: Final = 10_000
BATCHES: Final = 40
KEEP_SECONDS: Final = 10
"""Three times as often as `holdfast pipeline run` does it, so that a short run has some."""
ROUNDS: Final = 4
SECONDS_MAX: Final = 200.0


def rates(spark: SparkSession, directory: Path) -> dict[str, list[float]]:
    """Messages per second of each round, without and with fingerprints; who comes first takes turns, too."""
    found: dict[str, list[float]] = {"alone": [], "keeps": []}
    with HoldfastProcess(directory / "log") as process:
        ground = Ground(
            spark=spark, bootstrap=process.bootstrap, directory=directory, size=SIZE, batches=BATCHES
        )
        fill(ground)
        run_service(ground, "warm", keeps=True)
        for number in range(ROUNDS):
            for name in sorted(found, reverse=number % 2 == 1):
                found[name].append(run_service(ground, f"{name}-{number}", keeps=name == "keeps"))
    return found


def run_service(ground: Ground, name: str, *, keeps: bool) -> float:
    """Messages per second of the service, from its third micro-batch on."""
    pipeline = make_pipeline(ground, Mode.TRANSACTION, name)
    service = Service(pipeline, judge, delivery_of(pipeline), on_batch=lambda report: None)
    reader = ground.spark.readStream.format("holdfast").option("bootstrap", ground.bootstrap)
    reader = reader.option("topic", ground.ingest).option("startingOffsets", "earliest")
    frame = reader.option("group", name).option("maxOffsetsPerTrigger", ground.size).load()
    beside = None
    if keeps:
        trigger = {"processingTime": f"{KEEP_SECONDS} seconds"}
        beside = fingerprint_query(ground.spark, pipeline, trigger)
    query = (
        frame.writeStream.foreachBatch(service)
        .option("checkpointLocation", str(pipeline.path.parent / "service"))
        .start()
    )
    deadline = time.monotonic() + SECONDS_MAX
    marks: list[float] = []
    while len(marks) < ground.wanted:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, f"{len(marks)} of {ground.wanted} batches"
        done = sum(1 for each in query.recentProgress if each.numInputRows)
        marks += [time.monotonic()] * (done - len(marks))
        time.sleep(0.01)
    query.stop()
    if beside is not None:
        beside.stop()
    return (
        ground.batches * ground.size / (marks[ground.wanted - 1] - marks[ground.wanted - ground.batches - 1])
    )

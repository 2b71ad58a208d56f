"""One SIGKILL at one step of a pipeline's micro-batch, and what its topics have then; for tests and `make soak`."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.outage import passing
from holdfast.pipelines.tally import decode_tally, merge
from holdfast.spark.sink import Sink
from holdfast.spark.steps import OnStep, ignore
from tests.pipelines.files import make_pipeline
from tests.pipelines.runs import consume, expected, fill, read_once, run_adapters, run_service
from tests.process import HoldfastProcess
from tests.spark.kills import STARTS_MAX, Kill, restarted, run_driver
from tests.spark.streams import KillAt

MESSAGES = 300
BATCH = 60

MODES = {"service": "transaction", "adapter": "adapter"}
"""By the part that is hit: the delivery mode. The service writes audit topic and books, where no adapter does."""
SINKS = {"service": "holdfast.pipelines.delivery.Sink", "adapter": "holdfast.pipelines.queries.Sink"}


def strike(kill: Kill, spark: SparkSession, holdfast: HoldfastProcess, directory: Path) -> None:
    """Runs a pipeline with the kill on the way; AssertionError if it is not what the oracle has, each message once."""
    part, prefix, counter = kill.form, f"kill.{kill}", directory / "steps"
    pipeline = make_pipeline(
        directory, mode=MODES[part], prefix=prefix, bootstrap=holdfast.bootstrap, records=BATCH
    )
    with Cluster(holdfast.bootstrap) as cluster:
        filled = fill(cluster, prefix, MESSAGES)
    if part == "adapter":
        run_part(spark, pipeline, "service")
    if kill.victim == "driver":
        how = (kill.step.name, str(kill.nth))
        run_driver("tests.pipelines.steps_driver", str(pipeline.path), part, str(counter), *how)
    with restarted(holdfast if kill.victim == "holdfast" else None):
        pids = (holdfast.pid,) if kill.victim == "holdfast" else ()
        nth = 0 if kill.victim == "driver" else kill.nth
        run_part(spark, pipeline, part, KillAt(step=kill.step, nth=nth, counter=counter, pids=pids))
    assert counter.stat().st_size >= kill.nth, f"{kill}: the step was never reached"
    qualified, audit = expected(filled)
    assert read_once(holdfast.bootstrap, f"{prefix}.qualified") == qualified, f"{kill}: qualified"
    assert read_once(holdfast.bootstrap, f"{prefix}.audit") == audit, f"{kill}: audit"
    if part == "service":
        books = merge(
            decode_tally(message.value()) for message in consume(holdfast.bootstrap, f"{prefix}.tally")
        )
        assert all(record.is_balanced for record in books.values()), f"{kill}: books"
        assert sum(record.stages["ingested"].count for record in books.values()) == MESSAGES, f"{kill}: books"


def run_part(spark: SparkSession, pipeline: Pipeline, part: str, on_step: OnStep = ignore) -> None:
    """To the end of what is there; as the command does, what fails of an outage is started again."""
    for start in range(STARTS_MAX):
        try:
            with _hooked(part, on_step):
                if part == "service":
                    run_service(spark, pipeline)
                else:
                    run_adapters(spark, pipeline)
            return
        except StreamingQueryException as failure:
            if passing(failure) is None or start == STARTS_MAX - 1:
                raise


@contextmanager
def _hooked(part: str, on_step: OnStep) -> Iterator[None]:
    """The sinks that are made meanwhile tell of their steps; nobody who runs a pipeline needs to hear of them."""
    with patch(SINKS[part], partial(Sink, on_step=on_step)):
        yield

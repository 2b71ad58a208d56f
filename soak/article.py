"""The load that the adapter was made for: fourteen sources, 300 messages a second in total, nine adapters.

Part of `make soak`; `python -m soak.article --seconds 180`. Nine pipelines deliver by adapter, five by transaction. All
of their queries share one process, each with its own checkpoint, group and transactional id. When the sources fall
silent every topic is held against the plain Python oracle: each message once, in its end state.
"""

import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import click
from pyspark.sql import SparkSession

from examples.compliance.checks import assess
from examples.compliance.generator import Message, messages
from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.queries import RunningQuery, adapter_query, service_query
from holdfast.pipelines.run import SPARK
from holdfast.pipelines.status import look_at
from holdfast.spark.session import spark_session
from tests.pipelines.files import make_pipeline
from tests.pipelines.runs import expected, fill, read_once, send_these
from tests.process import HoldfastProcess

SOURCES: Final = 14
ADAPTERS: Final = 9
PER_SECOND: Final = 300
TRIGGER: Final = {"processingTime": "10 seconds"}
DRAIN_S_MAX: Final = 900.0
POLL_S: Final = 1.0
SEED: Final = 20261118

Sent = dict[str, tuple[Message, str]]


@click.command()
@click.option("--seconds", type=click.IntRange(1), default=180, show_default=True)
def main(seconds: int) -> None:
    """Exit code 1 if a message is missing, there twice, or in another end state."""
    logging.getLogger("holdfast.spark.sink").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with (
            HoldfastProcess(directory / "data") as process,
            Cluster(process.bootstrap) as cluster,
        ):
            pipelines = [_make(directory, cluster, number) for number in range(SOURCES)]
            spark = spark_session("soak", master="local[2]", config=SPARK)
            queries = [query for pipeline in pipelines for query in _start(spark.newSession(), pipeline)]
            sent, late_s = _feed(cluster, pipelines, seconds)
            drained_s = _drain(cluster, pipelines, queries)
            for query in queries:
                query.stop()
            spark.stop()
            wrong = [
                told for pipeline in pipelines for told in compare(cluster, pipeline, sent[pipeline.name])
            ]
    for told in wrong:
        click.echo(told)
    total = sum(map(len, sent.values()))
    click.echo(
        f"{total} messages of {SOURCES} sources in {seconds + late_s:.0f} s through {len(queries)} queries, of them"
        f" {ADAPTERS} adapters; nothing was left {drained_s:.0f} s later: {'wrong' if wrong else 'each is there once'}"
    )
    sys.exit(1 if wrong else 0)


def _make(directory: Path, cluster: Cluster, number: int) -> Pipeline:
    name = f"source-{number:02}"
    mode = Mode.ADAPTER if number < ADAPTERS else Mode.TRANSACTION
    fill(cluster, name, 0)
    return make_pipeline(directory / name, mode=mode.value, prefix=name, bootstrap=cluster.bootstrap)


def _start(spark: SparkSession, pipeline: Pipeline) -> Iterator[RunningQuery]:
    """In a session of their own: within one, no two queries have the same name."""
    yield service_query(spark, pipeline, assess, TRIGGER)
    for adapter in pipeline.adapters:
        yield adapter_query(spark, pipeline, adapter, TRIGGER)


def _feed(cluster: Cluster, pipelines: Sequence[Pipeline], seconds: int) -> tuple[dict[str, Sent], float]:
    """A second's messages each second, shared out among the sources; and how late the last ones were."""
    made = {
        pipeline.name: messages(seconds * PER_SECOND, seed=SEED + number)
        for number, pipeline in enumerate(pipelines)
    }
    sent: dict[str, Sent] = {name: {} for name in made}
    begun = time.monotonic()
    for second in range(seconds):
        time.sleep(max(0.0, begun + second - time.monotonic()))
        for number, pipeline in enumerate(pipelines):
            share = PER_SECOND * (number + 1) // SOURCES - PER_SECOND * number // SOURCES
            chosen = islice(made[pipeline.name], share)
            sent[pipeline.name] |= send_these(cluster, pipeline.ingest, chosen)
    return sent, max(0.0, time.monotonic() - begun - seconds)


def _drain(cluster: Cluster, pipelines: Sequence[Pipeline], queries: Sequence[RunningQuery]) -> float:
    """Seconds until no group lags any more."""
    begun = time.monotonic()
    while any(lag.lag for each in pipelines for part in look_at(each, cluster) for lag in part.lags):
        for query in queries:
            if not query.is_active and not query.start_again_if_python_was_slow():
                raise SystemExit(f"a query has ended: {query.failure()}")
        if time.monotonic() > begun + DRAIN_S_MAX:
            raise SystemExit(f"there is something left after {DRAIN_S_MAX:.0f} s")
        time.sleep(POLL_S)
    return time.monotonic() - begun


def compare(cluster: Cluster, pipeline: Pipeline, sent: Sent) -> Iterator[str]:
    """What is wrong with the topics of a pipeline, beside the oracle."""
    for topic, wanted in zip(("qualified", "audit"), expected(sent), strict=True):
        try:
            found = read_once(cluster.bootstrap, f"{pipeline.name}.{topic}")
        except AssertionError as twice:
            yield str(twice)
            continue
        if found != wanted:
            missing = len(wanted.keys() - found.keys())
            yield f"{pipeline.name}.{topic}: {missing} of {len(wanted)} are missing, {len(found)} are there"


if __name__ == "__main__":
    main()

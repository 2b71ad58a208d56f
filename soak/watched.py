"""A pipeline that runs on Spark as service and adapter, with somebody who writes to it and a watcher: for soaks."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from holdfast.client.admin import get_json
from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.state import PartFiles
from holdfast.pipelines.status import ADAPTER, SERVICE, PartStatus, look_at
from tests.pipelines.files import write_pipeline
from tests.pipelines.watch.watcher import watching

START_S_MAX: Final = 600.0
PER_SECOND: Final = 50
LAG_TRIGGERS_MAX: Final = 3
"""Of a group: a fault that begins later would be told of by the age of the one before."""
POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A pipeline that runs, and where its watcher tells."""

    pipeline: Pipeline
    watcher: str

    def alarms(self) -> list[dict[str, Any]]:
        """What is wrong now."""
        found: list[dict[str, Any]] = get_json(self.watcher, "/alarms")["alarms"]
        return found

    def look(self) -> list[PartStatus]:
        """How far its parts are."""
        with Cluster(self.pipeline.endpoint) as cluster:
            return look_at(self.pipeline, cluster)


@contextmanager
def running(directory: Path, bootstrap: str, settings: Mapping[str, str]) -> Iterator[Watched]:
    """The example in delivery mode `adapter`; in its file `settings` stand in place of what is there."""
    path = write_pipeline(directory / "pipeline", mode="adapter", prefix="soaked", bootstrap=bootstrap)
    text = path.read_text()
    for before, after in settings.items():
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    pipeline = load_pipeline(path)
    with Cluster(bootstrap) as cluster:
        for topic in dict.fromkeys([pipeline.ingest, *pipeline.outputs]):
            create_topic(cluster, topic, partitions=2)
    with _producer(pipeline, directory), _parts(pipeline, directory), watching(path) as watcher:
        yield Watched(pipeline=pipeline, watcher=watcher)


def await_health(watched: Watched) -> None:
    """Until both groups are where they should be, and nothing is wrong."""
    rhythm_s = LAG_TRIGGERS_MAX * watched.pipeline.trigger.interval_ms / 1000
    deadline = time.monotonic() + START_S_MAX + rhythm_s
    while True:
        parts = watched.look()
        queries = [part.state.queries for part in parts if part.state is not None]
        has_begun = len(queries) == len(parts) and all(found and found[0].batch_id >= 1 for found in queries)
        lags = [lag.lag for part in parts for lag in part.lags]
        if has_begun and max(lags) < rhythm_s * PER_SECOND and not watched.alarms():
            return
        if time.monotonic() > deadline:
            raise click.ClickException(f"the pipeline has not begun: {watched.alarms()}")
        time.sleep(POLL_S)


@contextmanager
def _producer(pipeline: Pipeline, directory: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "examples.compliance.generator", "--topic", pipeline.ingest]
    command += [
        "--bootstrap",
        str(pipeline.endpoint),
        "--messages",
        "1000000",
        "--per-second",
        str(PER_SECOND),
    ]
    with (directory / "producer.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _parts(pipeline: Pipeline, directory: Path) -> Iterator[None]:
    """Service and adapter; at the end whoever runs then is asked to leave."""
    command = [
        sys.executable,
        "-m",
        "holdfast",
        "pipeline",
        "run",
        str(pipeline.path),
        "--master",
        "local[1]",
        "--fingerprints",
    ]
    processes = []
    for part in (SERVICE, ADAPTER):
        with (directory / f"{part}.log").open("wb") as log:
            processes.append(
                subprocess.Popen([*command, "--only", part], stdout=log, stderr=log, process_group=0)
            )
    try:
        yield
    finally:
        files = [PartFiles(pipeline.checkpoint, part) for part in (SERVICE, ADAPTER)]
        for each in files:
            each.ask_to_stop()
        deadline = time.monotonic() + START_S_MAX
        while any(each.is_running() for each in files) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for process in processes:
            process.kill()
            process.wait()

"""Break a pipeline on Spark in the ways that `holdfast recon drill` knows, with real thresholds: part of `make soak`.

`python -m soak.drills` runs all; `--only NAME` one. The trigger is ten seconds: every fault has to be told within 90.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import click

from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.state import PartFiles
from holdfast.pipelines.status import ADAPTER, SERVICE, look_at
from tests.pipelines.files import write_pipeline
from tests.pipelines.watch.watcher import watching
from tests.process import HoldfastProcess

FAULTS: Final = ("stall", "lost", "hang", "crash")
"""Without `dup`: that is seen when its window is sealed, half an hour later."""
ALARM_S_MAX: Final = 90.0
START_S_MAX: Final = 600.0
PER_SECOND: Final = 50
POLL_S: Final = 0.5


@click.command()
@click.option("--only", type=click.Choice(FAULTS), help="One of them.")
def main(only: str | None) -> None:
    """Exit code 1 if an alarm comes late, or never, or does not end."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        holdfast = stack.enter_context(HoldfastProcess(directory / "data"))
        pipeline = _prepare(directory, holdfast.bootstrap)
        stack.enter_context(_producer(pipeline, directory))
        stack.enter_context(_parts(pipeline, directory))
        watcher = stack.enter_context(watching(pipeline.path))
        _await_health(pipeline, holdfast.bootstrap)
        failed = [fault for fault in FAULTS if only in {None, fault} and not _drill(pipeline, watcher, fault)]
    if failed:
        click.echo(
            f"not as it should be: {', '.join(failed)}; again with: python -m soak.drills --only {failed[0]}"
        )
        sys.exit(1)


def _prepare(directory: Path, bootstrap: str) -> Pipeline:
    path = write_pipeline(directory / "pipeline", mode="adapter", prefix="drill", bootstrap=bootstrap)
    path.write_text(path.read_text().replace("interval: 1s", "interval: 10s"))
    with Cluster(bootstrap) as cluster:
        for topic in ("drill.in", "drill.qualified", "drill.audit"):
            create_topic(cluster, topic, partitions=2)
    return load_pipeline(path)


def _drill(pipeline: Pipeline, watcher: str, fault: str) -> bool:
    command = [sys.executable, "-m", "holdfast", "recon", "drill", fault, "--yes", "--json", "--wait", "5m"]
    command += ["--pipeline", str(pipeline.path), "--listen", watcher]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        click.echo(f"{fault}: {done.stderr.strip()}")
        return False
    report: dict[str, Any] = json.loads(done.stdout)
    click.echo(
        f"{fault}: {report['alarm']} after {report['alarm_s']} s, over {report['repair_s']} s after it was undone"
    )
    return done.returncode == 0 and report["alarm_s"] <= ALARM_S_MAX


def _await_health(pipeline: Pipeline, bootstrap: str) -> None:
    """Until both groups have a position."""
    deadline = time.monotonic() + START_S_MAX
    with Cluster(bootstrap) as cluster:
        while True:
            parts = look_at(pipeline, cluster)
            queries = [part.state.queries for part in parts if part.state is not None]
            if len(queries) == len(parts) and all(found and found[0].batch_id >= 1 for found in queries):
                return
            if time.monotonic() > deadline:
                raise click.ClickException("the pipeline has not begun")
            time.sleep(POLL_S)


@contextmanager
def _producer(pipeline: Pipeline, directory: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "examples.compliance.generator", "--topic", pipeline.ingest]
    command += [
        "--bootstrap",
        str(pipeline.bootstrap),
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


if __name__ == "__main__":
    main()

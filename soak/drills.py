"""Break a pipeline on Spark from outside, with real thresholds, and see who tells of it: part of `make soak`.

`python -m soak.drills` runs all; `--only NAME` one. The trigger is ten seconds: every fault has to be told within 90,
but for a doubled record, which is seen when fingerprints of all that is there were kept twice.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from kafka import KafkaAdminClient

from holdfast.cli.recon_drill import Report, run_drill
from holdfast.client.admin import get_json
from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.drill import Fault, Stall
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.state import PartFiles
from holdfast.pipelines.status import ADAPTER, SERVICE, look_at
from holdfast.pipelines.watch.evaluator import AlarmKind
from tests.pipelines.files import write_pipeline
from tests.pipelines.watch.watcher import watcher_of, watching
from tests.process import HoldfastProcess

ALARM_S_MAX: Final = 90.0
DUP_S_MAX: Final = 300.0
START_S_MAX: Final = 600.0
PER_SECOND: Final = 50
LAG_MAX: Final = 30 * PER_SECOND
"""Of a group: what comes in three triggers; a fault that begins later would be told of by the age of the one before."""
POLL_S: Final = 0.5
NOBODY: Final = 3
"""What `holdfast watch check` exits with where no watcher answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A pipeline that runs, and where its watcher tells."""

    pipeline: Pipeline
    watcher: str

    def alarms(self) -> list[dict[str, Any]]:
        """What is wrong now."""
        found: list[dict[str, Any]] = get_json(self.watcher, "/alarms")["alarms"]
        return found


@click.command()
@click.option("--only", type=click.Choice(["stall", "lost", "hang", "crash", "group", "watcher", "dup"]))
def main(only: str | None) -> None:
    """Exit code 1 if an alarm comes late, or never, or does not end."""
    drills: Mapping[str, Callable[[Watched], bool]] = {
        **{name: partial(_drill, name) for name in ("stall", "lost", "hang", "crash")},
        "group": _delete_group,
        "watcher": _stop_watcher,
        # The last: what is doubled stays wrong.
        "dup": partial(_drill, "dup"),
    }
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        holdfast = stack.enter_context(HoldfastProcess(directory / "data"))
        pipeline = _prepare(directory, holdfast.bootstrap)
        stack.enter_context(_producer(pipeline, directory))
        stack.enter_context(_parts(pipeline, directory))
        watched = Watched(pipeline=pipeline, watcher=stack.enter_context(watching(pipeline.path)))
        failed = []
        for fault, drill in drills.items():
            if only in {None, fault}:
                _await_health(watched, holdfast.bootstrap)
                failed += [] if drill(watched) else [fault]
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


def _drill(fault: str, watched: Watched) -> bool:
    """One that `holdfast recon drill` knows."""
    command = [sys.executable, "-m", "holdfast", "recon", "drill", fault, "--yes", "--json", "--wait", "5m"]
    command += ["--pipeline", str(watched.pipeline.path), "--listen", watched.watcher]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        click.echo(f"{fault}: {done.stderr.strip()}")
        return False
    report = Report(**json.loads(done.stdout))
    return _tell(report, DUP_S_MAX if fault == "dup" else ALARM_S_MAX) and done.returncode == 0


class GroupDeleted(Fault):
    """The group of a frozen adapter is deleted; when the adapter goes on it has a position again."""

    kinds = frozenset({AlarmKind.BLIND})
    cure = "the adapter goes on"

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._stall = Stall(pipeline, ADAPTER)

    def inject(self) -> None:
        """See Fault."""
        self._stall.inject()
        admin = KafkaAdminClient(bootstrap_servers=str(self._pipeline.endpoint))
        admin.delete_groups([adapter.group for adapter in self._pipeline.adapters])
        admin.close()

    def undo(self) -> None:
        """See Fault."""
        self._stall.undo()


def _delete_group(watched: Watched) -> bool:
    report = Report(fault="group")
    run_drill(GroupDeleted(watched.pipeline), report, watched.alarms, DUP_S_MAX)
    return _tell(report, ALARM_S_MAX) and report.repair_s is not None


def _stop_watcher(watched: Watched) -> bool:
    """Another one, of the same pipeline: frozen, then killed."""
    with watcher_of(watched.pipeline.path, "--no-canaries") as (process, address):
        _await_code(address, 0)
        os.kill(process.pid, signal.SIGSTOP)
        frozen_s = _await_code(address, NOBODY)
        os.kill(process.pid, signal.SIGCONT)
        _await_code(address, 0)
        process.kill()
        killed_s = _await_code(address, NOBODY)
    click.echo(
        f"watcher: frozen, `holdfast watch check` tells after {frozen_s:.1f} s; killed, {killed_s:.1f} s"
    )
    return max(frozen_s, killed_s) <= ALARM_S_MAX


def _await_code(address: str, code: int) -> float:
    """Seconds until the command exits so."""
    began = time.monotonic()
    command = [sys.executable, "-m", "holdfast", "watch", "check", "--listen", address]
    while subprocess.run(command, capture_output=True, check=False).returncode != code:
        if time.monotonic() - began > START_S_MAX:
            raise click.ClickException(f"`holdfast watch check` does not exit with {code}")
    return time.monotonic() - began


def _tell(report: Report, seconds_max: float) -> bool:
    click.echo(
        f"{report.fault}: {report.alarm} after {report.alarm_s} s, over {report.repair_s} s after it was undone: "
        f"{report.what}"
    )
    return report.alarm_s is not None and report.alarm_s <= seconds_max


def _await_health(watched: Watched, bootstrap: str) -> None:
    """Until both groups are where they should be, and nothing is wrong."""
    deadline = time.monotonic() + START_S_MAX
    with Cluster(bootstrap) as cluster:
        while True:
            parts = look_at(watched.pipeline, cluster)
            queries = [part.state.queries for part in parts if part.state is not None]
            has_begun = len(queries) == len(parts) and all(
                found and found[0].batch_id >= 1 for found in queries
            )
            lags = [lag.lag for part in parts for lag in part.lags]
            if has_begun and max(lags) < LAG_MAX and not watched.alarms():
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


if __name__ == "__main__":
    main()

"""Break a pipeline on Spark from outside, with real thresholds, and see who tells of it: part of `make soak`.

`python -m soak.drills` runs all; `--only NAME` one. The trigger is ten seconds: every fault has to be told within 90,
by an alarm that is made for it and no sooner than that can be; but for a doubled record, seen when fingerprints of
all that is there were kept twice.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import click
from kafka import KafkaAdminClient

from holdfast.cli.recon_drill import Report, run_drill
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.drill import Fault, Stall
from holdfast.pipelines.status import ADAPTER
from holdfast.pipelines.watch.evaluator import AlarmKind
from soak.watched import START_S_MAX, Watched, await_health, running
from tests.pipelines.watch.watcher import watcher_of
from tests.process import HoldfastProcess

ALARM_S_MIN: Final = 25.0
"""No alarm has less patience with what was healthy a moment ago: whatever is told sooner had begun before."""
ALARM_S_MAX: Final = 90.0
DUP_S_MAX: Final = 300.0
NOBODY: Final = 3
"""What `holdfast watch check` exits with where no watcher answers."""


@click.command()
@click.option("--only", type=click.Choice(["stall", "lost", "hang", "crash", "group", "watcher", "dup"]))
def main(only: str | None) -> None:
    """Exit code 1 if an alarm comes late, or never, or too soon to be one of what was broken, or does not end."""
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
        watched = stack.enter_context(
            running(directory, holdfast.bootstrap, {"interval: 1s": "interval: 10s"})
        )
        failed = []
        for fault, drill in drills.items():
            if only in {None, fault}:
                await_health(watched)
                failed += [] if drill(watched) else [fault]
    if failed:
        click.echo(
            f"not as it should be: {', '.join(failed)}; again with: python -m soak.drills --only {failed[0]}"
        )
        sys.exit(1)


def _drill(fault: str, watched: Watched) -> bool:
    """One that `holdfast recon drill` knows."""
    command = [sys.executable, "-m", "holdfast", "recon", "drill", fault, "--yes", "--json", "--wait", "5m"]
    command += ["--pipeline", str(watched.pipeline.path), "--listen", watched.watcher]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        click.echo(f"{fault}: {done.stderr.strip()}")
        return False
    report = Report(**json.loads(done.stdout))
    is_told = _tell(report, 0.0, DUP_S_MAX) if fault == "dup" else _tell(report, ALARM_S_MIN, ALARM_S_MAX)
    return is_told and done.returncode == 0


class GroupDeleted(Fault):
    """The group of a frozen adapter is deleted; when the adapter goes on it has a position again."""

    kinds = frozenset({AlarmKind.BLIND})
    echoes = Stall.kinds | Stall.echoes
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
    return _tell(report, ALARM_S_MIN, ALARM_S_MAX) and report.repair_s is not None


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


def _tell(report: Report, seconds_min: float, seconds_max: float) -> bool:
    click.echo(
        f"{report.fault}: {report.alarm} after {report.alarm_s} s, over {report.repair_s} s after it was undone: "
        f"{report.what}"
    )
    return report.alarm_s is not None and seconds_min <= report.alarm_s <= seconds_max


if __name__ == "__main__":
    main()

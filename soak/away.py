"""A log that is away for minutes, under pipelines that run: they outlast it, and each message is there once.

Part of `make soak`; `python -m soak.away --seconds 150`. A service with its adapter and a service of mode transaction
run as users run them. The log is killed in the middle of their work and comes back, at the same address, long after
every client has lost its patience. Nobody touches the pipelines meanwhile.
"""

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.state import PartFiles
from holdfast.pipelines.status import SERVICE, look_at, parts_of
from soak.article import Sent, compare
from tests.pipelines.files import make_pipeline
from tests.pipelines.processes import start, wait_for
from tests.pipelines.runs import fill, send
from tests.process import HoldfastProcess

MESSAGES: Final = 6_000
BATCH: Final = 60
MODES: Final = (Mode.ADAPTER, Mode.TRANSACTION)
DRAIN_S_MAX: Final = 900.0
POLL_S: Final = 1.0

Running = list[tuple[Pipeline, str, "subprocess.Popen[bytes]"]]


@click.command()
@click.option(
    "--seconds", type=click.IntRange(1), default=150, show_default=True, help="How long it is away."
)
def main(seconds: int) -> None:
    """Exit code 1 if a part of a pipeline ends, or a message is missing, there twice, or in another end state."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as undo:
        directory = Path(name)
        process = undo.enter_context(HoldfastProcess(directory / "data"))
        sent, running = _begin(directory, process.bootstrap, undo)
        for each in running:
            wait_for(*each, lambda query: query.batch_id >= 1)
        process.kill()
        left = [MESSAGES - _rows(pipeline, part) for pipeline, part, _ in running if part == SERVICE]
        if min(left) <= 0:
            raise SystemExit("a service was done before the log was killed: nothing is proved")
        click.echo(f"the log is away, with {' and '.join(map(str, left))} messages left to the services")
        time.sleep(seconds)
        _check_alive(running)
        process.start()
        with Cluster(process.bootstrap) as cluster:
            for pipeline, messages in sent:
                messages.update(send(cluster, pipeline.ingest, BATCH, seed=1))
            drained_s = _drain(cluster, running)
            wrong = [told for each in sent for told in compare(cluster, *each)]
    for told in wrong:
        click.echo(told)
    total = sum(len(messages) for _, messages in sent)
    click.echo(
        f"{total} messages, the log away for {seconds} s; nothing was left {drained_s:.0f} s after it came back:"
        f" {'wrong' if wrong else 'each is there once'}"
    )
    sys.exit(1 if wrong else 0)


def _begin(directory: Path, bootstrap: str, undo: ExitStack) -> tuple[list[tuple[Pipeline, Sent]], Running]:
    """Both pipelines with messages for some time; their processes end with `undo`."""
    sent: list[tuple[Pipeline, Sent]] = []
    running: Running = []
    for mode in MODES:
        with Cluster(bootstrap) as cluster:
            messages = fill(cluster, mode.value, MESSAGES)
        pipeline = make_pipeline(
            directory / mode.value, mode=mode.value, prefix=mode.value, bootstrap=bootstrap, records=BATCH
        )
        sent.append((pipeline, messages))
        for part in parts_of(pipeline):
            child = start(pipeline, part)
            undo.callback(child.wait)
            undo.callback(child.kill)
            running.append((pipeline, part, child))
    return sent, running


def _rows(pipeline: Pipeline, part: str) -> int:
    """What the part has told to be done with."""
    state = PartFiles(pipeline.checkpoint, part).read()
    return 0 if state is None else sum(query.rows for query in state.queries)


def _check_alive(running: Running) -> None:
    for pipeline, part, child in running:
        if child.poll() is not None:
            told = (pipeline.path.parent / f"{part}.log").read_text()
            raise SystemExit(f"{pipeline.name}, {part}: it has ended\n{told}")


def _drain(cluster: Cluster, running: Running) -> float:
    """Seconds until no group lags any more."""
    begun = time.monotonic()
    pipelines = [pipeline for pipeline, part, _ in running if part == SERVICE]
    while any(lag.lag for each in pipelines for part in look_at(each, cluster) for lag in part.lags):
        _check_alive(running)
        if time.monotonic() > begun + DRAIN_S_MAX:
            raise SystemExit(f"there is something left after {DRAIN_S_MAX:.0f} s")
        time.sleep(POLL_S)
    return time.monotonic() - begun


if __name__ == "__main__":
    main()

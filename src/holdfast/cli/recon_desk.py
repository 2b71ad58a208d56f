"""What the commands of `holdfast recon` have in common: which pipeline, which cluster, which day, on which Spark."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.duration import DurationType, told
from holdfast.cli.endpoint import BOOTSTRAP_DEFAULT, connect
from holdfast.errors import DayUnreadable, HoldfastError, UsageError
from holdfast.pipelines.config import FILE

if TYPE_CHECKING:
    from holdfast.pipelines.config import Pipeline
    from holdfast.pipelines.recon.close import Desk
    from holdfast.pipelines.recon.day import Day

pipeline_option = click.option(
    "--pipeline",
    "file",
    type=click.Path(path_type=Path),
    default=FILE,
    show_default=True,
    metavar="FILE",
    help="The pipeline that the messages are of.",
)
bootstrap_option = click.option(
    "-b",
    "--bootstrap",
    envvar="HOLDFAST_BOOTSTRAP",
    show_envvar=True,
    metavar="HOST:PORT[,…]",
    help="Any Kafka cluster, in place of the one that FILE names.",
)
master_option = click.option(
    "--master", metavar="URL", default="local[*]", show_default=True, help="Spark master."
)
lateness_option = click.option(
    "--lateness",
    "lateness_ms",
    type=DurationType(),
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="The day is sealed so long after its midnight.",
)


@contextmanager
def judging() -> Iterator[None]:
    """What keeps somebody from judging a day is no verdict: exit code 1 would say that it is open."""
    try:
        yield
    except UsageError:
        raise
    except HoldfastError as failure:
        raise DayUnreadable(str(failure)) from failure


@contextmanager
def open_desk(file: Path, bootstrap: str | None, master: str) -> "Iterator[Desk]":
    """Everything that a command needs for as long as it runs."""
    from holdfast.pipelines.recon.close import Desk
    from holdfast.spark.failures import told_in_one_line
    from holdfast.spark.session import spark_session

    found, address = load(file, bootstrap)
    started = time.monotonic()

    def on_progress(step: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"{told(int(1000 * (time.monotonic() - started)))}  {step}", err=True)

    with connect(address) as cluster:
        # A cluster that does not answer is told before a JVM is started for it.
        cluster.metadata([])
        on_progress("starting Spark")
        # It ends with this process.
        session = spark_session("holdfast recon", master=master)
        with told_in_one_line():
            yield Desk(
                session=session,
                cluster=cluster,
                pipeline=replace(found, bootstrap=address),
                on_progress=on_progress,
            )


def load(file: Path, bootstrap: str | None) -> "tuple[Pipeline, str]":
    """The pipeline, and the cluster that it is about."""
    from holdfast.client.cluster import parse_bootstrap
    from holdfast.pipelines.loading import load_pipeline

    found = load_pipeline(file)
    address = bootstrap or found.bootstrap or BOOTSTRAP_DEFAULT
    parse_bootstrap(address)
    return found, address


def named_again(file: Path, bootstrap: str | None) -> list[str]:
    """The options with which another command means the same pipeline on the same cluster."""
    options = [] if file == FILE else ["--pipeline", str(file)]
    return options if bootstrap is None else [*options, "--bootstrap", bootstrap]


def read_day(text: str, lateness_ms: int) -> "Day":
    """The day that was asked for."""
    from holdfast.pipelines.recon.day import Day

    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a day such as 2026-11-14") from None
    return Day(date=found, lateness_ms=lateness_ms)

"""What the commands of `holdfast recon` have in common: which pipeline, which cluster, which day, on which Spark."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

import click

from holdfast.cli.duration import DurationType, told
from holdfast.cli.endpoint import connect
from holdfast.cli.pipeline_file import PipelineFile
from holdfast.errors import DayUnreadable, HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.pipelines.recon.close import Desk
    from holdfast.pipelines.recon.day import Day

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
def open_desk(file: PipelineFile, master: str) -> "Iterator[Desk]":
    """Everything that a command needs for as long as it runs."""
    from holdfast.pipelines.recon.close import Desk
    from holdfast.spark.failures import told_in_one_line
    from holdfast.spark.session import spark_session

    pipeline = file.load()
    started = time.monotonic()

    def on_progress(step: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"{told(int(1000 * (time.monotonic() - started)))}  {step}", err=True)

    with connect(pipeline.endpoint) as cluster:
        # A cluster that does not answer is told before a JVM is started for it.
        cluster.metadata([])
        on_progress("starting Spark")
        # It ends with this process.
        session = spark_session("holdfast recon", master=master)
        with told_in_one_line():
            yield Desk(
                session=session,
                cluster=cluster,
                pipeline=pipeline,
                on_progress=on_progress,
            )


def read_day(text: str, lateness_ms: int) -> "Day":
    """The day that was asked for."""
    from holdfast.pipelines.recon.day import Day

    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a day such as 2026-11-14") from None
    return Day(date=found, lateness_ms=lateness_ms)

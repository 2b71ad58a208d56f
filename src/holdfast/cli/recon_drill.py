"""`holdfast recon drill`: break something on purpose, and see how long it takes until somebody says so."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import present
from holdfast.cli.duration import DurationType
from holdfast.cli.endpoint import connect
from holdfast.cli.pipeline_file import PipelineFile, pipeline_option
from holdfast.cli.present import json_option
from holdfast.cli.watch import listen_option
from holdfast.errors import ConnectionFailed, NobodyToAsk, PipelineRefused, UsageError

if TYPE_CHECKING:
    from holdfast.pipelines.drill import Fault

FAULTS = ("stall", "crash", "lost", "hang", "dup")
POLL_S = 0.2


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of a drill."""

    fault: str
    alarm: str | None = None
    """The first that told of it."""
    alarm_s: float | None = None
    what: str | None = None
    repair_s: float | None = None
    """From the moment at which the fault was undone until nothing was left that comes of it."""


@click.command()
@click.argument("fault", type=click.Choice(FAULTS))
@pipeline_option
@listen_option
@click.option(
    "--wait", "wait_ms", type=DurationType(), default="5m", show_default=True, metavar="DURATION",
    help="For the alarm, and then for its end.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Break it: without this nothing is done.")
@json_option
@click.pass_context
def drill(
    ctx: click.Context,
    fault: str,
    file: PipelineFile,
    listen: str,
    wait_ms: int,
    yes: bool,
    as_json: bool,
) -> None:
    """Break the running pipeline, and say after how many seconds its watcher (`holdfast watch`) told of it.

    \b
    stall  the process that forwards to audit is frozen
    crash  it is killed, and started again
    lost   its group's positions move on, and nothing is forwarded (delivery adapter)
    hang   a transaction is left open where it reads
    dup    a message of the tenant holdfast-drill is sent to audit twice

    The fault is undone when the alarm was seen, when it was not seen in time, and on ^C. It has to run on the machine
    that the pipeline runs on. Exit code 1: no alarm, or one that did not end.
    """
    from holdfast.pipelines.drill import FaultName, prepare

    found = file.load()
    if not yes:
        raise UsageError(f"this breaks {found.name!r} for a while: say --yes if that is what you want")
    with connect(found.endpoint) as cluster:
        prepared = prepare(FaultName(fault), found, cluster)
        report = Report(fault=fault)
        run_drill(prepared, report, lambda: _alarms(listen, found.name), wait_ms / 1000)
    if as_json:
        present.print_json(
            {name: getattr(report, name) for name in ("fault", "alarm", "alarm_s", "what", "repair_s")}
        )
    else:
        _print_report(report, prepared)
    is_over = report.repair_s is not None or not prepared.is_undone
    ctx.exit(0 if report.alarm is not None and is_over else 1)


def run_drill(
    fault: "Fault", report: Report, alarms: Callable[[], list[dict[str, Any]]], wait_s: float
) -> None:
    """Breaks, waits for the alarm, makes good, waits for its end. Whatever happens, the fault is undone.

    PipelineRefused, and nothing is broken, where there is such an alarm already: it would prove nothing.
    """
    of_it = fault.kinds | fault.echoes
    before = sorted({alarm["kind"] for alarm in alarms()} & of_it)
    if before:
        raise PipelineRefused(f"there is an alarm already that comes of {report.fault}: {', '.join(before)}")
    with _interruptible():
        try:
            began = time.monotonic()
            fault.inject()
            for elapsed_s in _until(began + wait_s):
                fault.hold()
                seen = [alarm for alarm in alarms() if alarm["kind"] in fault.kinds]
                if seen:
                    report.alarm, report.what = seen[0]["kind"], seen[0]["what"]
                    report.alarm_s = round(elapsed_s - began, 1)
                    break
        finally:
            fault.undo()
        undone = time.monotonic()
        # What a record is sent for twice stays an alarm.
        for elapsed_s in _until(undone + wait_s) if report.alarm is not None and fault.is_undone else ():
            if not any(alarm["kind"] in of_it for alarm in alarms()):
                report.repair_s = round(elapsed_s - undone, 1)
                break


def _until(deadline: float) -> Iterator[float]:
    """The time, now and then."""
    while (now := time.monotonic()) < deadline:
        yield now
        time.sleep(POLL_S)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends a drill like ^C."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _alarms(listen: str, pipeline: str) -> list[dict[str, Any]]:
    """What the watcher says now, if it watches this pipeline."""
    from holdfast.client.admin import get_json

    try:
        found: dict[str, Any] = get_json(listen, "/alarms")
    except ConnectionFailed as failure:
        raise NobodyToAsk(f"no watcher answers at {listen}: start one with `holdfast watch`") from failure
    if found["pipeline"] != pipeline:
        raise PipelineRefused(f"the watcher at {listen} watches {found['pipeline']!r}, not {pipeline!r}")
    alarms: list[dict[str, Any]] = found["alarms"]
    return alarms


def _print_report(report: Report, fault: "Fault") -> None:
    if report.alarm is None:
        click.echo(f"{report.fault}: NO ALARM; the fault is undone: {fault.cure}")
        return
    click.echo(present.printable(f"{report.fault}: {report.alarm} after {report.alarm_s} s: {report.what}"))
    if report.repair_s is None:
        click.echo(f"{fault.cure}; the alarm has not ended yet")
    else:
        click.echo(f"{fault.cure}; the alarm ended {report.repair_s} s later")

"""How the doctor tells what it saw: once, or what has changed since it looked last."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.doctor.examine import NotExamined
    from holdfast.doctor.findings import Finding
    from holdfast.doctor.report import Changes, Report


class Teller:
    """Prints reports, and writes them to a page where one is wanted."""

    def __init__(self, about: str, *, as_json: bool, html: Path | None, is_watching: bool = False) -> None:
        self._about = about
        self._as_json = as_json
        self._is_watching = is_watching
        self._html = html
        if html is not None:
            _write(html, "")  # an unwritable path fails before the long look, not after it

    def tell(self, report: "Report") -> None:
        """All of it."""
        self._write_page(report)
        if self._as_json and self._is_watching:
            _print_line(report)
        elif report.failure is not None:
            click.echo(f"holdfast: {present.printable(report.failure)}", err=True)
        elif self._as_json:
            present.print_json(report.as_json())
        else:
            _print(report)

    def tell_changes(self, before: "Report", now: "Report") -> None:
        """What has changed since the look before, if something has."""
        from holdfast.doctor.report import changes

        self._write_page(now)
        found = changes(before, now)
        if not found:
            return
        if self._as_json:
            _print_line(now)
        else:
            _print_changes(found)

    def _write_page(self, report: "Report") -> None:
        if self._html is not None:
            from holdfast.doctor.page import report_page

            _write(self._html, report_page(report, about=self._about, when=_now()))


def watch(ctx: click.Context, look: "Callable[[], Report]", teller: Teller, *, pause_s: float) -> None:
    """Look again and again, until ^C; the exit code is that of the last look that came to its end."""
    from holdfast.doctor.report import Report

    before: Report | None = None
    try:
        while True:
            try:
                now = look()
            except HoldfastError as failure:
                if isinstance(failure, UsageError) and before is None:
                    raise
                now = Report(failure=str(failure))
            told, before = before, now
            if told is None:
                teller.tell(now)
            else:
                teller.tell_changes(told, now)
            time.sleep(pause_s)
    except KeyboardInterrupt:
        if before is None:
            raise
        ctx.exit(before.code)


def _print_line(report: "Report") -> None:
    click.echo(json.dumps({"at": _now(), **report.as_json()}, ensure_ascii=False))


def _print(report: "Report") -> None:
    from holdfast.doctor.report import by_reason

    for finding in report.findings:
        _print_finding(finding)
    for where, why in by_reason(report.missed):
        click.secho(f"{where}  not examined: {present.printable(why)}", fg="yellow")
    found = len(report.findings)
    alike = ": all replicas show the same" if report.compared and not found else ""
    click.echo(
        f"{present.count(report.compared, 'partition')} compared, {present.count(found, 'difference')}{alike}"
    )
    if report.alone:
        click.echo(f"{present.count(report.alone, 'partition')} with one replica: nothing to compare")


def _print_finding(finding: "Finding") -> None:
    click.secho(present.printable(_head(finding)), fg="red", bold=True)
    click.echo(f"  {present.printable(finding.what)}")
    click.secho(f"  {present.printable(finding.advice)}", dim=True)


def _head(finding: "Finding") -> str:
    place = f"{finding.place.topic}:{finding.place.partition}"
    return f"{place}  replica {finding.replica}  {finding.variant or 'differs'}"


def _print_changes(found: "Changes") -> None:
    from holdfast.doctor.report import by_reason

    click.secho(_now(), bold=True)
    if found.failure is not None:
        click.secho(f"nothing can be examined: {present.printable(found.failure)}", fg="yellow")
    for finding in found.found:
        _print_finding(finding)
    for finding in found.healed:
        click.secho(f"{present.printable(_head(finding))}: no longer there", fg="green")
    for where, why in by_reason(found.missed):
        click.secho(f"{where}  not examined: {present.printable(why)}", fg="yellow")
    for missed in found.seen_again:
        click.secho(f"{_where(missed)}  examined again", fg="green")


def _where(missed: "NotExamined") -> str:
    which = "" if missed.replica is None else f"  replica {missed.replica}"
    return f"{missed.place.topic}:{missed.place.partition}{which}"


def _now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="seconds")


def _write(path: Path, text: str) -> None:
    """In one step, so that whoever looks at a page that is made anew sees a whole one."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as failure:
        raise UsageError(f"cannot write {path}: {failure.strerror}") from None


@contextmanager
def progress(total: int, *, is_shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar with the time left, on a terminal; offsets stand for the work."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("examining"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, disable=not (is_shown and console.is_terminal), transient=True
    ) as bar:
        task = bar.add_task("examining", total=total)
        yield lambda offsets: bar.advance(task, offsets)

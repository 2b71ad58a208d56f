"""`holdfast recon`: is a tenant's day complete, what became of a message, and how to make up for what is missing."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import present
from holdfast.cli.endpoint import connect
from holdfast.cli.pipeline_file import PipelineFile, pipeline_option
from holdfast.cli.present import json_option
from holdfast.cli.recon_desk import (
    judging,
    lateness_option,
    master_option,
    open_desk,
    read_day,
)
from holdfast.cli.recon_drill import drill

if TYPE_CHECKING:
    from holdfast.pipelines.recon.day import Verdict

SHOWN_MAX = 20
"""Findings on the terminal; --json tells all that are named."""


@click.group()
def recon() -> None:
    """Reconciliation: prove that every message of a tenant's day reached an end state."""


recon.add_command(drill)


@recon.command()
@click.argument("tenant")
@click.argument("day", metavar="DAY")
@pipeline_option
@lateness_option
@master_option
@json_option
@click.pass_context
def close(
    ctx: click.Context,
    tenant: str,
    day: str,
    file: PipelineFile,
    lateness_ms: int,
    master: str,
    as_json: bool,
) -> None:
    """Say whether DAY (as 2026-11-14, UTC) is complete for TENANT, and name what is not.

    Exit code 0: CLOSED, and written to the pipeline's book of days. 1: OPEN. 2: bad usage. 3: NOT-YET. 4: BLIND, or
    not to be read.
    """
    from holdfast.pipelines.recon.book import is_news, read_book, to_record, write_day
    from holdfast.pipelines.recon.close import close_day
    from holdfast.pipelines.recon.day import DayState
    from holdfast.pipelines.recon.telling import tell_json

    wanted = read_day(day, lateness_ms)
    with judging(), open_desk(file, master) as desk:
        known = read_book(desk.cluster, desk.pipeline).get((tenant, wanted.date))
        verdict = close_day(desk, tenant, wanted)
        if is_news(verdict, known):
            write_day(desk.cluster, desk.pipeline, to_record(verdict, desk.pipeline))
    if as_json:
        present.print_json(tell_json(verdict))
    else:
        _print_verdict(verdict, file.named_again())
    if verdict.state is DayState.BLIND and known is not None and known.state is DayState.CLOSED:
        click.echo(
            f"it was closed at {_moment(known.judged_ms)}, when its messages could be read: that stands",
            err=True,
        )
        ctx.exit(DayState.CLOSED.exit_code)
    ctx.exit(verdict.state.exit_code)


@recon.command()
@click.argument("tenant", required=False)
@pipeline_option
@json_option
def status(tenant: str | None, file: PipelineFile, as_json: bool) -> None:
    """Show the book of days: what was closed, and up to which day each tenant is complete without a hole."""
    from holdfast.pipelines.recon.book import read_book
    from holdfast.pipelines.recon.watermark import completion_watermark

    found = file.load()
    with connect(found.endpoint) as cluster:
        book = read_book(cluster, found)
    tenants = sorted({name for name, _ in book if tenant in {None, name}})
    rows: list[tuple[object, ...]] = []
    for name in tenants:
        days = {day: record.state for (whose, day), record in book.items() if whose == name}
        complete = completion_watermark(days)
        for day in sorted(days):
            record = book[name, day]
            wrong = ", ".join(f"{count:,} {kind}" for kind, count in record.found.items() if count)
            rows.append(
                (name, day.isoformat(), record.state.value, record.ingested, wrong, _moment(record.judged_ms))
            )
        rows.append((name, "complete to", complete.isoformat() if complete else "nowhere", None, None, None))
    if as_json:
        titles = ("tenant", "day", "state", "ingested", "found", "judged")
        present.print_json([dict(zip(titles, row, strict=True)) for row in rows])
    elif rows:
        present.print_table(("TENANT", "DAY", "STATE", "INGESTED", "FOUND", "JUDGED"), rows)
    else:
        click.echo("no day was closed yet: `holdfast recon close TENANT DAY` closes one", err=True)


@recon.command()
@click.argument("tenant")
@click.argument("id", metavar="ID")
@pipeline_option
@master_option
@json_option
@click.pass_context
def explain(
    ctx: click.Context,
    tenant: str,
    id: str,  # noqa: A002
    file: PipelineFile,
    master: str,
    as_json: bool,
) -> None:
    """Tell the life of one message: every record of it, with time and place. Exit code 1 if there is none."""
    from holdfast.pipelines.recon.close import life_of
    from holdfast.pipelines.recon.columns import split_identity
    from holdfast.pipelines.recon.law import judge
    from holdfast.pipelines.recon.telling import sighting_json

    with open_desk(file, master) as desk:
        lives = life_of(desk, tenant, id)
        law = desk.law
    told_lives: list[dict[str, Any]] = [
        {
            "id": split_identity(identity)[1],
            "source": split_identity(identity)[0],
            "findings": [f"{each.kind}: {each.why}" for each in judge(id, sightings, law)],
            "records": [sighting_json(each) for each in sorted(sightings, key=lambda each: each.arrived_ms)],
        }
        for identity, sightings in sorted(lives.items())
    ]
    if as_json:
        present.print_json(told_lives)
    for life in [] if as_json else told_lives:
        present.print_title(f"{life['id']} from {life['source'] or 'no source'}")
        present.print_table(
            ("STAGE", "END STATE", "TOPIC", "PARTITION", "OFFSET", "ARRIVED", "HAPPENED"),
            [
                (each["stage"], each["end_state"], each["topic"], each["partition"], each["offset"],
                 each["arrived"], each["happened"])
                for each in life["records"]
            ],
        )  # fmt: skip
        for finding in life["findings"] or ["nothing is wrong with it"]:
            click.echo(present.printable(finding))
    if not lives:
        click.echo(f"nothing that is retained knows of {present.printable(id)}", err=True)
        ctx.exit(1)


@recon.command()
@click.argument("tenant")
@click.argument("day", metavar="DAY")
@click.option("--dry-run", is_flag=True, help="Say what would be forwarded, and forward nothing.")
@pipeline_option
@lateness_option
@master_option
@json_option
@click.pass_context
def repair(
    ctx: click.Context,
    tenant: str,
    day: str,
    dry_run: bool,
    file: PipelineFile,
    lateness_ms: int,
    master: str,
    as_json: bool,
) -> None:
    """Make up for exactly the messages of TENANT's DAY that are missing, in one transaction.

    What is missing in audit, or downstream, and stands elsewhere is forwarded. What stands in ingest alone, though the
    service has passed it, is ended anew by the pipeline's transform. It can be run again: what was made up for is no
    longer missing. Exit code 1 if something is left: what only the service can end, or more than one repair takes; or
    if nothing is done, since the day is not sealed, or something of it cannot be read.
    """
    from holdfast.pipelines.recon.repair import repair_day

    wanted = read_day(day, lateness_ms)
    with open_desk(file, master) as desk:
        repaired = repair_day(desk, tenant, wanted, dry_run=dry_run)
    plan = repaired.plan
    if as_json:
        present.print_json(
            {
                "forwarded": 0 if dry_run else len(plan.forwards),
                "forwards": [
                    {"id": each.id, "from": str(each.source), "to": each.target} for each in plan.forwards
                ],
                "ended_anew": 0 if dry_run else len(plan.endings),
                "endings": [each.id for each in plan.endings],
                "only_the_service_can_end": [each.id for each in plan.unended],
                "left_to_the_adapter": plan.waiting,
                "left_to_another_repair": repaired.left,
            }
        )
    else:
        for each in plan.forwards[:SHOWN_MAX]:
            click.echo(present.printable(f"{each.id}: {each.source} → {each.target}"))
        what = "would be forwarded" if dry_run else "forwarded"
        click.echo(f"{present.count(len(plan.forwards), 'message')} {what}")
        if plan.endings:
            what = "would be ended anew" if dry_run else "ended anew, which stood in ingest alone"
            click.echo(f"{present.count(len(plan.endings), 'message')} {what}")
        if plan.waiting:
            click.echo(
                f"{present.count(plan.waiting, 'message')} left to the adapter, which has still to come to them"
            )
        if plan.unended:
            click.echo(f"{present.count(len(plan.unended), 'message')} only the service can end:")
            for finding in plan.unended[:SHOWN_MAX]:
                click.echo(present.printable(f"  {finding.id}: {finding.sightings[0].place}"))
        if repaired.left:
            click.echo(f"{present.count(repaired.left, 'message')} more are missing: repair once more")
    ctx.exit(1 if plan.unended or repaired.left else 0)


@recon.command()
@click.argument("tenant")
@click.argument("day", metavar="DAY")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("report.html"), show_default=True,
    help="The page; beside it goes the same as JSON.",
)  # fmt: skip
@pipeline_option
@lateness_option
@master_option
@click.pass_context
def report(
    ctx: click.Context,
    tenant: str,
    day: str,
    output: Path,
    file: PipelineFile,
    lateness_ms: int,
    master: str,
) -> None:
    """Write a page about TENANT's DAY that needs nothing but a browser. Exit codes are those of `close`."""
    from holdfast.pipelines.recon.close import close_day
    from holdfast.pipelines.recon.flow import flow_of_day
    from holdfast.pipelines.recon.page import render, to_json
    from holdfast.pipelines.watch.profile import derive

    wanted = read_day(day, lateness_ms)
    with judging(), open_desk(file, master) as desk:
        verdict = close_day(desk, tenant, wanted)
        flow = flow_of_day(desk, verdict)
        pipeline = desk.pipeline
    profile = derive(pipeline.trigger, pipeline.alarms, pipeline.budget, pipeline.mode)
    options = file.named_again()
    page = render(verdict, pipeline.budget, flow=flow, profile=profile, options=options)
    output.write_text(page, encoding="utf-8")
    data = output.with_suffix(".json")
    data.write_text(json.dumps(to_json(verdict, flow), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    click.echo(f"{verdict.state.value}: {output} and {data}")
    ctx.exit(verdict.state.exit_code)


def _print_verdict(verdict: "Verdict", options: list[str]) -> None:
    from holdfast.pipelines.recon.telling import headlines, next_step, tell_finding

    for line in headlines(verdict):
        click.echo(present.printable(line))
    for reason in verdict.reasons:
        click.echo(f"  {present.printable(reason)}")
    findings = verdict.evidence.findings
    for finding in findings[:SHOWN_MAX]:
        click.echo(present.printable(tell_finding(finding)))
    if len(findings) > SHOWN_MAX:
        click.echo(f"{len(findings) - SHOWN_MAX:,} more are named by --json")
    step = next_step(verdict, options)
    if step is not None:
        click.echo(f"what is missing is made up for by: {present.printable(step)}")


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

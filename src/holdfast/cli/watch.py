"""`holdfast watch`: is a pipeline stuck? Asked from outside of it, again and again; told to people and Prometheus."""

import asyncio
import time
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import present
from holdfast.cli.duration import DurationType
from holdfast.cli.endpoint import connect
from holdfast.cli.pipeline_file import PipelineFile, pipeline_option
from holdfast.cli.present import json_option
from holdfast.cli.standing_group import StandingGroup
from holdfast.errors import ConnectionFailed, HoldfastError, NobodyToAsk

if TYPE_CHECKING:
    from holdfast.pipelines.config import Pipeline
    from holdfast.pipelines.watch.commands import Commands
    from holdfast.pipelines.watch.journal import Journal

LISTEN = "127.0.0.1:9645"
STALE_LOOKS = 2
"""A watcher that has not looked for so many intervals is as good as dead."""
STALE_EXIT_CODE = 4

listen_option = click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where alarms are told over HTTP.",
)


@click.group(cls=StandingGroup)
@pipeline_option
@listen_option
@click.option(
    "--interval",
    "interval_ms",
    type=DurationType(),
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="Between two looks.",
)
@click.option(
    "--canaries/--no-canaries",
    default=True,
    show_default=True,
    help="Send marked records, and look for them.",
)
@click.option("--looks", "looks_max", type=click.IntRange(1), help="Leave after so many looks.")
@click.pass_context
def watch(
    ctx: click.Context,
    file: PipelineFile,
    listen: str,
    interval_ms: int,
    canaries: bool,
    looks_max: int | None,
) -> None:
    """Watch the pipeline until ^C; tell alarms when they begin and when they end.

    /alarms tells them as JSON, /metrics for Prometheus. Canaries go to the topics that adapters read, with the header
    holdfast_canary: whoever else reads those has to skip them.
    """
    if ctx.invoked_subcommand is not None:
        return
    from holdfast.pipelines.watch.journal import Journal
    from holdfast.pipelines.watch.profile import derive

    found = file.load()
    profile = derive(found.trigger, found.alarms, found.budget, found.mode)
    journal = Journal(found.name, profile, name_again(file, found), interval_ms=interval_ms)
    with connect(found.endpoint) as cluster:
        from holdfast.pipelines.watch.observer import Observer

        # Not before the first look that succeeds: a watcher that is started in an outage has to tell of it.
        observer = cache(lambda: Observer(cluster, found, canaries=canaries))

        async def look() -> None:
            now_ms = time.time_ns() // 1_000_000
            try:
                world = await asyncio.to_thread(lambda: observer().look(now_ms))
            except HoldfastError as failure:
                if not journal.is_failing:
                    click.echo(present.printable(f"cannot look: {failure}"), err=True)
                journal.fail(now_ms, str(failure))
            else:
                journal.note(world)
            for line in journal.news():
                click.echo(present.printable(line))

        try:
            asyncio.run(_serve(journal, look, listen, interval_ms, looks_max))
        except KeyboardInterrupt:
            click.echo("no longer watched", err=True)


@watch.command()
@listen_option
@json_option
@click.pass_context
def check(ctx: click.Context, listen: str, as_json: bool) -> None:
    """Ask a watcher what is wrong, and whether it still watches.

    Exit code 0: it watches, and nothing is wrong. 1: something is. 3: no watcher answers. 4: it answers, but has not
    looked for too long.
    """
    from holdfast.client.admin import get_json
    from holdfast.pipelines.watch.journal import tell_alarm

    try:
        found: dict[str, Any] = get_json(listen, "/alarms")
    except ConnectionFailed as failure:
        raise NobodyToAsk(f"no watcher answers at {listen}: start one with `holdfast watch`") from failure
    now_ms = time.time_ns() // 1_000_000
    if as_json:
        present.print_json(found)
    else:
        for alarm in found["alarms"]:
            for line in tell_alarm(alarm):
                click.echo(present.printable(line))
    if is_stale(now_ms, found["last_look_ms"], found["interval_ms"]):
        silent_s = (now_ms - found["last_look_ms"]) // 1000
        click.echo(f"the watcher has not looked for {silent_s} s: restart it", err=True)
        ctx.exit(STALE_EXIT_CODE)
    ctx.exit(1 if found["alarms"] else 0)


def is_stale(now_ms: int, last_look_ms: int, interval_ms: int) -> bool:
    """Whether a watcher that answers has stopped to look; a look itself may take as long as an interval."""
    return now_ms - last_look_ms > (STALE_LOOKS + 1) * interval_ms + 1000


def name_again(file: PipelineFile, loaded: "Pipeline") -> "Commands":
    """Commands of alarms, for the pipeline and the cluster that this watcher was told of."""
    from holdfast.pipelines.watch.commands import Commands

    return Commands(
        file=file.path, options=tuple(file.options_again()), cluster=tuple(file.cluster_again(loaded))
    )


async def _serve(journal: "Journal", look: Any, listen: str, interval_ms: int, looks_max: int | None) -> None:
    from holdfast.admin import prometheus
    from holdfast.admin.http import HttpService, Response, json_response
    from holdfast.cli.up import parse_address
    from holdfast.cli.watch_metrics import families

    async def alarms(query: object) -> Response:
        return json_response(
            {
                "pipeline": journal.pipeline,
                "last_look_ms": journal.last_look_ms,
                "interval_ms": interval_ms,
                "alarms": [asdict(alarm) for alarm in journal.alarms],
            }
        )

    async def metrics(query: object) -> Response:
        return Response(content_type=prometheus.CONTENT_TYPE, body=prometheus.render(families(journal)))

    host, port = parse_address(listen, option="--listen of a watcher")
    async with HttpService({"/alarms": alarms, "/metrics": metrics}, host=host, port=port) as service:
        click.echo(f"watching {journal.pipeline}: http://{host}:{service.port}/alarms and /metrics")
        looks = 0
        while looks_max is None or looks < looks_max:
            began = time.monotonic()
            await look()
            looks += 1
            await asyncio.sleep(max(0.0, interval_ms / 1000 - (time.monotonic() - began)))

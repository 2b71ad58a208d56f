"""`holdfast guard`: no cleanup on a Kafka cluster while a replica is away."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.duration import DurationType, told
from holdfast.cli.endpoint import endpoint_options, patterns_option
from holdfast.cli.present import json_option
from holdfast.cli.standing_group import StandingGroup
from holdfast.client.endpoint import Endpoint
from holdfast.errors import GuardRefused, HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.guard.run import Guard
    from holdfast.guard.state import Hold

LISTEN = "127.0.0.1:9646"
STATE = Path("holdfast-guard.json")
ANSWER_SECONDS_MAX = 3.0
"""For every answer of a broker: one that hangs must not keep the others waiting."""

state_option = click.option(
    "--state",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="HOLDFAST_GUARD_STATE",
    default=STATE,
    show_default=True,
    show_envvar=True,
    metavar="FILE",
    help="Where it is written down what is paused, and how it was before.",
)


@click.group(cls=StandingGroup)
@patterns_option
@endpoint_options
@state_option
@click.option("--dry-run", is_flag=True, help="Say what would be done; change and write down nothing.")
@click.option(
    "--margin",
    "margin_ms",
    type=DurationType(),
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="Between the return of the last replica and the end of a pause.",
)
@click.option(
    "--interval",
    "interval_ms",
    type=DurationType(),
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Between two looks.",
)
@click.option(
    "--listen", default=LISTEN, show_default=True, metavar="HOST:PORT", help="Where /metrics is served."
)
@click.pass_context
def guard(
    ctx: click.Context,
    patterns: tuple[str, ...],
    endpoint: Endpoint,
    path: Path,
    dry_run: bool,
    margin_ms: int,
    interval_ms: int,
    listen: str,
) -> None:
    """Guard the compacted topics of a Kafka cluster, until ^C: no cleanup while a replica is out of sync.

    A topic is paused as soon as one of its replicas leaves the ISR, and gets its own settings back when all are in sync
    and have caught up. A replica that the pause may not have protected is examined first, as `holdfast doctor` does.
    Needs the rights to describe and alter configs of the topics, to describe the cluster, and to read. Paused topics
    stay so when the guard ends: started again with the same file, it goes on. Exit code 0: ended, or not needed; 3: it
    cannot work here.
    """
    if ctx.invoked_subcommand is not None:
        return
    if not interval_ms:
        raise UsageError("--interval takes some time: 500ms, 1s, …")
    try:
        with _opened(endpoint, patterns, path, dry_run, margin_ms) as opened:
            if opened is not None:
                asyncio.run(_serve(opened, listen, interval_ms / 1000))
                _take_leave(opened, path, dry_run)
    except UsageError:
        raise
    except HoldfastError as failure:
        click.echo(f"holdfast: {failure}", err=True)
        ctx.exit(GuardRefused.exit_code)


@guard.command()
@state_option
@json_option
@click.pass_context
def status(ctx: click.Context, path: Path, as_json: bool) -> None:
    """What a guard holds, as it has written it down; whether it runs or not.

    Exit code 0: it runs, and nothing is paused. 1: something is. 3: no guard runs with this file.
    """
    from holdfast.guard.state_file import StateFile

    file = StateFile(path)
    state = file.read()
    if state is None:
        raise GuardRefused(f"there is no {path}: a guard writes it when it starts")
    is_running = file.is_held()
    if as_json:
        present.print_json(
            {
                "running": is_running,
                "cluster_id": state.cluster_id,
                "mark": state.mark,
                "paused": [_as_json(hold) for hold in state.holds],
            }
        )
    else:
        for hold in state.holds:
            _print(hold)
        click.echo(f"{present.count(len(state.holds), 'topic')} paused")
    if not is_running:
        click.echo(f"no guard runs with {path}", err=True)
    ctx.exit(GuardRefused.exit_code if not is_running else 1 if state.holds else 0)


def _as_json(hold: "Hold") -> dict[str, object]:
    import msgspec

    fields = msgspec.to_builtins(hold)
    assert isinstance(fields, dict)
    return fields


def _print(hold: "Hold") -> None:
    age_ms = max(0, time.time_ns() // 1_000_000 - hold.since_ms)
    click.secho(f"{present.printable(hold.topic)}  {hold.stage.value} for {told(age_ms)}", bold=True)
    for outage in hold.outages:
        click.echo(f"  partition {outage.partition}  replica {outage.replica} is out of sync")
    for taint in hold.taints:
        found = "to be examined" if taint.verdict is None else present.printable(taint.verdict)
        click.secho(
            f"  partition {taint.partition}  replica {taint.replica} may be harmed ({present.printable(taint.why)}):"
            f" {found}",
            fg="yellow",
        )


@contextmanager
def _opened(
    endpoint: Endpoint,
    patterns: tuple[str, ...],
    path: Path,
    dry_run: bool,
    margin_ms: int,
) -> Iterator["Guard | None"]:
    """A guard that can do its work; None where there is none to do."""
    from holdfast.client.cluster import Cluster
    from holdfast.guard.decide import Decider, Settings
    from holdfast.guard.examining import BackgroundDoctor
    from holdfast.guard.run import Guard
    from holdfast.guard.state import State
    from holdfast.guard.state_file import StateFile
    from holdfast.guard.world import DryWorld, KafkaWorld, is_holdfast

    seconds = ANSWER_SECONDS_MAX
    with Cluster(endpoint, client_id="holdfast-guard", timeout=seconds, patience_s=seconds) as cluster:
        if is_holdfast(cluster):
            click.echo("this is Holdfast: no guard is needed, it drops nothing that a replica has not seen")
            yield None
            return
        file = StateFile(path)
        with nullcontext() if dry_run else file.held():
            cluster_id = cluster.metadata([]).cluster_id or ""
            rng = Random()
            state = State(cluster_id=cluster_id, mark=1) if dry_run else file.open(cluster_id, rng)
            world = (DryWorld if dry_run else KafkaWorld)(cluster, patterns)
            guarded = world.check(state.mark)
            click.echo(
                f"guarding {present.count(guarded, 'compacted topic')}{' (dry run)' if dry_run else ''}"
            )
            for hold in state.holds:
                click.echo(present.printable(f"{hold.topic} was left {hold.stage.value}"))
            yield Guard(
                state,
                world=world,
                doctor=BackgroundDoctor(endpoint, answer_seconds_max=10 * seconds),
                decider=Decider(Settings(margin_ms=margin_ms)),
                write=(lambda state: None) if dry_run else file.write,
            )


async def _serve(guard: "Guard", listen: str, interval_s: float) -> None:
    from holdfast.admin import prometheus
    from holdfast.admin.http import HttpService, Response
    from holdfast.cli.guard_metrics import families
    from holdfast.cli.up import parse_address

    async def metrics(query: object) -> Response:
        body = prometheus.render(families(guard, time.time_ns() // 1_000_000))
        return Response(content_type=prometheus.CONTENT_TYPE, body=body)

    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leaving.set)
    host, port = parse_address(listen, option="--listen of a guard")
    async with HttpService({"/metrics": metrics}, host=host, port=port) as service:
        click.echo(f"metrics at http://{host}:{service.port}/metrics")
        tell = _teller()
        while not leaving.is_set():
            await asyncio.to_thread(_turn, guard, tell)
            try:
                await asyncio.wait_for(leaving.wait(), interval_s)
            except TimeoutError:
                continue


def _turn(guard: "Guard", tell: Callable[[str | None, list[str]], None]) -> None:
    try:
        news = guard.turn()
    except HoldfastError as failure:
        tell(str(failure), [])
    else:
        tell(None, news)


def _teller() -> Callable[[str | None, list[str]], None]:
    """News as they come; a cluster that cannot be looked at is told once, and once that it can be again."""
    before: list[str | None] = [None]

    def tell(failure: str | None, news: list[str]) -> None:
        if failure is not None and before[0] is None:
            click.echo(present.printable(f"the cluster cannot be looked at: {failure}"), err=True)
        if failure is None and before[0] is not None:
            click.echo("the cluster can be looked at again", err=True)
        before[0] = failure
        for line in news:
            click.echo(present.printable(f"{time.strftime('%H:%M:%S')} {line}"))

    return tell


def _take_leave(guard: "Guard", path: Path, dry_run: bool) -> None:
    paused = [hold.topic for hold in guard.state.holds]
    if paused and not dry_run:
        names = present.printable(", ".join(paused))
        click.echo(f"no longer guarded; still paused: {names}. A guard with --state {path} goes on", err=True)
    else:
        click.echo("no longer guarded", err=True)

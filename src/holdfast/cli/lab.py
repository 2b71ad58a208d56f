"""`holdfast lab`: scenarios, random schedules and sweeps, on engines that show Kafka's harm and the cure."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.duration import DurationType
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.keeper.round import ChooseRunner
    from holdfast.lab.account import Account
    from holdfast.lab.engines.kafka_options import KafkaOptions
    from holdfast.lab.scenario import Scenario

ENGINES = ("model", "holdfast", "kafka")
SPARK_MASTER = "local[2]"
_ELSEWHERE = {"explore": "Search random schedules for one that goes wrong."}


class LabCommands(click.Group):
    """Commands of this module, and those that are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, by name."""
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now if it lives elsewhere."""
        if cmd_name in _ELSEWHERE:
            command = getattr(import_module(f"holdfast.cli.lab_{cmd_name}"), cmd_name)
            assert isinstance(command, click.Command)
            return command
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in `holdfast lab --help`, without importing what lives elsewhere."""
        here = {name: command.get_short_help_str(limit=80) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted((here | _ELSEWHERE).items()))


@click.group(cls=LabCommands)
def lab() -> None:
    """See Kafka's harm and the cure, step by step."""


@lab.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the scenarios."""
    from holdfast.lab import library

    scenarios = [library.load(name) for name in library.names()]
    if as_json:
        rows = [
            {"name": s.name, "title": s.title, "about": s.about, "replicas": s.replicas} for s in scenarios
        ]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    width = max(len(scenario.name) for scenario in scenarios)
    for scenario in scenarios:
        click.echo(f"{scenario.name:<{width}}  {scenario.title}")


@lab.command()
@click.argument("scenario")
@click.option(
    "--engine",
    default="model",
    show_default=True,
    help="What runs it: model, a simulation; holdfast, the log itself; or kafka, real brokers.",
)
@click.option("--policy", default="kafka", show_default=True, help="Who compacts: kafka or coordinated.")
@click.option("--replicas", type=int, help="How many replicas the partition begins with.")
@click.option("--spark", is_flag=True, help="With --engine holdfast: rewrite on a Spark session.")
@click.option(
    "--kafka-version", help="With --engine kafka: a release that `make kafka` fetched. [default: 4.2.0]"
)
@click.option(
    "--within",
    "within_ms",
    type=DurationType(),
    metavar="DURATION",
    help="With --engine kafka: how long the story's time may take (10m, …); as fast as brokers follow if left out.",
)
@click.option(
    "--client",
    help="With --engine kafka: who writes, holdfast, librdkafka or java, which takes a JDK. [default: holdfast]",
)
@click.option(
    "--guard", is_flag=True, help="With --engine kafka: a `holdfast guard` runs beside the brokers."
)
@click.option("--step", "stepwise", is_flag=True, help="Wait for a key after every step.")
@click.option("--json", "as_json", is_flag=True, help="Print the end of the account as JSON.")
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write the account as one page.")
@click.pass_context
def run(
    ctx: click.Context,
    scenario: str,
    engine: str,
    policy: str,
    replicas: int | None,
    spark: bool,
    kafka_version: str | None,
    within_ms: int | None,
    client: str | None,
    guard: bool,
    stepwise: bool,
    as_json: bool,
    html_path: Path | None,
) -> None:
    """Run a scenario step by step and judge what the replicas show.

    SCENARIO is a name from `holdfast lab list`, or the path of a .scn file.
    Exit code 0: all replicas agree with what was written; 1: they do not, or one stopped itself.
    """
    from holdfast.lab import account, library
    from holdfast.lab.engines.engine import POLICIES

    _one_of("engine", engine, ENGINES)
    _one_of("policy", policy, POLICIES)
    if spark and engine != "holdfast":
        raise UsageError("--spark is for --engine holdfast: nothing else rewrites on it")
    brokers = _kafka_options(engine, policy, kafka_version, within_ms, client, guard)
    story = library.load(scenario, replicas=replicas)
    if html_path is not None:
        _write(html_path, "")  # an unwritable path fails before the run, not after it
    with _begun(story, engine, policy, spark, brokers) as told:
        if as_json:
            for _ in account.advance(told):
                pass
            click.echo(json.dumps(told.as_json(), indent=2, ensure_ascii=False))
        else:
            _tell(told, stepwise)
        if html_path is not None:
            from holdfast.lab import page

            _write(html_path, page.account_page(told))
        ctx.exit(0 if told.agreed else 1)


@lab.command()
@click.option("--json", "as_json", is_flag=True, help="Print the cells as JSON.")
@click.option(
    "--html", "html_path", type=click.Path(path_type=Path), help="Write table and plot as one page."
)
def sweep(as_json: bool, html_path: Path | None) -> None:
    """Vary outage length and delete.retention.ms: how many runs diverge?"""
    from rich.console import Console
    from rich.progress import track

    from holdfast.lab import sweep as sweeping
    from holdfast.lab import sweep_view

    if html_path is not None:
        _write(html_path, "")
    progress = Console(stderr=True)
    cells = list(
        track(
            sweeping.sweep(),
            description="sweeping",
            total=sweeping.cells_count(),
            console=progress,
            disable=not progress.is_terminal,
            transient=True,
        )
    )
    if as_json:
        rows = [cell.as_json() for cell in cells]
        click.echo(json.dumps({"runs_per_cell": sweeping.RUNS, "cells": rows}, indent=2))
    else:
        Console(highlight=False).print(sweep_view.table(cells))
    if html_path is not None:
        _write(html_path, sweep_view.sweep_page(cells))


def _kafka_options(
    engine: str, policy: str, version: str | None, within_ms: int | None, client: str | None, guard: bool
) -> "KafkaOptions":
    from holdfast.lab.engines.kafka_options import CLIENTS, KafkaOptions
    from holdfast.lab.kafka_broker import DEFAULT_VERSION

    if engine != "kafka" and (version or within_ms is not None or client or guard):
        raise UsageError("--kafka-version, --within, --client and --guard are for --engine kafka")
    if engine == "kafka" and policy != "kafka":
        raise UsageError(f"real brokers compact in Kafka's way alone: --policy {policy} is for other engines")
    if within_ms == 0:
        raise UsageError("--within takes some time: 30s, 10m, …")
    options = KafkaOptions(
        version=version or DEFAULT_VERSION, within_ms=within_ms, client=client or CLIENTS[0], guard=guard
    )
    _one_of("client", options.client, CLIENTS)
    return options


@contextmanager
def _begun(
    story: "Scenario", engine: str, policy: str, spark: bool, brokers: "KafkaOptions"
) -> Iterator["Account"]:
    from holdfast.lab import account

    if engine == "model":
        yield account.begin(story, policy=policy)
        return
    if engine == "kafka":
        from holdfast.lab.engines.kafka_cluster import open_engine as open_kafka

        beside = " and a guard" if brokers.guard else ""
        click.echo(f"starting brokers of Apache Kafka {brokers.version}{beside}", err=True)
        with open_kafka(story, brokers) as started:
            yield account.begin_on(started, story)
        return
    from holdfast.lab.engines.holdfast import in_process, open_engine

    with (
        _spark_runner() if spark else nullcontext(in_process) as choose_runner,
        open_engine(story, policy=policy, choose_runner=choose_runner) as opened,
    ):
        yield account.begin_on(opened, story)


@contextmanager
def _spark_runner() -> Iterator["ChooseRunner"]:
    from holdfast.spark.rewrites import SparkRunner
    from holdfast.spark.session import spark_session

    session = spark_session("holdfast lab", master=SPARK_MASTER)
    try:
        yield lambda size_bytes: SparkRunner(session)
    finally:
        session.stop()


def _tell(told: "Account", stepwise: bool) -> None:
    from rich.console import Console

    from holdfast.lab import account, strips

    console = Console(highlight=False)
    console.print(strips.opening(told))
    for number, frame in enumerate(account.advance(told), start=1):
        console.print(strips.frame(number, told, frame))
        if stepwise and number < len(told.scenario.lines):
            click.pause("   any key: next step")
    console.print(strips.closing(told))


def _one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"unknown {what} '{value}'; known are: {', '.join(known)}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise UsageError(f"cannot write {path}: {failure.strerror}") from None

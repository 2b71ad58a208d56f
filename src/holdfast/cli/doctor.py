"""`holdfast doctor`: do the replicas of a Kafka cluster show the same?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from holdfast.cli import present
from holdfast.cli.doctor_repair import repair
from holdfast.cli.duration import DurationType
from holdfast.cli.endpoint import bootstrap_option, complete_topic, connect
from holdfast.cli.present import json_option
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.doctor.examine import Examination

DIVERGED = 1
NOT_EXAMINED = 3
WAIT_MS = 60_000


@click.group(invoke_without_command=True)
@click.option(
    "-t",
    "--topic",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    shell_complete=complete_topic,
    help="Only topics of that name; * and ? stand for others. Repeatable.",
)
@click.option(
    "--wait",
    "wait_ms",
    type=DurationType(),
    default=WAIT_MS,
    metavar="DURATION",
    help="How long a replica may take to catch up before it is left out. [default: 60s]",
)
@click.option(
    "--rate",
    "megabytes_per_second",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MB",
    help="Read no more than so many megabytes per second, from all brokers together.",
)
@bootstrap_option
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    patterns: tuple[str, ...],
    wait_ms: int,
    megabytes_per_second: float | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Read every replica of every compacted topic by itself, and compare what consumers would be given.

    Rights to read the topics and to describe topics, configs and transactional ids are enough; nothing is written. A
    difference is reported only if it is still there when every replica has caught up with all that was seen at
    first. Exit code 0: all agree; 1: some do not; 3: something could not be examined, and the rest agrees.
    """
    if ctx.invoked_subcommand is not None:
        return
    from holdfast.doctor.cluster import choose_topics, count_offsets, examine_topics
    from holdfast.doctor.live import Meter

    limit = None if megabytes_per_second is None else int(megabytes_per_second * 1_000_000) or 1
    try:
        with connect(bootstrap) as cluster:
            chosen = choose_topics(cluster, patterns)
            with _progress(count_offsets(cluster, chosen)) as advance:
                meter = Meter(limit, on_read=advance)
                examined = list(examine_topics(cluster, chosen, meter=meter, wait_s_max=wait_ms / 1000))
    except UsageError:
        raise
    except HoldfastError as failure:
        _give_up(ctx, failure)
    if chosen.not_compacted and not as_json:
        skipped = present.count(len(chosen.not_compacted), "topic")
        click.echo(f"{skipped} without compaction left out: nothing of them is dropped in this way", err=True)
    _tell(ctx, examined, as_json)


@doctor.command("files")
@click.argument("directories", nargs=-1, required=True, metavar="DIR DIR...", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def files(ctx: click.Context, directories: tuple[Path, ...], as_json: bool) -> None:
    """Compare copied log directories, one of each broker, without a cluster.

    Only segments are read: what brokers keep beside them is what a diverged replica has wrong. Copy from brokers
    that are stopped, or at rest; a copy that ends before another is left out.
    """
    from holdfast.doctor.copies import examine_copies

    try:
        examined = list(examine_copies(directories))
    except UsageError:
        raise
    except HoldfastError as failure:
        _give_up(ctx, failure)
    _tell(ctx, examined, as_json)


doctor.add_command(repair)


def _give_up(ctx: click.Context, failure: HoldfastError) -> NoReturn:
    click.echo(f"holdfast: {failure}", err=True)
    ctx.exit(NOT_EXAMINED)


def _tell(ctx: click.Context, examined: "Sequence[Examination]", as_json: bool) -> None:
    found = [finding for each in examined for finding in each.findings]
    missed = [each for examination in examined for each in examination.not_examined]
    if as_json:
        present.print_json(
            {
                "clean": not found and not missed,
                "examined": [
                    {"topic": each.place.topic, "partition": each.place.partition, "replicas": each.replicas}
                    for each in examined
                    if len(each.replicas) > 1
                ],
                "findings": [finding.as_json() for finding in found],
                "not_examined": [
                    {
                        "topic": each.place.topic,
                        "partition": each.place.partition,
                        "replica": each.replica,
                        "why": each.why,
                    }
                    for each in missed
                ],
            }
        )
    else:
        _print(examined)
    ctx.exit(DIVERGED if found else NOT_EXAMINED if missed else 0)


def _print(examined: "Iterable[Examination]") -> None:
    compared = alone = found = 0
    for each in examined:
        place = f"{each.place.topic}:{each.place.partition}"
        for finding in each.findings:
            found += 1
            head = f"{place}  replica {finding.replica}  {finding.variant or 'differs'}"
            click.secho(present.printable(head), fg="red", bold=True)
            click.echo(f"  {present.printable(finding.what)}")
            click.secho(f"  {present.printable(finding.advice)}", dim=True)
        for missed in each.not_examined:
            which = "" if missed.replica is None else f"  replica {missed.replica}"
            click.secho(f"{place}{which}  not examined: {present.printable(missed.why)}", fg="yellow")
        compared += len(each.replicas) > 1
        alone += len(each.replicas) <= 1 and not each.not_examined
    alike = "" if found else ": all replicas show the same"
    click.echo(
        f"{present.count(compared, 'partition')} compared, {present.count(found, 'difference')}{alike}"
    )
    if alone:
        click.echo(f"{present.count(alone, 'partition')} with one replica: nothing to compare")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar with the time left, on a terminal; offsets stand for the work."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("examining"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("examining", total=total)
        yield lambda offsets: bar.advance(task, offsets)

"""`holdfast doctor`: do the replicas of a Kafka cluster show the same?"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.doctor_repair import repair
from holdfast.cli.doctor_view import Teller, progress, watch
from holdfast.cli.duration import DurationType
from holdfast.cli.endpoint import connect, endpoint_options, patterns_option
from holdfast.cli.present import json_option
from holdfast.cli.spark_option import master_option
from holdfast.cli.standing_group import StandingGroup
from holdfast.client.endpoint import Endpoint
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.client.groups import TopicPartition
    from holdfast.doctor.ranges import PrintAll
    from holdfast.doctor.report import Report

WAIT_MS = 60_000
WATCH_SECONDS = 60.0

html_option = click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as one page, too."
)


@click.group(cls=StandingGroup)
@patterns_option
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
@click.option(
    "--watch",
    "watch_seconds",
    type=click.FloatRange(min=0),
    is_flag=False,
    flag_value=WATCH_SECONDS,
    metavar="[SECONDS]",
    help=f"Again and again until ^C, so long after each look [{WATCH_SECONDS:.0f}]; only changes are told.",
)
@click.option(
    "--spark", is_flag=True, help="For large topics: compare ranges of offsets first, as a Spark job."
)
@master_option()
@html_option
@endpoint_options
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    patterns: tuple[str, ...],
    wait_ms: int,
    megabytes_per_second: float | None,
    watch_seconds: float | None,
    spark: bool,
    master: str,
    html: Path | None,
    endpoint: Endpoint,
    as_json: bool,
) -> None:
    """Read every replica of every compacted topic by itself, and compare what consumers would be given.

    The rights Describe, DescribeConfigs and Read on the topics are enough; nothing is written. A difference is
    reported only if it is still there when every replica has caught up with all that was seen at first. Exit
    code 0: all agree; 1: some do not; 3: something could not be examined, and the rest agrees.
    """
    if ctx.invoked_subcommand is not None:
        return
    from holdfast.doctor.cluster import choose_topics, count_offsets, examine_topics
    from holdfast.doctor.live import Meter
    from holdfast.doctor.report import Report

    limit = None if megabytes_per_second is None else int(megabytes_per_second * 1_000_000) or 1
    left_out: set[str] = set()
    about = f"the cluster at {endpoint}"
    teller = Teller(about, as_json=as_json, html=html, is_watching=watch_seconds is not None)
    with _printers(master if spark else None, endpoint, limit) as printer_of:

        def look() -> Report:
            with connect(endpoint) as cluster:
                chosen = choose_topics(cluster, patterns)
                left_out.update(chosen.not_compacted)
                with progress(count_offsets(cluster, chosen), is_shown=not spark) as advance:
                    examined = examine_topics(
                        cluster,
                        chosen,
                        meter=Meter(limit, on_read=advance),
                        wait_s_max=wait_ms / 1000,
                        printer_of=printer_of,
                    )
                    return Report(examined=list(examined))

        if watch_seconds is not None:
            watch(ctx, look, teller, pause_s=watch_seconds)
        report = _look_once(look)
    if left_out and not as_json:
        skipped = present.count(len(left_out), "topic")
        click.echo(f"{skipped} without compaction left out: nothing of them is dropped in this way", err=True)
    teller.tell(report)
    ctx.exit(report.code)


@contextmanager
def _printers(
    master: str | None, endpoint: Endpoint, limit: int | None
) -> "Iterator[Callable[[TopicPartition], PrintAll] | None]":
    """Who takes fingerprints on Spark, if that is wanted, for as long as its session lives."""
    if master is None:
        yield None
        return
    from holdfast.cli.spark_work import spark_work
    from holdfast.doctor.on_spark import Reach, SparkPrinter

    reach = Reach(endpoint=endpoint, bytes_per_second_max=limit)
    with spark_work("holdfast doctor", master) as work, work.doing("comparing ranges"):
        yield lambda place: SparkPrinter(work.session, reach, place)


@doctor.command("files")
@click.argument("directories", nargs=-1, required=True, metavar="DIR DIR...", type=click.Path(path_type=Path))
@html_option
@json_option
@click.pass_context
def files(ctx: click.Context, directories: tuple[Path, ...], html: Path | None, as_json: bool) -> None:
    """Compare copied log directories, one of each broker, without a cluster.

    Only segments are read: what brokers keep beside them is what a diverged replica has wrong. Copy from brokers
    that are stopped, or at rest; a copy that ends before another is left out.
    """
    from holdfast.doctor.copies import examine_copies
    from holdfast.doctor.report import Report

    report = _look_once(lambda: Report(examined=list(examine_copies(directories))))
    Teller(" and ".join(map(str, directories)), as_json=as_json, html=html).tell(report)
    ctx.exit(report.code)


doctor.add_command(repair)


def _look_once(look: "Callable[[], Report]") -> "Report":
    """A look that came to nothing is a report, too."""
    from holdfast.doctor.report import Report

    try:
        return look()
    except UsageError:
        raise
    except HoldfastError as failure:
        return Report(failure=str(failure))

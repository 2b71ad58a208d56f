"""`holdfast compaction check`: was everything that compaction has forgotten forgotten by right?"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.data_option import data_option
from holdfast.cli.present import json_option

if TYPE_CHECKING:
    from holdfast.keeper.grants import Violation


@click.command()
@data_option("The data directory; it may be served meanwhile.")
@click.option(
    "--store",
    type=click.IntRange(1),
    help="Read this store's journals, instead of those that reach furthest.",
)
@json_option
@click.pass_context
def check(ctx: click.Context, data: Path, store: int | None, as_json: bool) -> None:
    """Replay the footers of a store and hold every rewrite against what all replicas had reported by then.

    The removal offsets are computed anew from the reports alone. Where early journals are gone it begins with a
    snapshot, and believes that. Nothing is changed. Exit code 1 if a rewrite was not covered: the first one is named.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from holdfast.keeper.history import check_grants

    columns = (SpinnerColumn(), TextColumn("reading frame {task.completed:,.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("read", total=None)
        found = check_grants(
            data, store=store, on_frame=lambda number: progress.update(task, completed=number)
        )
    if as_json:
        present.print_json(asdict(found))
    else:
        begin = "" if found.snapshot is None else f" after the snapshot as of frame {found.snapshot}"
        click.echo(
            f"frames {found.first_frame:,} to {found.last_frame:,} of store {found.store}{begin}:"
            f" {present.count(found.rewrites, 'rewrite')} of {present.count(found.partitions, 'partition')}"
            " covered by what all replicas had reported"
        )
        if found.void_frames:
            click.echo(f"{present.count(found.void_frames, 'frame')} never counted and are left out")
        if found.violation is not None:
            click.echo(f"frame {found.violation.frame}: {_tell(found.violation)}")
    ctx.exit(0 if found.violation is None else 1)


def _tell(violation: "Violation") -> str:
    place = "" if violation.topic is None else f" of {violation.topic}:{violation.partition}"
    return f"store {violation.store}{place}: {violation.why}"

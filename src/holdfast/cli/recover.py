"""`holdfast recover`: make the control plane anew from the stores."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from holdfast.cli.data_option import data_option


@click.command()
@data_option("Data directory; nobody may be serving it.")
@click.option(
    "--store", type=click.IntRange(1), help="Believe this store alone; the others are then out of sync."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def recover(data: Path, store: int | None, as_json: bool) -> None:
    """Make control.db anew from the newest snapshot and the journals after it, or from the journals alone.

    Offsets, sequences, transactions and groups are all in there. The one that is there is set aside. `holdfast up`
    does the same by itself when control.db is missing.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from holdfast.agent.rebuild import rebuild

    columns = (SpinnerColumn(), TextColumn("replaying frame {task.completed:,.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replay", total=None)
        rebuilt = rebuild(data, store=store, on_frame=lambda number: progress.update(task, completed=number))
    if as_json:
        click.echo(json.dumps(asdict(rebuilt), default=str))
        return
    begun = "" if rebuilt.snapshot is None else f"a snapshot of frame {rebuilt.snapshot:,} and "
    click.echo(
        f"control.db made anew from {begun}{rebuilt.frames:,} frames: {rebuilt.topics} topics,"
        f" {rebuilt.partitions} partitions, {rebuilt.records_end:,} offsets"
    )
    click.echo(f"stores in sync: {', '.join(map(str, rebuilt.in_sync))}")
    if rebuilt.set_aside is not None:
        click.echo(f"the old one lies at {rebuilt.set_aside}")

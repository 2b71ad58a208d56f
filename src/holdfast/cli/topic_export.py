"""`holdfast topic export`: a topic as Parquet files."""

from pathlib import Path
from typing import Any

import click

from holdfast.cli import present
from holdfast.cli.endpoint import complete_topic
from holdfast.cli.present import json_option
from holdfast.cli.table_options import table_options, to_options


@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=complete_topic)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@table_options
@json_option
def export(name: str, directory: Path, as_json: bool, master: str, **where: Any) -> None:
    """Write TOPIC, as of this moment, to Parquet files in DIR, which must be new or empty.

    Columns are those of `holdfast sql`. Spark's tasks write the files, so on a cluster DIR is a path that all of its
    machines share.
    """
    from holdfast.cli.spark_work import spark_work
    from holdfast.spark.export import export as write
    from holdfast.spark.export import new_directory
    from holdfast.spark.table import take_snapshot

    with (
        new_directory(directory) as made,
        spark_work("holdfast topic export", master) as work,
        work.doing(f"exporting {name}"),
        take_snapshot(work.session, [name], to_options(**where)) as snapshot,
    ):
        done = write(work.session, snapshot, name, made)
        ends = {str(partition): end for (_, partition), end in snapshot.ends.items()}
    if as_json:
        present.print_json(
            {
                "topic": name,
                "directory": str(directory),
                "files": done.files,
                "bytes": done.size_bytes,
                "ends": ends,
            }
        )
    else:
        click.echo(
            f"{name} is in {directory}: {present.count(done.files, 'file')}, {done.size_bytes:,} bytes"
        )

"""`holdfast sql`: ask topics as if they were tables."""

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import present
from holdfast.cli.present import json_option
from holdfast.cli.table_options import table_options, to_options

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

ROWS_DEFAULT = 100


@click.command()
@click.argument("query")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=ROWS_DEFAULT,
    show_default=True,
    metavar="N",
    help="Show so many rows at most; 0 for all of them.",
)
@table_options
@json_option
def sql(query: str, limit: int, as_json: bool, master: str, **where: Any) -> None:
    """Run QUERY, in Spark's SQL, over topics: each is a table of its name, in backticks where it is not a plain word.

    \b
    holdfast sql "SELECT partition, count(*) FROM orders GROUP BY partition"
    holdfast sql 'SELECT string(key), max(offset) FROM `web.clicks` GROUP BY key'

    Columns: key, value (binary), topic, partition, offset, timestamp, timestampType, headers. Topics are read as of one
    moment: all those of a query where the stores' files are read, each by itself through an agent and on Apache Kafka.
    Keys and values are shown as text where they are text, moments in UTC, which is the query's time zone. With --json
    every row is an object on a line of its own.
    """
    from holdfast.cli.spark_work import spark_work
    from holdfast.spark.queries import find_topics, run, setting
    from holdfast.spark.table import take_snapshot

    options = to_options(**where)
    with spark_work("holdfast sql", master) as work:
        with work.doing("reading the query"):
            topics = find_topics(work.session, query)
        with (
            work.doing("asking"),
            setting(work.session, _TIME_ZONE, "UTC"),
            take_snapshot(work.session, topics, options) as snapshot,
            run(work.session, query, topics, snapshot) as frame,
        ):
            kind = frame.schema
            rows = frame.limit(limit + 1).collect() if limit else frame.collect()
    shown = rows[:limit] if limit else rows
    _print(kind, shown, as_json)
    if len(rows) > len(shown):
        click.echo(f"only the first {limit} rows are shown: --limit 0 shows all", err=True)


_TIME_ZONE = "spark.sql.session.timeZone"


def _print(kind: "StructType", rows: "list[Row]", as_json: bool) -> None:
    from holdfast.cli.sql_rows import number_names, to_cell, to_line

    names = kind.fieldNames()
    if not as_json:
        kinds = [field.dataType for field in kind.fields]
        present.print_table(names, [list(map(to_cell, row, kinds)) for row in rows])
        return
    for row in rows:
        click.echo(to_line(row, kind))
    if (numbered := number_names(names)) != names:
        click.echo(f"columns of the same name are numbered: {', '.join(numbered)}", err=True)

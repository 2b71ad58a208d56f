"""`holdfast sql`: ask topics as if they were tables."""

import json
from datetime import date, time
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import present
from holdfast.cli.present import json_option
from holdfast.cli.record_format import to_field
from holdfast.cli.table_options import table_options, to_options

if TYPE_CHECKING:
    from pyspark.sql import Row

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

    Columns: key, value (binary), topic, partition, offset, timestamp, timestampType, headers. All topics of a query are
    read as of one moment. Keys and values are shown as text where they are text. With --json every row is an object
    on a line of its own.
    """
    from holdfast.cli.spark_work import spark_work
    from holdfast.spark.queries import find_topics, run
    from holdfast.spark.table import take_snapshot

    options = to_options(**where)
    with spark_work("holdfast sql", master) as work:
        with work.doing("reading the query"):
            topics = find_topics(work.session, query)
        with (
            work.doing("asking"),
            take_snapshot(work.session, topics, options) as snapshot,
            run(work.session, query, topics, snapshot) as frame,
        ):
            rows = frame.limit(limit + 1).collect() if limit else frame.collect()
    shown = rows[:limit] if limit else rows
    _print(frame.columns, shown, as_json)
    if len(rows) > len(shown):
        click.echo(f"only the first {limit} rows are shown: --limit 0 shows all", err=True)


def _print(names: list[str], rows: "list[Row]", as_json: bool) -> None:
    if as_json:
        for row in rows:
            click.echo(_to_json(dict(zip(names, map(_plain, row), strict=True))))
    else:
        present.print_table(names, [[_cell(value) for value in row] for row in rows])


def _cell(value: object) -> object:
    """For the eye: text where bytes are text, else hexadecimal."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return "0x" + bytes(value).hex()
    if value is None or isinstance(value, int | float | str):
        return value
    return _to_json(_plain(value)).strip('"')


def _plain(value: Any) -> Any:
    """For programs: bytes are text or {"base64": …}, rows within rows are objects."""
    if isinstance(value, bytes | bytearray):
        return to_field(bytes(value))
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_to_text)


def _to_text(value: object) -> str:
    """What JSON has no word for: dates and times as ISO 8601, decimals and the like as they are written."""
    return value.isoformat() if isinstance(value, date | time) else str(value)

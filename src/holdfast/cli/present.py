"""How commands answer: tables for people, JSON for programs, and nothing that a terminal would obey."""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

WIDTH_UNBOUNDED = 100_000
"""Into a pipe or a file nothing is folded."""

NOTHING = "-"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""Every command that prints something has it."""


def print_json(value: object) -> None:
    """One JSON document; keys in the order they were given."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns under their titles; numbers stand to the right, None shows as a dash."""
    rows = list(rows)
    table = _grid()
    table.show_header = True
    for index, title in enumerate(titles):
        kinds = {type(row[index]) for row in rows} - {type(None)}
        table.add_column(title, justify="right" if kinds == {int} else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    _print(table)


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one pair to a line."""
    table = _grid()
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(_cell(name), _cell(value))
    _print(table)


def print_title(title: str) -> None:
    """Sets the next table off from the one before."""
    click.secho(f"\n{printable(title)}", bold=True)


def printable(text: str) -> str:
    """The text with what would move the cursor, change colours or turn the line around made visible."""
    return _CONTROL.sub(lambda found: _escape(found[0]), text)


def count(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _cell(value: object) -> str:
    from rich.markup import escape

    if value is None or value == "":
        return NOTHING
    return escape(printable(str(value)))


def _grid() -> "Table":
    from rich.table import Table

    return Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def _print(table: "Table") -> None:
    from rich.console import Console

    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    console = Console(highlight=False, width=WIDTH_UNBOUNDED, color_system=None)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))

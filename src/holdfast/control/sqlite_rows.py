"""Many rows in one statement: each statement lets go of the interpreter's lock and has to get it back."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

ROWS_PER_STATEMENT_MAX = 32
"""A power of two: rows go in blocks of such, so that few statements are ever prepared."""


def insert_rows(writer: sqlite3.Connection, insert: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Run `insert`, which ends before VALUES, for all rows in order."""
    done, block = 0, ROWS_PER_STATEMENT_MAX
    while done < len(rows):
        while block > len(rows) - done:
            block >>= 1
        values = chain.from_iterable(rows[done : done + block])
        writer.execute(_statement(insert, len(rows[0]), block), tuple(values))
        done += block


@lru_cache(256)
def _statement(insert: str, columns: int, rows: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"{insert} VALUES {', '.join([row] * rows)}"

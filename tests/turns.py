"""Who runs what in `make test`: one process has all that needs Spark, and what takes long is begun first.

A session costs a JVM, its Python workers, and the time until both are warm: twenty seconds of a processor. Files of few
tests are those that start processes and kill them; files of many are quick, and fill up the end.
"""

from collections import Counter
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

SPARK = "Spark"
FOLDERS = ("tests/spark/", "tests/pipelines/")


def turn_of(nodeid: str) -> str:
    """What is run by one process from its first test to its last: a file, or all of Spark."""
    file = nodeid.split("::", 1)[0]
    return SPARK if file.startswith(FOLDERS) else file


def put_in_turn(items: list[pytest.Item]) -> None:
    """Spark first, then file after file, those of fewest tests before the others."""
    counts = Counter(turn_of(item.nodeid) for item in items)
    counts[SPARK] = 0
    items.sort(key=lambda item: counts[turn_of(item.nodeid)])


class Turns(LoadFileScheduling):
    """Deals out turns in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return turn_of(nodeid)

"""Waiting for what becomes so in its own time, on brokers that come and go meanwhile."""

import time
from collections.abc import Callable

from holdfast.errors import HoldfastError

WAIT_SECONDS_MAX = 120.0
PAUSE_S = 0.15


def wait_for(is_so: Callable[[], bool], what: str, *, told: Callable[[], str] = lambda: "") -> None:
    """AssertionError, with what there is to be told, if it takes too long."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not quietly(is_so):
        assert time.monotonic() < deadline, f"waited too long for {what}\n{told()}"
        time.sleep(PAUSE_S)


def quietly(is_so: Callable[[], bool]) -> bool:
    """False where nobody can tell just now."""
    try:
        return is_so()
    except HoldfastError as failure:
        if not failure.retriable:
            raise
        return False

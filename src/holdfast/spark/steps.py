"""The steps of a micro-batch's way into the log, for tests that want to be there when something dies."""

from collections.abc import Callable
from enum import Enum


class Step(Enum):
    """Each is reported just before what comes next, with the batch that it is about."""

    TICKET = "the driver has a ticket, no task has begun"
    WRITING = "a task is about to write its first rows"
    WRITTEN = "a task has written all its rows, and nobody knows"
    REPORTED = "the driver knows that all rows are written"
    STAGED = "the token is staged, the transaction is still open"
    ENDED = "the transaction is committed, and nobody has been told"


OnStep = Callable[[Step], None]


def ignore(step: Step) -> None:
    """What everybody does but tests."""

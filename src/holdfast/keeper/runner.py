"""Where rewrites run: in the keeper's own process, or anywhere that takes work items and returns their results."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.keeper.work import Rewrite, WorkItem

Result = Rewrite | HoldfastError
Progress = Callable[[int], None]


class Runner(Protocol):
    """Runs rewrites. One that fails does not harm the others."""

    def run(self, items: Sequence[WorkItem], on_progress: Progress) -> Iterator[tuple[int, Result]]:
        """(number of the item, result) as they are done, in whatever order."""
        ...


class InProcessRunner:
    """One item after the other, here: for rounds that are too small to be worth a session."""

    def run(self, items: Sequence[WorkItem], on_progress: Progress) -> Iterator[tuple[int, Result]]:
        """See `Runner`."""
        # numba takes its time to load, and memory: not before there is something to do.
        from holdfast.keeper.task import rewrite  # noqa: PLC0415

        for number, item in enumerate(items):
            try:
                yield number, rewrite(item, seed=secrets.randbits(63), on_progress=on_progress)
            except HoldfastError as failure:
                yield number, failure

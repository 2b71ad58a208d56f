"""Where rewrites run: in the keeper's own process, or anywhere that takes work items and returns their results."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.keeper.work import Rewrite, WorkItem

Result = Rewrite | HoldfastError
Done = Sequence[tuple[int, Result]]
"""(Number of the item, result) of those that are done at the same time: they are published together."""
Progress = Callable[[int], None]

GATHER_SECONDS = 1.0
"""What is done after so long waits for nothing but the rewrite under way; a keeper that is killed by then loses it."""


class Runner(Protocol):
    """Runs rewrites. One that fails does not harm the others."""

    def run(self, items: Sequence[WorkItem], on_progress: Progress) -> Iterator[Done]:
        """All items as they are done, in whatever order."""
        ...


class InProcessRunner:
    """One item after the other, here: for rounds that are too small to be worth a session."""

    def run(self, items: Sequence[WorkItem], on_progress: Progress) -> Iterator[Done]:
        """See `Runner`."""
        # numba takes its time to load, and memory: not before there is something to do.
        from holdfast.keeper.task import rewrite  # noqa: PLC0415

        done: list[tuple[int, Result]] = []
        begun = time.monotonic()
        for number, item in enumerate(items):
            try:
                done.append((number, rewrite(item, seed=secrets.randbits(63), on_progress=on_progress)))
            except HoldfastError as failure:
                done.append((number, failure))
            except Exception:
                yield done  # what is done is done, whatever became of this one
                raise
            if time.monotonic() - begun >= GATHER_SECONDS:
                yield done
                done, begun = [], time.monotonic()
        if done:
            yield done

"""Whether a query that has failed is worth another start: an outage of the log passes, a checkpoint loses nothing."""

import time
from collections.abc import Callable
from typing import Final

from pyspark.errors import PySparkException

from holdfast.errors import HoldfastError
from holdfast.spark.failures import find_own

OUTAGE_S_MAX: Final = 600.0
"""So long is a query started again that reaches nobody."""


def passing(failure: PySparkException | None) -> HoldfastError | None:
    """What a later attempt may not meet again, if the query failed of that."""
    ours = None if failure is None else find_own(str(failure))
    return ours if ours is not None and ours.retriable else None


class Outage:
    """How long a query has reached nobody."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since_s: float | None = None

    def may_pass(self, *, was_well: bool) -> bool:
        """Whether a query that has failed is to be started again; if it was well meanwhile, that is a new beginning.

        One that never was may have the wrong address: whoever has started it wants to know.
        """
        if was_well:
            self._since_s = self._clock()
        return self._since_s is not None and self._clock() - self._since_s < OUTAGE_S_MAX

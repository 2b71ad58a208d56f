"""Whether a query that has failed is worth another start: an outage of the log passes, a checkpoint loses nothing."""

import time
from collections.abc import Callable
from typing import Final

from pyspark.errors import PySparkException

from holdfast.errors import HoldfastError
from holdfast.spark.traces import find_own

OUTAGE_S_MAX: Final = 600.0
"""So long is a query started again that comes to nothing."""
ALONE_S_MAX: Final = 300.0
"""One that lives longer has reached somebody: four attempts at a batch wait for half a minute each, at most."""


def passing(failure: PySparkException | None) -> HoldfastError | None:
    """What a later attempt may not meet again, if the query failed of that."""
    ours = None if failure is None else find_own(str(failure))
    return ours if ours is not None and ours.retriable else None


class Outage:
    """For how long a query has come to nothing, since it was first started."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._well_s = self._started_s = clock()

    def may_pass(self, *, was_well: bool) -> bool:
        """Whether a query that has failed is to be started again; if it was well meanwhile, that is a new beginning."""
        now_s = self._clock()
        if was_well or now_s - self._started_s > ALONE_S_MAX:
            self._well_s = now_s
        return now_s - self._well_s < OUTAGE_S_MAX

    def start_again(self) -> None:
        """The query lives anew."""
        self._started_s = self._clock()

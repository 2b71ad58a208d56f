"""How long a request is tried again, and what a Kafka error code means for that."""

import time
from collections.abc import Callable
from typing import Any, Final

import kafka.errors

from holdfast.errors import HoldfastError, KafkaRefusal, TransientRefusal

PAUSE_S_FIRST: Final = 0.05
PAUSE_S_MAX: Final = 1.0


class Patience:
    """A budget of time without progress: each wait is longer than the last, until the budget is spent."""

    def __init__(
        self,
        seconds_max: float,
        *,
        pause_s_first: float = PAUSE_S_FIRST,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds_max = seconds_max
        self._pause_s_first = pause_s_first
        self._clock = clock
        self._sleep = sleep
        self.renew()

    def renew(self) -> None:
        """There was progress: the whole budget is there again."""
        self._deadline = self._clock() + self._seconds_max
        self._pause = self._pause_s_first

    def wait(self, error: HoldfastError) -> None:
        """Waits before another attempt; raises `error` when it is final or the budget is spent."""
        if not error.retriable or not self.pause():
            raise error

    def pause(self) -> bool:
        """The same where nothing has failed: waits, or tells that the budget is spent."""
        left = self._deadline - self._clock()
        if left <= 0:
            return False
        self._sleep(min(self._pause, left))
        self._pause = min(self._pause * 2, PAUSE_S_MAX)
        return True


def refusal(code: int, where: str, detail: str | None = None) -> KafkaRefusal:
    """The error that stands for a Kafka error code in an answer; `where` names what was asked about.

    `detail` is what the broker itself says about it, where the answer has room for that.
    """
    kafka_error: Any = kafka.errors.for_code(code)
    why = kafka_error.message or kafka_error.__name__
    message = f"{where}: {detail} ({why})" if detail else f"{where}: {why} (Kafka error {code})"
    for known in KafkaRefusal.__subclasses__():
        if known.kafka_code == code:
            return known(message)
    return TransientRefusal(message) if kafka_error.retriable else KafkaRefusal(message)

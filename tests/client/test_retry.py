"""Patience, and what Kafka's error codes mean for it."""

import pytest

from holdfast.client.retry import PAUSE_S_MAX, Patience, refusal
from holdfast.errors import ConnectionFailed, OffsetOutOfRange, UsageError


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def patience(clock: Clock, seconds_max: float) -> Patience:
    return Patience(seconds_max, clock=lambda: clock.now, sleep=clock.sleep)


def exhaust(budget: Patience) -> None:
    while True:
        budget.wait(ConnectionFailed("down"))


def test_waits_longer_each_time_and_then_raises() -> None:
    """Pauses grow up to a limit; when the budget is spent the last error comes out."""
    clock = Clock()
    with pytest.raises(ConnectionFailed, match="down"):
        exhaust(patience(clock, 10.0))
    assert clock.now == pytest.approx(10.0)
    assert clock.pauses[:2] == [0.05, 0.1]
    assert max(clock.pauses) == PAUSE_S_MAX


def test_progress_renews_the_budget() -> None:
    """After progress the whole budget is there again."""
    clock = Clock()
    budget = patience(clock, 1.0)
    for _ in range(20):
        budget.wait(ConnectionFailed("down"))
        budget.renew()
    assert clock.now == pytest.approx(20 * 0.05)


def test_final_errors_are_not_waited_for() -> None:
    """An error that no retry can heal is raised at once."""
    clock = Clock()
    with pytest.raises(UsageError):
        patience(clock, 10.0).wait(UsageError("wrong"))
    assert clock.pauses == []


@pytest.mark.parametrize(
    ("code", "retriable", "words"),
    [
        (5, True, "LEADER_NOT_AVAILABLE"),
        (6, True, "NOT_LEADER"),
        (29, False, "TOPIC_AUTHORIZATION_FAILED"),
        (32000, False, "32000"),
    ],
)
def test_refusals(code: int, retriable: bool, words: str) -> None:
    """A code says in words what Kafka calls it, and whether to ask again is as Kafka has it."""
    error = refusal(code, "orders-0")
    assert error.retriable is retriable
    assert words in str(error)
    assert str(error).startswith("orders-0")


def test_refusal_of_its_own_class() -> None:
    """A code that has a class of its own becomes that."""
    assert type(refusal(1, "orders-0")) is OffsetOutOfRange

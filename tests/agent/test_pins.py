"""Promises to readers: what is held, for how long, and how many at once."""

import pytest

from holdfast.agent import pins
from holdfast.agent.pins import Pins, StoreFilesHeld
from holdfast.errors import ReadingOver, ReadingRefused


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def held(*segments: str, journals: tuple[int, ...] = ()) -> StoreFilesHeld:
    return StoreFilesHeld(set(segments), set(journals))


def test_files_are_held_for_as_long_as_anybody_holds_them() -> None:
    """By store; until each promise is released or has run out."""
    clock = Clock()
    promised = Pins(clock)
    one = promised.add({1: held("a", "b", journals=(7,)), 2: held("c")}, 10)
    promised.add({1: held("b", journals=(8,))}, 20)
    assert promised.find(1) == held("a", "b", journals=(7, 8))
    assert (promised.find(2), promised.find(3)) == (held("c"), held())
    promised.release(one)
    assert (promised.find(1), promised.find(2)) == (held("b", journals=(8,)), held())
    clock.seconds = 19.9
    assert promised.find(1) == held("b", journals=(8,))
    clock.seconds = 20.0
    assert promised.find(1) == held()


def test_a_promise_is_renewed_in_time_or_not_at_all() -> None:
    """What has run out may have been deleted."""
    clock = Clock()
    promised = Pins(clock)
    name = promised.add({1: held("a")}, 10)
    clock.seconds = 9.0
    promised.renew(name, 10)
    clock.seconds = 18.0
    assert promised.find(1) == held("a")
    clock.seconds = 19.0
    with pytest.raises(ReadingOver):
        promised.renew(name, 10)
    promised.release(name)


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has run out makes room."""
    monkeypatch.setattr(pins, "PINS_MAX", 2)
    clock = Clock()
    promised = Pins(clock)
    promised.add({}, 10)
    promised.add({}, 20)
    with pytest.raises(ReadingRefused, match="2 readings"):
        promised.add({}, 10)
    clock.seconds = 10.0
    promised.add({}, 10)

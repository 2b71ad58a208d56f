"""How soon a keeper that ended badly is started again."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.admin.keeper_process import BACK_OFF_SECONDS_MAX, _Watch
from holdfast.errors import StoreFailed

INTERVAL = 2.0


def pauses(monkeypatch: pytest.MonkeyPatch, keepers: Sequence[tuple[int, int] | Exception]) -> list[float]:
    """How long it waits before each look, with keepers that end with a code after so many publications, or fail."""
    activity = SimpleNamespace(published=0)
    waited: list[float] = []

    async def is_anything_due() -> bool:
        return True

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) > len(keepers):
            raise asyncio.CancelledError

    async def run_keeper(self: _Watch) -> int:
        keeper = keepers[len(waited) - 1]
        if isinstance(keeper, Exception):
            raise keeper
        code, published = keeper
        activity.published += published
        return code

    desk = SimpleNamespace(is_anything_due=is_anything_due, activity=activity)
    settings = SimpleNamespace(keeper=SimpleNamespace(round_seconds=INTERVAL))
    agent: Any = SimpleNamespace(settings=settings, cluster=SimpleNamespace(desk=desk))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(_Watch, "_run_keeper", run_keeper)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_Watch(agent).run())
    return waited


def test_one_that_gets_nowhere_is_started_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a bound; one that leaves by itself ends that."""
    assert pauses(monkeypatch, [(1, 0), (-9, 0), (1, 0), (0, 0)]) == [2, 4, 8, 16, 2]
    assert max(pauses(monkeypatch, [(1, 0)] * 20)) == BACK_OFF_SECONDS_MAX


def test_one_that_got_somewhere_before_it_ended_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills that lie days apart, with upkeep between them, are no failures in a row."""
    assert pauses(monkeypatch, [(-9, 0), (-9, 3), (-9, 2), (-9, 0)]) == [2, 4, 2, 2, 4]


def test_one_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look fails, and all that went before it counts as it did; the server's end is none of its business."""
    failures = [
        BlockingIOError("no more processes"),
        ZeroDivisionError("a bug of ours"),
        StoreFailed("a disk"),
    ]
    assert pauses(monkeypatch, [(1, 0), *failures, (0, 0)]) == [2, 4, 4, 4, 4, 2]

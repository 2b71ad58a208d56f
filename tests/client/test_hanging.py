"""Which transactions hang: decided by ages, and by two looks where no coordinator is known."""

from collections.abc import Collection
from typing import Any

import pytest

from holdfast.client import hanging
from holdfast.client.groups import TopicPartition
from holdfast.client.hanging import TIMEOUT_MS_MAX, OpenWrite, find_hanging
from holdfast.client.transactional_ids import TransactionDescription

NOW_MS = 1_700_000_000_000
END = 10
PLACE = TopicPartition("t", 0)


def transaction(
    name: str, producer_id: int, *, age_ms: int, timeout_ms: int = 1000
) -> TransactionDescription:
    return TransactionDescription(
        name=name,
        state="Ongoing",
        producer_id=producer_id,
        producer_epoch=3,
        timeout_ms=timeout_ms,
        started_ms=NOW_MS - age_ms,
        partitions=(PLACE,),
    )


def write(producer_id: int, *, start: int = 4, age_ms: int = 0) -> OpenWrite:
    return OpenWrite(
        place=PLACE,
        producer_id=producer_id,
        producer_epoch=3,
        coordinator_epoch=-1,
        start=start,
        last_ms=NOW_MS - age_ms,
    )


class World:
    """What a cluster answers, one answer after the other; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: list[list[TransactionDescription]] = [[]]
        self.writes: list[list[OpenWrite]] = [[]]
        monkeypatch.setattr(hanging, "describe_open", lambda cluster: self._next(self.open))
        monkeypatch.setattr(hanging, "list_open_writes", self._list)
        monkeypatch.setattr(hanging, "list_offsets", lambda cluster, topic, times: dict.fromkeys(times, END))

    def find(self, longer_than_ms: int | None = None) -> list[str | None]:
        nobody: Any = None
        found = find_hanging(nobody, now_ms=NOW_MS, longer_than_ms=longer_than_ms)
        for each in found:
            assert [(held.place, held.held) for held in each.partitions] in ([], [(PLACE, END - 4)])
        return [each.name for each in found]

    def _list(self, cluster: object, places: Collection[TopicPartition] | None = None) -> list[OpenWrite]:
        return [each for each in self._next(self.writes) if places is None or each.place in places]

    def _next(self, answers: list[Any]) -> Any:
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_own_timeouts(world: World) -> None:
    """Each is held to its own timeout, or all to the one that is named; at the limit none hangs."""
    world.open = [
        [
            transaction("young", 1, age_ms=1000),
            transaction("old", 2, age_ms=1001),
            transaction("oldest", 3, age_ms=9000, timeout_ms=8000),
            transaction("patient", 4, age_ms=8000, timeout_ms=8000),
        ]
    ]
    world.writes = [[write(number) for number in range(1, 5)]]
    assert world.find() == ["oldest", "old"]
    assert world.find(longer_than_ms=8000) == ["oldest"]
    assert world.find(longer_than_ms=0) == ["oldest", "patient", "old", "young"]


def test_a_clock_that_is_behind(world: World) -> None:
    """A coordinator's clock ahead of ours makes no transaction negative, nor hanging."""
    world.open = [[transaction("future", 1, age_ms=-5000)]]
    assert world.find(longer_than_ms=0) == []


def test_nobody_coordinates_it(world: World) -> None:
    """It hangs after the longest timeout there is, or after what is named, by the time of its last batch."""
    world.writes = [[write(1, age_ms=TIMEOUT_MS_MAX + 1)]]
    assert world.find() == [None]
    world.writes = [[write(1, age_ms=TIMEOUT_MS_MAX)]]
    assert world.find() == []
    assert world.find(longer_than_ms=TIMEOUT_MS_MAX - 1) == [None]


def test_it_ended_meanwhile(world: World) -> None:
    """Open in the partition at the first look, gone at the second."""
    world.writes = [[write(1, age_ms=TIMEOUT_MS_MAX + 1)], []]
    assert world.find() == []
    world.writes = [[write(1, age_ms=TIMEOUT_MS_MAX + 1)], [write(1, start=8, age_ms=TIMEOUT_MS_MAX + 1)]]
    assert world.find() == [], "that is another one"


def test_it_began_meanwhile(world: World) -> None:
    """Unknown to its coordinator at the first look, known at the second; records may bear old times."""
    world.open = [[], [transaction("new", 1, age_ms=0)]]
    world.writes = [[write(1, age_ms=TIMEOUT_MS_MAX + 1)]]
    assert world.find() == []

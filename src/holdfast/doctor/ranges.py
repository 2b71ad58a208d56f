"""Large partitions: fingerprints of offset ranges first, and only what differs is read record by record.

A key that two replicas show differently has a record that one of them gives its readers and the other does not. So it
has one in a range whose fingerprints differ, or in the tail, where replicas were not read to the same end. In
those ranges alone keys are looked for; what all other ranges say of them is the same everywhere, and one replica tells.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from holdfast.doctor.compare import Replica, View
from holdfast.doctor.source import Source
from holdfast.doctor.tables import KeyTable, Newest, Part, Some

RANGE_OFFSETS: Final = 1 << 14

Result = TypeVar("Result")
Span = tuple[int, float]
"""From one offset up to another, or to the end of what can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prints:
    """What one replica says of each range up to `end` that has something to say."""

    end: int
    stable: int
    """How far it could be read meanwhile."""
    by_range: Mapping[int, int]


class PrintAll(Protocol):
    """Takes the fingerprints of some replicas, each in its own way."""

    def __call__(
        self, sources: Sequence[Source], start: int, end: int, *, size: int
    ) -> "Mapping[Replica, Prints | str]":
        """Those of every range between two offsets; or why a replica could not be read."""


class Each(Protocol):
    """Asks some replicas, and leaves out who fails."""

    def __call__(self, ask: Callable[[Source], Result], among: Sequence[Replica]) -> dict[Replica, Result]:
        """By replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """Where to look for keys, and where all replicas say the same."""

    spans: Sequence[Span]
    rest: Sequence[Span]
    end: int
    """Up to here all could be read when fingerprints were taken."""


def narrow(prints: Iterable[Prints], start: int, *, size: int) -> Narrowed:
    """Ranges that differ between `start` and where the first of the replicas ends, and the tail behind them."""
    prints = list(prints)
    whole = min(min(each.end, each.stable) for each in prints) // size
    tail = max(start, whole * size)
    numbers = {number for each in prints for number in each.by_range if number < whole}
    spans: list[Span] = []
    rest: list[Span] = []
    done = start
    for number in sorted(numbers):
        if len({each.by_range.get(number) for each in prints}) == 1:
            continue
        first, last = max(start, number * size), (number + 1) * size
        if first > done:
            rest.append((done, first))
        if spans and spans[-1][1] == first:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
        done = last
    if tail > done:
        rest.append((done, tail))
    end = min(each.stable for each in prints)
    return Narrowed(spans=[*spans, (tail, math.inf)], rest=rest, end=end)


def views_of(
    each: Each, names: Sequence[Replica], narrowed: Narrowed, start: int, part: Part, *, keys_max: int
) -> list[View]:
    """What each replica shows of those keys of one part that can differ at all; KeyIndexFull if they are too many."""
    tables = each(partial(newest_in, narrowed.spans, part, keys_max), names)
    keys = {key for table in tables.values() for key in table}
    candidates = {key for key in keys if len({table.get(key) for table in tables.values()}) > 1}
    elsewhere: dict[bytes, Newest] = {}
    for name in tables if candidates and narrowed.rest else ():
        # What one of them says there all of them say; another is asked only if it cannot be read any more.
        told = each(partial(newest_in, narrowed.rest, Some(candidates), math.inf), [name])
        if told:
            elsewhere = told[name]
            break
    return [
        View(
            replica=name,
            start=start,
            end=narrowed.end,
            newest={
                key: newest
                for key in candidates
                if (newest := _newer(table.get(key), elsewhere.get(key))) is not None
            },
        )
        for name, table in tables.items()
    ]


def newest_in(
    spans: Sequence[Span], wanted: Part | Some, keys_max: float, source: Source
) -> dict[bytes, Newest]:
    """The newest record that a replica shows in these spans, of every key that is wanted."""
    table = KeyTable(wanted, keys_max=keys_max)
    for start, end in spans:
        for answer in source.read(int(start)):
            table.feed(answer.batches, answer.aborted, start=int(start), end=end)
            if answer.batches and answer.batches[-1].next_offset >= end:
                break
    return table.newest


def _newer(one: Newest | None, other: Newest | None) -> Newest | None:
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda newest: newest.offset)

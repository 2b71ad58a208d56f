"""The loop of `holdfast consume`: which partitions, from where, how far, and when a group is told."""

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from holdfast.cli.position import Position, resolve
from holdfast.client.cluster import Cluster
from holdfast.client.consumer import Consumer
from holdfast.client.groups import TopicPartition, commit_group_offsets, describe_group, fetch_group_offsets
from holdfast.client.membership import Membership
from holdfast.client.offsets import Isolation
from holdfast.errors import ConnectionFailed, NonEmptyGroup
from holdfast.records.record import Record

WAIT_MS = 500
JOIN_SECONDS_MAX = 60.0
SETTLE_TRIES_MAX = 10

Portion = list[tuple[int, Record]]
"""Records with their partitions that arrived together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is read: a topic of a cluster, and where a partition begins that nobody has read yet."""

    cluster: Cluster
    topic: str
    start: Position
    isolation: Isolation

    def resolve(self, partitions: Collection[int]) -> dict[int, int]:
        """The offset to begin at, by partition."""
        if not partitions:
            return {}
        return resolve(self.cluster, self.topic, sorted(partitions), self.start, isolation=self.isolation)


class Share(Protocol):
    """The partitions that are this reader's to read."""

    def partitions(self, *, idle: bool) -> frozenset[int] | None:
        """As they are now; None while others decide. An idle reader may be kept waiting a moment."""
        ...

    def begin(self, partitions: Collection[int]) -> dict[int, int]:
        """Where to begin in partitions that are new to this reader."""
        ...

    def commit(self, positions: Mapping[int, int]) -> bool:
        """Everything below these positions is written out; False if that could not be noted just now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnShare:
    """Partitions named by the user; with a group its offsets are used and kept, without being a member."""

    source: Source
    chosen: frozenset[int]
    group: str | None = None

    def partitions(self, *, idle: bool) -> frozenset[int]:
        """Always the same."""
        return self.chosen

    def begin(self, partitions: Collection[int]) -> dict[int, int]:
        """Where the group has read to, else the start that was asked for."""
        if self.group is None:
            return self.source.resolve(partitions)
        if describe_group(self.source.cluster, self.group).is_active:
            raise NonEmptyGroup(
                f"group {self.group!r} has members: read as one of them, without --partition, or end them first"
            )
        return _committed_or_start(self.source, self.group, partitions)

    def commit(self, positions: Mapping[int, int]) -> bool:
        """Note them for the group, if there is one."""
        if self.group is not None:
            offsets = {TopicPartition(self.source.topic, each): at for each, at in positions.items()}
            commit_group_offsets(self.source.cluster, self.group, offsets)
        return True


class GroupShare:
    """Partitions that a group gives to this member, and may give to another."""

    def __init__(self, source: Source, group: str) -> None:
        self._source = source
        self._group = group
        self._membership = Membership(source.cluster, group, source.topic)
        self._deadline = time.monotonic() + JOIN_SECONDS_MAX

    def partitions(self, *, idle: bool) -> frozenset[int] | None:
        """What the last rebalance gave to this member."""
        mine = self._membership.poll(WAIT_MS if idle else 0)
        if self._membership.is_settled:
            self._deadline = time.monotonic() + JOIN_SECONDS_MAX
            return mine
        if time.monotonic() > self._deadline:
            raise ConnectionFailed(
                f"group {self._group!r} gave out no partitions for {JOIN_SECONDS_MAX:.0f} s: "
                "do its other members hold a rebalance up?"
            )
        return None

    def begin(self, partitions: Collection[int]) -> dict[int, int]:
        """Where the group has read to, else the start that was asked for."""
        return _committed_or_start(self._source, self._group, partitions)

    def commit(self, positions: Mapping[int, int]) -> bool:
        """As a member of the present generation."""
        return self._membership.commit(positions)

    def close(self) -> None:
        """Leave the group."""
        self._membership.close()


@dataclass(slots=True, kw_only=True)
class Reading:
    """Reads until `ends` (by partition; None: for ever), or until `count` records are read."""

    source: Source
    share: Share
    ends: Mapping[int, int] | None
    count: int | None
    _positions: dict[int, int] = field(default_factory=dict)
    _begun: dict[int, int] = field(default_factory=dict)
    _committed: dict[int, int] = field(default_factory=dict)

    def portions(self) -> Iterator[Portion]:
        """Records as they arrive. Asking for the next portion says that the last one is written out."""
        consumer = Consumer(self.source.cluster, self.source.topic, {}, isolation=self.source.isolation)
        left = self.count
        idle = True
        while left is None or left > 0:
            mine = self.share.partitions(idle=idle)
            self._take(mine or frozenset())
            consumer.positions = {
                each: at for each, at in self._positions.items() if not self._is_done(each, at)
            }
            if mine is not None and not consumer.positions and self.ends is not None:
                break
            portion = list(islice(self._below_ends(consumer), left))
            idle = not portion
            if portion:
                yield portion
                left = None if left is None else left - len(portion)
            self._positions |= consumer.positions
            self._commit()
        self.settle()

    def settle(self) -> None:
        """Have noted what was written out, though the group may be giving out partitions anew: nobody reads on."""
        for _ in range(SETTLE_TRIES_MAX):
            if self._commit():
                return
            mine = self.share.partitions(idle=True)
            if mine is not None:
                # Others have begun with what is theirs now.
                self._positions = {each: at for each, at in self._positions.items() if each in mine}

    def _take(self, mine: frozenset[int]) -> None:
        if mine != self._positions.keys():
            begun = self.share.begin(mine - self._positions.keys())
            self._positions = {each: at for each, at in self._positions.items() if each in mine} | begun
            self._begun = dict(self._positions)
            self._committed = {
                each: at for each, at in self._committed.items() if each in mine - begun.keys()
            }

    def _is_done(self, partition: int, position: int) -> bool:
        return self.ends is not None and position >= self.ends.get(partition, 0)

    def _below_ends(self, consumer: Consumer) -> Iterator[tuple[int, Record]]:
        for partition, record in consumer.poll(WAIT_MS):
            assert record.offset is not None
            if not self._is_done(partition, record.offset):
                yield partition, record

    def _commit(self) -> bool:
        """Whether all is noted; not past the end that was asked for, though more may have come with the last fetch.

        Where a partition begins is noted too, though nothing was read of it: the group goes on from there.
        """
        reached = {
            each: at if self.ends is None else min(at, max(self.ends.get(each, 0), self._begun[each]))
            for each, at in self._positions.items()
        }
        moved = {each: at for each, at in reached.items() if at != self._committed.get(each)}
        if moved and not self.share.commit(moved):
            return False
        self._committed |= moved
        return True


def _committed_or_start(source: Source, group: str, partitions: Collection[int]) -> dict[int, int]:
    known = fetch_group_offsets(source.cluster, group)
    found = {
        place.partition: at
        for place, at in known.items()
        if place.topic == source.topic and place.partition in partitions
    }
    return source.resolve(set(partitions) - found.keys()) | found

"""A control plane in plain dicts: what every implementation has to do, in the fewest words.

It forgets all with its process. Tests use it where no restart is asked for, and the contract suite holds the
SQLite one to it.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from holdfast.control.memory_apply import FrameApplier, PartitionRow, State, StoreRow, drop_store
from holdfast.control.plane import (
    EXTENTS_PER_PLAN_MAX,
    Extent,
    GroupOffset,
    ListedGroup,
    LogBounds,
    OpenInstance,
    Partition,
    Topic,
)
from holdfast.errors import CommitRefused, UnknownTopicOrPartition
from holdfast.rules.lso import last_stable_offset
from holdfast.rules.producer import ProducerState
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import Change, GroupSaved
from holdfast.store.store import Checkpoint, StoredFrame


class MemoryControlPlane:
    """Implements `ControlPlane`; see the contract there.

    A writer changes a copy of the state and puts it in the place of the old one at the end; a verb that reads
    looks at `_state` once, and has its snapshot.
    """

    def __init__(self) -> None:
        self._state = State()
        self._writing = threading.Lock()

    def apply(
        self, frames: Sequence[StoredFrame], changes: Sequence[Change], *, lost: Sequence[int] = ()
    ) -> None:
        """Record one frame, or only that it was refused."""
        with self._writing:
            if frames[0].number <= self._state.applied:
                return
            before = self._state.copy()
            for store in lost:
                drop_store(before, store)
            after, refusal = before.copy(), None
            try:
                FrameApplier(after).apply(frames, changes)
            except CommitRefused as refused:
                after, refusal = before, refused
            after.applied = frames[0].number
            for frame in frames:
                if frame.store in after.stores:
                    row = after.stores[frame.store]
                    after.stores[frame.store] = replace(row, checkpoint=frame.checkpoint)
            self._state = after
        if refusal is not None:
            raise refusal

    def trim(self, rows_max: int) -> int:
        """Forget extents below a log start, then what deleted topics left behind."""
        with self._writing:
            state, left = self._state.copy(), rows_max
            for key, row in state.partitions.items():
                expired = sum(extent.last < row.start for extent in row.extents)
                trimmed = min(expired, left)
                state.partitions[key] = replace(row, extents=row.extents[trimmed:])
                left -= trimmed
            for group in sorted(state.unseen, key=lambda group: (group is not None, group or "")):
                trimmed = min(state.unseen[group], left)
                state.unseen[group] -= trimmed
                left -= trimmed
            self._state = state
            return rows_max - left

    def add_store(self, store: int) -> None:
        """Make a store known."""
        with self._writing:
            state = self._state.copy()
            state.stores.setdefault(store, StoreRow())
            self._state = state

    def drop_stores(self, stores: Sequence[int]) -> None:
        """The stores are in sync no longer."""
        with self._writing:
            state = self._state.copy()
            for store in stores:
                drop_store(state, store)
            self._state = state

    def find_in_sync(self) -> frozenset[int]:
        """The stores that have every frame."""
        return frozenset(store for store, row in self._state.stores.items() if row.in_sync)

    def find_applied(self) -> int:
        """The number of the last frame applied."""
        return self._state.applied

    def find_checkpoint(self, store: int) -> Checkpoint | None:
        """The last frame applied that lies on the store."""
        return self._state.stores.get(store, StoreRow()).checkpoint

    def list_topics(self) -> list[Topic]:
        """All topics by name."""
        state = self._state
        topics = [
            Topic(
                topic_id=topic_id,
                name=row.name,
                partitions=tuple(
                    state.partitions[key].partition for key in sorted(state.partitions) if key[0] == topic_id
                ),
                configs=dict(row.configs),
            )
            for topic_id, row in state.topics.items()
        ]
        return sorted(topics, key=lambda topic: topic.name)

    def find_partition(self, topic_id: UUID, partition: int) -> Partition:
        """Who holds and who leads it."""
        return _get_partition(self._state, topic_id, partition).partition

    def find_bounds(self, topic_id: UUID, partition: int) -> LogBounds:
        """Where the partition's log begins and ends."""
        state = self._state
        return _bounds(state, _get_partition(state, topic_id, partition))

    def find_size(self, topic_id: UUID, partition: int) -> int:
        """Bytes of the extents that reach to the log start."""
        row = self._state.partitions.get((topic_id, partition))
        return 0 if row is None else sum(extent.length_bytes for extent in _extents_from(row, row.start))

    def find_extents(
        self, topic_id: UUID, partition: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Extent]]:
        """Bounds and extents from `offset` on, in one snapshot."""
        state = self._state
        row = _get_partition(state, topic_id, partition)
        extents: list[Extent] = []
        if row.start <= offset < row.end:
            for extent in _extents_from(row, offset):
                extents.append(_with_outcome(state, extent))
                bytes_max -= extent.length_bytes
                if bytes_max <= 0 or len(extents) == EXTENTS_PER_PLAN_MAX:
                    break
        return _bounds(state, row), extents

    def find_extent_by_time(
        self, topic_id: UUID, partition: int, offset: int, timestamp_ms: int
    ) -> Extent | None:
        """The first extent that holds a record at or after the time."""
        state = self._state
        extents = _extents_from(_get_partition(state, topic_id, partition), offset)
        found = next((extent for extent in extents if extent.max_timestamp >= timestamp_ms), None)
        return found and _with_outcome(state, found)

    def find_extent_of_max_time(self, topic_id: UUID, partition: int, offset: int) -> Extent | None:
        """The first extent that holds the greatest timestamp."""
        state = self._state
        extents = _extents_from(_get_partition(state, topic_id, partition), offset)
        # Of equals, max() takes the first.
        found = max(extents, key=lambda extent: extent.max_timestamp, default=None)
        return found and _with_outcome(state, found)

    def find_epoch_end(self, topic_id: UUID, partition: int, leader_epoch: int) -> tuple[int, int]:
        """The greatest epoch up to the one asked for, and where it ended."""
        row = _get_partition(self._state, topic_id, partition)
        end = row.end
        for epoch, start in reversed(row.epochs):
            if epoch <= leader_epoch:
                return epoch, end
            end = start
        return -1, -1

    def find_producers(self, topic_id: UUID, partition: int) -> dict[int, ProducerState]:
        """Idempotent producers of the partition by producer id."""
        producers = self._state.producers
        return {key[2]: state for key, state in producers.items() if key[:2] == (topic_id, partition)}

    def find_open_instances(self, topic_id: UUID, partition: int) -> dict[int, OpenInstance]:
        """The transaction instances that are open in the partition, by producer id."""
        state = self._state
        row = state.partitions.get((topic_id, partition))
        joined = row.joined if row else ()
        return {
            state.instances[each.instance].producer_id: each
            for each in joined
            if state.is_open(each.instance)
        }

    def find_transactional_id(self, transactional_id: str) -> TransactionalId | None:
        """A transactional id as it stands."""
        return self._state.transactional_ids.get(transactional_id)

    def list_transactional_ids(self) -> dict[str, TransactionalId]:
        """All transactional ids by name."""
        return dict(sorted(self._state.transactional_ids.items()))

    def find_next_instance(self) -> int:
        """The number that the next transaction instance gets."""
        return max(self._state.instances, default=0) + 1

    def find_instance_partitions(self, instance: int) -> list[tuple[UUID, int, int]]:
        """Where an open instance has data, by topic and partition."""
        state = self._state
        found = [
            (topic_id, partition, each.first_offset)
            for (topic_id, partition), row in state.partitions.items()
            for each in row.joined
            if each.instance == instance and state.is_open(instance)
        ]
        return sorted(found, key=lambda place: (state.topics[place[0]].name, place[1]))

    def find_staged(self, group: str) -> set[tuple[UUID, int]]:
        """Partitions for which open transactions have staged positions of a group."""
        return {(topic_id, partition) for name, topic_id, partition, _ in self._state.staged if name == group}

    def find_next_producer_id(self) -> int:
        """First producer id not yet allotted."""
        return self._state.next_producer_id

    def find_group_offsets(self, group: str) -> list[GroupOffset]:
        """All positions that a group has committed, by topic and partition."""
        state = self._state
        positions = [position for key, position in state.group_offsets.items() if key[0] == group]
        return sorted(
            positions, key=lambda position: (state.topics[position.topic_id].name, position.partition)
        )

    def find_stale_groups(self, before_ms: int) -> list[str]:
        """Groups with an old position, and those with nothing at all."""
        state = self._state
        with_positions = {group for group, _, _ in state.group_offsets}
        old = {key[0] for key, position in state.group_offsets.items() if position.committed_ms <= before_ms}
        empty = {group for group, saved in state.groups.items() if not saved.members} - with_positions
        return sorted(old | empty)

    def find_group(self, group: str) -> GroupSaved | None:
        """A group as its last rebalance left it."""
        return self._state.groups.get(group)

    def list_groups(self) -> list[ListedGroup]:
        """All groups by name, those included that only have positions."""
        state = self._state
        listed = {
            group: ListedGroup(group=group, protocol_type="", members=0)
            for group, _, _ in state.group_offsets
        }
        for group, saved in state.groups.items():
            listed[group] = ListedGroup(
                group=group, protocol_type=saved.protocol_type, members=len(saved.members)
            )
        return [listed[group] for group in sorted(listed)]

    def close(self) -> None:
        """There is nothing to let go of."""


def _get_partition(state: State, topic_id: UUID, partition: int) -> PartitionRow:
    row = state.partitions.get((topic_id, partition))
    if row is None:
        raise UnknownTopicOrPartition(f"no partition {partition} of topic {topic_id}")
    return row


def _bounds(state: State, row: PartitionRow) -> LogBounds:
    first_open = next((each.first_offset for each in row.joined if state.is_open(each.instance)), None)
    return LogBounds(
        start=row.start,
        end=row.end,
        last_stable=max(last_stable_offset(row.end, first_open), row.start),
        leader_epoch=row.partition.leader_epoch,
    )


def _with_outcome(state: State, extent: Extent) -> Extent:
    instance = state.instances.get(extent.instance)
    return extent if instance is None else replace(extent, outcome=instance.outcome)


def _extents_from(row: PartitionRow, offset: int) -> Iterator[Extent]:
    """The extents from the one that holds `offset` on."""
    return (extent for extent in row.extents if extent.last >= offset)

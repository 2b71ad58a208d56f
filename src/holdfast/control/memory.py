"""A control plane in plain dicts: what every implementation has to do, in the fewest words.

It forgets all with its process. Tests use it where no restart is asked for, and the contract suite holds the
SQLite one to it.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from holdfast.control import memory_log
from holdfast.control.memory_apply import FrameApplier
from holdfast.control.memory_replicas import add_store, find_begun, lose_store
from holdfast.control.memory_state import State
from holdfast.control.memory_trim import trim
from holdfast.control.plane import (
    Extent,
    GroupOffset,
    ListedGroup,
    LogBounds,
    OpenInstance,
    Partition,
    Topic,
)
from holdfast.control.replicas import PartitionRemoval, Segment, StorePhase, StoreState
from holdfast.errors import CommitRefused, NotLeaderOrFollower, UnknownTopicOrPartition
from holdfast.rules.producer import ProducerState
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.durable import write_file
from holdfast.store.footer import Change, GroupSaved
from holdfast.store.replica_changes import HeldTo
from holdfast.store.store import CARRIED, Checkpoint, StoredFrame


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
            after, refusal = self._state.copy(), None
            try:
                FrameApplier(after).apply(frames, changes)
            except CommitRefused as refused:
                after, refusal = self._state.copy(), refused
            # After the changes, which must find the store as a replay will: that knows of no loss.
            begun = {} if refusal else find_begun(changes)
            for store in lost:
                lose_store(after, store, begun)
            after.applied = frames[0].number
            for frame in frames:
                if frame.store in after.stores:
                    row = after.stores[frame.store]
                    after.stores[frame.store] = replace(row, checkpoint=frame.checkpoint)
            self._state = after
        if refusal is not None:
            raise refusal

    def rehearse(self, changes: Sequence[Change]) -> None:
        """Whether the changes would be taken."""
        FrameApplier(self._state.copy()).apply([], changes)

    def trim(self, rows_max: int) -> int:
        """Forget extents that nobody asks about, then what deleted topics left behind."""
        with self._writing:
            state = self._state.copy()
            trimmed = trim(state, rows_max)
            self._state = state
            return trimmed

    def add_store(self, store: int) -> None:
        """Make a store known."""
        with self._writing:
            state = self._state.copy()
            add_store(state, store)
            self._state = state

    def drop_stores(self, stores: Sequence[int]) -> None:
        """The stores are in sync no longer."""
        with self._writing:
            state = self._state.copy()
            for store in stores:
                lose_store(state, store, None)
            self._state = state

    def list_stores(self) -> list[StoreState]:
        """All stores by number."""
        return [
            StoreState(
                store=store,
                incarnation=row.kept.incarnation,
                lease=row.kept.lease,
                phase=row.kept.phase,
                checkpoint=row.checkpoint,
            )
            for store, row in sorted(self._state.stores.items())
        ]

    def find_in_sync(self) -> frozenset[int]:
        """The stores that have every frame."""
        stores = self._state.stores
        return frozenset(store for store, row in stores.items() if row.kept.phase is StorePhase.IN_SYNC)

    def find_applied(self) -> int:
        """The number of the last frame applied."""
        return self._state.applied

    def find_checkpoint(self, store: int) -> Checkpoint | None:
        """The last frame applied that lies on the store."""
        row = self._state.stores.get(store)
        return None if row is None else row.checkpoint

    def list_topics(self) -> list[Topic]:
        """All topics by name."""
        state = self._state
        topics = [
            Topic(
                topic_id=topic_id,
                name=row.name,
                partitions=tuple(
                    memory_log.describe(state.partitions[key])
                    for key in sorted(state.partitions)
                    if key[0] == topic_id
                ),
                configs=dict(row.configs),
            )
            for topic_id, row in state.topics.items()
        ]
        return sorted(topics, key=lambda topic: topic.name)

    def find_partition(self, topic_id: UUID, partition: int) -> Partition:
        """Who holds and who leads it."""
        return memory_log.describe(memory_log.get_partition(self._state, topic_id, partition))

    def find_bounds(self, topic_id: UUID, partition: int) -> LogBounds:
        """Where the partition's log begins and ends."""
        state = self._state
        return state.bounds(memory_log.get_partition(state, topic_id, partition))

    def find_size(self, topic_id: UUID, partition: int, store: int) -> int:
        """Bytes of the pieces on the store that reach to the log start."""
        try:
            row = memory_log.get_served(self._state, topic_id, partition, store)
        except (UnknownTopicOrPartition, NotLeaderOrFollower):
            return 0
        return sum(piece.length_bytes for piece in memory_log.kept_from(row, store, row.start))

    def find_extents(
        self, topic_id: UUID, partition: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Extent]]:
        """Bounds and extents from `offset` on, in one snapshot."""
        state = self._state
        row = memory_log.get_partition(state, topic_id, partition)
        return state.bounds(row), memory_log.find_extents(state, row, offset, bytes_max)

    def find_pieces(
        self, topic_id: UUID, partition: int, store: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Segment | Extent]]:
        """Bounds, segments and extents from `offset` on, in one snapshot."""
        state = self._state
        row = memory_log.get_served(state, topic_id, partition, store)
        return state.bounds(row), memory_log.find_pieces(state, row, store, offset, bytes_max)

    def find_logs(
        self, wanted: Sequence[tuple[UUID, int, int]], extents_max: int
    ) -> list[tuple[LogBounds, list[Segment | Extent]]]:
        """All of several replicas at one moment."""
        return memory_log.find_logs(self._state, wanted, extents_max)

    def find_extent_by_time(
        self, topic_id: UUID, partition: int, store: int, offset: int, timestamp_ms: int
    ) -> Segment | Extent | None:
        """The first piece that holds a record at or after the time."""
        state = self._state
        row = memory_log.get_served(state, topic_id, partition, store)
        pieces = memory_log.kept_from(row, store, offset)
        found = next((piece for piece in pieces if piece.max_timestamp >= timestamp_ms), None)
        return memory_log.show(state, row, found) if isinstance(found, Extent) else found

    def find_extent_of_max_time(
        self, topic_id: UUID, partition: int, store: int, offset: int
    ) -> Segment | Extent | None:
        """The first piece that holds the greatest timestamp."""
        state = self._state
        row = memory_log.get_served(state, topic_id, partition, store)
        # Of equals, max() takes the first.
        pieces = memory_log.kept_from(row, store, offset)
        found = max(pieces, key=lambda piece: piece.max_timestamp, default=None)
        return memory_log.show(state, row, found) if isinstance(found, Extent) else found

    def find_segments(self, topic_id: UUID, partition: int, store: int, offset: int = 0) -> list[Segment]:
        """The segments of a partition on a store."""
        row = self._state.partitions.get((topic_id, partition))
        return [] if row is None else memory_log.segments_from(row, store, offset)

    def find_removal(self, topic_id: UUID, partition: int) -> PartitionRemoval:
        """How far each member is clean and how far the group may forget."""
        state = self._state
        return memory_log.find_removal(state, memory_log.get_partition(state, topic_id, partition))

    def find_held(self, topic_id: UUID, partition: int, store: int) -> int:
        """What the store holds of the partition."""
        row = memory_log.get_partition(self._state, topic_id, partition)
        if store not in row.replicas:
            raise NotLeaderOrFollower(f"store {store} does not hold partition {partition} of {topic_id}")
        return row.replicas[store].held(row.start, row.end)

    def list_behind(self, store: int) -> list[HeldTo]:
        """The partitions of which a store lacks something."""
        return memory_log.list_behind(self._state, store)

    def list_files(self, store: int) -> set[str]:
        """Every segment file on the store that is in use."""
        rows = self._state.partitions.values()
        return {segment.file for row in rows for segment in row.segments.get(store, ())}

    def find_oldest_journal(self, store: int) -> int | None:
        """The lowest number of a file of extents that is in use on the store."""
        return min(memory_log.files_of_extents(self._state, store), default=None)

    def find_carried(self, store: int) -> set[int]:
        """The carried files on the store that are in use."""
        return {number for number in memory_log.files_of_extents(self._state, store) if number >= CARRIED}

    def snapshot(self, path: Path) -> int:
        """Write all of it to a file, for people: nobody reads it in again."""
        state = self._state
        write_file(path, repr(state))
        return state.applied

    def find_elapsed(self) -> int:
        """What the grace clock had counted."""
        return self._state.elapsed_ms

    def save_elapsed(self, elapsed_ms: int) -> None:
        """Keep what the grace clock has counted."""
        with self._writing:
            state = self._state.copy()
            state.elapsed_ms = max(state.elapsed_ms, elapsed_ms)
            self._state = state

    def find_epoch_end(self, topic_id: UUID, partition: int, leader_epoch: int) -> tuple[int, int]:
        """The greatest epoch up to the one asked for, and where it ended."""
        row = memory_log.get_partition(self._state, topic_id, partition)
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
        return self._state.next_instance

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

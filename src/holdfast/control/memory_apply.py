"""The writing half of the in-memory control plane: what each change does, and when it no longer fits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from holdfast.control.memory_replicas import ReplicaApplier
from holdfast.control.memory_state import InstanceRow, PartitionRow, State, TopicRow
from holdfast.control.plane import Extent, GroupOffset, OpenInstance, Partition
from holdfast.control.replica_rules import founding
from holdfast.errors import CommitRefused, KafkaRefusal
from holdfast.rules.producer import WrittenBatch, append_batch, check_batch
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.transactional_id import Phase, TransactionalId
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupDeleted,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupOffsetStaged,
    GroupSaved,
    LeaderMoved,
    LogStartMoved,
    PartitionsAdded,
    ProducerAdvanced,
    ProducerIdsAllotted,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
    extents_on,
)
from holdfast.store.store import Place, StoredFrame

Places = dict[int, dict[int, Place]]
"""Where an extent lies, by store, by the identity of the extent's change."""


class FrameApplier:
    """Applies a footer to `state`, each change checked against those before it; a refusal leaves it half done."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._places: Places = {}
        self._appliers: dict[type[Change], Callable[[Any], None]] = {
            TopicCreated: self._create_topic,
            TopicDeleted: self._delete_topic,
            PartitionsAdded: self._add_partitions,
            TopicConfigured: self._configure_topic,
            LogStartMoved: self._move_log_start,
            ExtentAppended: self._append_extent,
            ProducerAdvanced: self._advance_producer,
            ProducerIdsAllotted: self._allot_producer_ids,
            GroupOffsetCommitted: self._commit_group_offset,
            GroupOffsetDeleted: self._delete_group_offset,
            GroupSaved: self._save_group,
            GroupDeleted: self._delete_group,
            TransactionalIdSet: self._set_transactional_id,
            TransactionBegun: self._begin_transaction,
            TransactionEnded: self._end_transaction,
            GroupOffsetStaged: self._stage_group_offset,
            LeaderMoved: self._move_leader,
        }
        self._appliers |= ReplicaApplier(state).appliers

    def apply(self, frames: Sequence[StoredFrame], changes: Sequence[Change]) -> None:
        """All changes; CommitRefused at the first that does not fit."""
        self._places = _places(frames, changes)
        for change in changes:
            self._appliers[type(change)](change)

    def _get_topic(self, topic_id: UUID) -> TopicRow:
        topic = self._state.topics.get(topic_id)
        if topic is None:
            raise CommitRefused(f"topic {topic_id} does not exist")
        return topic

    def _find_partition(self, topic_id: UUID, partition: int) -> PartitionRow | None:
        self._get_topic(topic_id)
        return self._state.partitions.get((topic_id, partition))

    def _create_topic(self, change: TopicCreated) -> None:
        names = (topic.name for topic in self._state.topics.values())
        if change.topic_id in self._state.topics or change.name in names:
            raise CommitRefused(f"topic {change.name!r} exists")
        self._state.topics[change.topic_id] = TopicRow(name=change.name, configs=dict(change.configs))
        self._insert_partitions(change.topic_id, 0, change.replicas)

    def _delete_topic(self, change: TopicDeleted) -> None:
        """Out of sight at once; what it leaves behind is only counted."""
        state = self._state
        self._get_topic(change.topic_id)
        del state.topics[change.topic_id]
        for key in [key for key in state.partitions if key[0] == change.topic_id]:
            row = state.partitions.pop(key)
            state.unseen[None] += len(row.extents) + len(row.epochs) + sum(map(len, row.segments.values()))
        for producer in [key for key in state.producers if key[0] == change.topic_id]:
            del state.producers[producer]
            state.unseen[None] += 1
        for staged in [key for key in state.staged if key[1] == change.topic_id]:
            del state.staged[staged]
        for position in [key for key in state.group_offsets if key[1] == change.topic_id]:
            del state.group_offsets[position]
            state.unseen[position[0]] += 1

    def _add_partitions(self, change: PartitionsAdded) -> None:
        self._get_topic(change.topic_id)
        count = sum(topic_id == change.topic_id for topic_id, _ in self._state.partitions)
        if count != change.first:
            raise CommitRefused(f"{change.topic_id} has {count} partitions, not {change.first}")
        self._insert_partitions(change.topic_id, change.first, change.replicas)

    def _insert_partitions(self, topic_id: UUID, first: int, replicas: list[list[int]]) -> None:
        for number, stores in enumerate(replicas, first):
            partition = Partition(replicas=tuple(stores), leader=stores[0], leader_epoch=0)
            self._state.partitions[topic_id, number] = PartitionRow(
                partition=partition,
                replicas={store: founding(self._state.phase(store)) for store in stores},
            )

    def _configure_topic(self, change: TopicConfigured) -> None:
        topic = self._get_topic(change.topic_id)
        self._state.topics[change.topic_id] = replace(topic, configs=dict(change.configs))

    def _move_log_start(self, change: LogStartMoved) -> None:
        """Forward, and never past the end."""
        row = self._find_partition(change.topic_id, change.partition)
        if row is None or row.end < change.log_start:
            raise CommitRefused(f"{change.topic_id}/{change.partition} ends below {change.log_start}")
        start = max(row.start, change.log_start)
        segments = {
            store: tuple(segment for segment in held if segment.end > start)
            for store, held in row.segments.items()
        }
        self._state.partitions[change.topic_id, change.partition] = replace(
            row, start=start, segments=segments
        )

    def _append_extent(self, change: ExtentAppended) -> None:
        row = self._find_partition(change.topic_id, change.partition)
        if row is None or (row.end, row.partition.leader_epoch) != (change.first, change.leader_epoch):
            raise CommitRefused(f"{change.topic_id}/{change.partition} does not end at {change.first}")
        joined = row.joined
        if change.instance != NO_INSTANCE:
            self._check_open(change.instance)
            if change.instance not in (each.instance for each in joined):
                joined += (OpenInstance(instance=change.instance, first_offset=change.first),)
        extent = Extent(
            first=change.first,
            last=change.last,
            places=self._places[id(change)],
            length_bytes=change.length_bytes,
            max_timestamp=change.max_timestamp,
            instance=change.instance,
            first_timestamp=change.first_timestamp,
        )
        self._state.partitions[change.topic_id, change.partition] = replace(
            row, end=change.last + 1, extents=(*row.extents, extent), joined=joined
        )

    def _move_leader(self, change: LeaderMoved) -> None:
        """To the next epoch, which begins where the log ends."""
        row = self._find_partition(change.topic_id, change.partition)
        if row is None or row.partition.leader_epoch != change.leader_epoch - 1:
            raise CommitRefused(
                f"{change.topic_id}/{change.partition} is past epoch {change.leader_epoch - 1}"
            )
        self._state.partitions[change.topic_id, change.partition] = replace(
            row,
            partition=replace(row.partition, leader=change.leader, leader_epoch=change.leader_epoch),
            epochs=(*row.epochs, (change.leader_epoch, row.end)),
        )

    def _advance_producer(self, change: ProducerAdvanced) -> None:
        self._get_topic(change.topic_id)
        key = (change.topic_id, change.partition, change.producer_id)
        state = self._state.producers.get(key)
        first, last = change.first_sequence, change.last_sequence
        try:
            repeated = check_batch(
                state, epoch=change.producer_epoch, first_sequence=first, last_sequence=last
            )
        except KafkaRefusal as refusal:
            raise CommitRefused(f"producer {change.producer_id}: {refusal}") from refusal
        if repeated is not None:
            raise CommitRefused(f"producer {change.producer_id} repeats sequence {first}")
        batch = WrittenBatch(
            first_sequence=first,
            last_sequence=last,
            first_offset=change.first_offset,
            last_offset=change.last_offset,
            timestamp_ms=change.timestamp_ms,
        )
        self._state.producers[key] = append_batch(state, epoch=change.producer_epoch, batch=batch)

    def _allot_producer_ids(self, change: ProducerIdsAllotted) -> None:
        self._state.next_producer_id = max(self._state.next_producer_id, change.next_id)

    def _commit_group_offset(self, change: GroupOffsetCommitted) -> None:
        key = (change.group, change.topic_id, change.partition)
        self._state.group_offsets[key] = self._position(change, change.committed_ms)
        self._state.staged |= dict.fromkeys(each for each in self._state.staged if each[:3] == key)

    def _position(self, change: GroupOffsetCommitted | GroupOffsetStaged, committed_ms: int) -> GroupOffset:
        return GroupOffset(
            topic_id=change.topic_id,
            topic=self._get_topic(change.topic_id).name,
            partition=change.partition,
            offset=change.offset,
            leader_epoch=change.leader_epoch,
            metadata=change.metadata,
            committed_ms=committed_ms,
        )

    def _delete_group_offset(self, change: GroupOffsetDeleted) -> None:
        position = (change.group, change.topic_id, change.partition)
        self._state.group_offsets.pop(position, None)
        for staged in [key for key in self._state.staged if key[:3] == position]:
            del self._state.staged[staged]

    def _save_group(self, change: GroupSaved) -> None:
        saved = self._state.groups.get(change.group)
        if saved is not None and saved.generation > change.generation:
            raise CommitRefused(f"group {change.group!r} is past generation {change.generation}")
        self._state.groups[change.group] = change

    def _delete_group(self, change: GroupDeleted) -> None:
        self._state.groups.pop(change.group, None)
        self._state.unseen.pop(change.group, None)
        for key in [key for key in self._state.group_offsets if key[0] == change.group]:
            del self._state.group_offsets[key]
        for staged in [key for key in self._state.staged if key[0] == change.group]:
            del self._state.staged[staged]

    def _set_transactional_id(self, change: TransactionalIdSet) -> None:
        """Another state, if the one before is what the commit was planned on."""
        before = self._state.transactional_ids.get(change.transactional_id)
        known = (0, NO_INSTANCE) if before is None else (before.turn, before.instance)
        if known != (change.turn_before, change.instance_before):
            raise CommitRefused(f"transactional id {change.transactional_id!r} has moved on")
        self._state.transactional_ids[change.transactional_id] = TransactionalId(
            producer_id=change.producer_id,
            epoch=change.producer_epoch,
            timeout_ms=change.timeout_ms,
            phase=Phase(change.phase),
            instance=change.instance,
            turn=change.turn,
            previous_producer_id=change.previous_producer_id,
            previous_epoch=change.previous_epoch,
            started_ms=change.started_ms,
        )

    def _begin_transaction(self, change: TransactionBegun) -> None:
        if change.instance < self._state.next_instance:
            raise CommitRefused(f"transaction instance {change.instance} has begun already")
        self._state.next_instance = change.instance + 1
        self._state.instances[change.instance] = InstanceRow(producer_id=change.producer_id)

    def _end_transaction(self, change: TransactionEnded) -> None:
        """Decide it, and publish what it staged if it is committed."""
        state = self._state
        self._check_open(change.instance)
        outcome = Outcome.COMMITTED if change.committed else Outcome.ABORTED
        state.instances[change.instance] = replace(state.instances[change.instance], outcome=outcome)
        for key in [key for key in state.staged if key[3] == change.instance]:
            if change.committed:
                self._publish(key, change.ended_ms)
            del state.staged[key]

    def _publish(self, staged: tuple[str, UUID, int, int], ended_ms: int) -> None:
        """What was staged before is older from now on, whenever it is decided."""
        state = self._state
        position = state.staged[staged]
        if position is not None:
            state.group_offsets[staged[:3]] = replace(position, committed_ms=ended_ms)
        for key in state.staged:
            if key == staged:
                break
            if key[:3] == staged[:3]:
                state.staged[key] = None

    def _stage_group_offset(self, change: GroupOffsetStaged) -> None:
        self._check_open(change.instance)
        key = (change.group, change.topic_id, change.partition, change.instance)
        self._state.staged.pop(key, None)
        self._state.staged[key] = self._position(change, -1)

    def _check_open(self, instance: int) -> None:
        if not self._state.is_open(instance):
            raise CommitRefused(f"transaction instance {instance} is not open")


def _places(frames: Sequence[StoredFrame], changes: Sequence[Change]) -> Places:
    """Where each extent lies on the stores that have the frame."""
    places: Places = {id(change): {} for change in changes if isinstance(change, ExtentAppended)}
    for frame in frames:
        for position, extent in extents_on(changes, frame.store):
            place = Place(journal=frame.body.journal, position=frame.body.position + position)
            places[id(extent)][frame.store] = place
    return places

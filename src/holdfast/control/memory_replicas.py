"""Stores and replicas in the in-memory control plane: what changes do to their rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from holdfast.control.memory_state import PartitionRow, State, StoreRow
from holdfast.control.plane import Extent
from holdfast.control.replica_rules import KeptReplica, KeptStore, check_assignment, publish
from holdfast.control.replicas import Grant, Segment, StorePhase
from holdfast.errors import CommitRefused
from holdfast.store.footer import Change, ExtentAppended
from holdfast.store.replica_changes import (
    NO_TIME,
    ExtentsCarried,
    KeeperLeased,
    ReplicasAssigned,
    SegmentsPublished,
    StoreAdded,
    StoreFenced,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from holdfast.store.store import Place

Key = tuple[UUID, int]


class ReplicaApplier:
    """Applies to `state` what a frame says of stores; a refusal leaves it half done."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.appliers: dict[type[Change], Callable[[Any], None]] = {
            KeeperLeased: self._lease,
            SegmentsPublished: self._publish,
            ExtentsCarried: self._carry,
            StoreAdded: lambda change: add_store(state, change.store),
            StoreLeft: self._leave,
            StoreJoining: self._come,
            StoreJoined: self._join,
            StoreFenced: self._fence,
            StoreRebuilt: self._rebuild,
            ReplicasAssigned: self._assign,
        }

    def _get_store(self, store: int) -> KeptStore:
        if store not in self._state.stores:
            raise CommitRefused(f"there is no store {store}")
        return self._state.stores[store].kept

    def _get_partition(self, topic_id: UUID, partition: int) -> PartitionRow | None:
        if topic_id not in self._state.topics:
            raise CommitRefused(f"topic {topic_id} does not exist")
        return self._state.partitions.get((topic_id, partition))

    def _lease(self, change: KeeperLeased) -> None:
        put_store(self._state, self._get_store(change.store).leased(change.lease))

    def _publish(self, change: SegmentsPublished) -> None:
        row, store = self._get_partition(change.topic_id, change.partition), self._get_store(change.store)
        if row is None or change.store not in row.replicas:
            raise CommitRefused(f"store {change.store} does not hold {change.topic_id}/{change.partition}")
        segments = row.segments.get(change.store, ())
        replica = publish(
            change,
            store=store,
            replica=row.replicas[change.store],
            group=row.group,
            bounds=self._state.bounds(row),
            present={segment.file: (segment.first, segment.end) for segment in segments},
        )
        kept = [segment for segment in segments if segment.file not in change.removed]
        grant = Grant(lineage=change.lineage, **change.grant._asdict())
        kept += [Segment(**segment._asdict(), grant=grant) for segment in change.added]
        self._state.partitions[change.topic_id, change.partition] = replace(
            row,
            replicas={**row.replicas, change.store: replica},
            segments={**row.segments, change.store: tuple(sorted(kept, key=lambda each: each.first))},
        )
        self._recompute((change.topic_id, change.partition), change.at_ms)
        self._state.elapsed_ms = max(self._state.elapsed_ms, change.at_ms)

    def _carry(self, change: ExtentsCarried) -> None:
        """A joining replica holds what follows without a hole; what has been trimmed is not looked for."""
        self._get_store(change.store).check_writer(change.incarnation, change.lease)
        carried: dict[Key, dict[int, Place]] = {}
        for topic_id, partition, last, position in change.extents:
            row = self._get_partition(topic_id, partition)
            if row is None or last >= row.end or change.store not in row.replicas:
                raise CommitRefused(
                    f"{topic_id}/{partition} has no extent up to {last} for store {change.store}"
                )
            places = carried.setdefault((topic_id, partition), {})
            places[last] = Place(journal=change.file, position=position)
        for key, places in carried.items():
            row = self._state.partitions[key]
            moved = [(extent.first, extent.last) for extent in row.extents if extent.last in places]
            replica = row.replicas[change.store].carried(row.start, moved)
            extents = (
                _with_place(extent, change.store, places[extent.last]) if extent.last in places else extent
                for extent in row.extents
            )
            self._state.partitions[key] = replace(
                row, extents=tuple(extents), replicas={**row.replicas, change.store: replica}
            )

    def _leave(self, change: StoreLeft) -> None:
        """What it holds is what the frame says, and all of the partitions that it does not name."""
        state = self._state
        row = state.stores.get(change.store)
        if row is None or row.kept.phase is StorePhase.FENCED:
            return
        if change.held is None:
            lose_store(state, change.store, None)
        else:
            said = {(topic_id, partition): held_to for topic_id, partition, held_to in change.held}
            for key, partition, replica in _on_store(state, change.store):
                left = replica.left_with(said.get(key), partition.start, partition.end, row.kept.phase)
                _put(state, key, change.store, left)
        put_store(state, replace(row.kept, phase=StorePhase.AWAY))

    def _come(self, change: StoreJoining) -> None:
        put_store(self._state, self._get_store(change.store).came(change.incarnation))
        for key, row, replica in _on_store(self._state, change.store):
            _put(self._state, key, change.store, replica.came(row.end))

    def _join(self, change: StoreJoined) -> None:
        replicas = list(_on_store(self._state, change.store))
        behind = sum(replica.held(row.start, row.end) < row.end for _, row, replica in replicas)
        put_store(self._state, self._get_store(change.store).joined(behind))
        for key, _, replica in replicas:
            _put(self._state, key, change.store, replica.joined())

    def _fence(self, change: StoreFenced) -> None:
        put_store(self._state, self._get_store(change.store).fenced())
        for key, row, replica in _on_store(self._state, change.store):
            _put(self._state, key, change.store, replica.left(replica.held(row.start, row.end)))
            self._recompute(key, change.at_ms, regroup=True)

    def _rebuild(self, change: StoreRebuilt) -> None:
        kept = self._get_store(change.store).rebuilt(change.incarnation)
        self._state.stores[change.store] = StoreRow(kept=kept)
        for key, _, _ in _on_store(self._state, change.store):
            self._enter_group(key, change.store)
            self._recompute(key, NO_TIME, regroup=True)

    def _assign(self, change: ReplicasAssigned) -> None:
        key = (change.topic_id, change.partition)
        row = self._get_partition(*key)
        if row is None:
            raise CommitRefused(f"there is no {change.topic_id}/{change.partition}")
        check_assignment(change, row.partition.leader)
        for store in change.replicas:
            if store not in row.replicas:
                self._get_store(store).check_newcomer()
                self._enter_group(key, store)
        for store in row.replicas:
            if store not in change.replicas:
                self._drop(key, store)
        row = self._state.partitions[key]
        self._state.partitions[key] = replace(
            row,
            partition=replace(
                row.partition,
                replicas=tuple(change.replicas),
                adding=tuple(change.adding),
                removing=tuple(change.removing),
            ),
        )
        self._recompute(key, change.at_ms, regroup=True)

    def _enter_group(self, key: Key, store: int) -> None:
        """An empty replica; nothing counts that lay on the store before."""
        self._drop(key, store)
        row = self._state.partitions[key]
        _put(self._state, key, store, row.group.newcomer(row.start, row.end))

    def _drop(self, key: Key, store: int) -> None:
        row = self._state.partitions[key]
        self._state.partitions[key] = replace(
            row,
            replicas={number: each for number, each in row.replicas.items() if number != store},
            segments={number: each for number, each in row.segments.items() if number != store},
            extents=tuple(_with_place(extent, store, None) for extent in row.extents),
        )

    def _recompute(self, key: Key, at_ms: int, *, regroup: bool = False) -> None:
        row = self._state.partitions[key]
        members = {
            store: replica
            for store, replica in row.replicas.items()
            if self._state.phase(store) is not StorePhase.FENCED
        }
        group = row.group.regrouped(members, at_ms) if regroup else row.group.recomputed(members, at_ms)
        self._state.partitions[key] = replace(row, group=group)


def add_store(state: State, store: int) -> None:
    """A store is known, in sync and empty; no effect on one that is."""
    state.stores.setdefault(store, StoreRow(kept=KeptStore(store=store)))


def find_begun(changes: Sequence[Change]) -> dict[Key, int]:
    """Where the partitions begin of which a frame holds something."""
    begun: dict[Key, int] = {}
    for change in changes:
        if isinstance(change, ExtentAppended):
            begun.setdefault((change.topic_id, change.partition), change.first)
    return begun


def lose_store(state: State, store: int, begun: Mapping[Key, int] | None) -> None:
    """It failed: what it holds ends where the frame begins that it lacks, or before what has no place on it."""
    if store not in state.stores or not state.stores[store].kept.is_written:
        return
    for key, row, replica in _on_store(state, store):
        held = replica.held(row.start, row.end)
        if held == row.end:
            held = _find_hole(row, store, replica) if begun is None else begun.get(key, row.end)
        _put(state, key, store, replica.left(held))
    put_store(state, replace(state.stores[store].kept, phase=StorePhase.LOST))


def put_store(state: State, store: KeptStore) -> None:
    """A store that is known, as it is from here on."""
    state.stores[store.store] = replace(state.stores[store.store], kept=store)


def _on_store(state: State, store: int) -> Iterator[tuple[Key, PartitionRow, KeptReplica]]:
    for key, row in list(state.partitions.items()):
        if store in row.replicas:
            yield key, row, row.replicas[store]


def _put(state: State, key: Key, store: int, replica: KeptReplica) -> None:
    row = state.partitions[key]
    state.partitions[key] = replace(row, replicas={**row.replicas, store: replica})


def _find_hole(row: PartitionRow, store: int, replica: KeptReplica) -> int:
    """Where the newest extents begin that have no place on the store."""
    end = row.end
    unsettled: Sequence[Extent] = [extent for extent in row.extents if extent.last >= replica.settled_to]
    for extent in reversed(unsettled):
        if store in extent.places:
            break
        end = max(extent.first, replica.settled_to)
    return end


def _with_place(extent: Extent, store: int, place: Place | None) -> Extent:
    places = {number: each for number, each in extent.places.items() if number != store}
    return replace(extent, places=places if place is None else {**places, store: place})

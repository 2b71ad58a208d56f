"""Random changes of stores and replicas as drafts; `drafts.Planner` plans them with the others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from itertools import count
from typing import Concatenate, ParamSpec
from uuid import UUID

from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import ReplicaManifest, StorePhase, StoreState
from holdfast.rules.grace import Coverage
from holdfast.rules.removal import Cleaned
from holdfast.store.footer import Change
from holdfast.store.replica_changes import (
    AddedSegment,
    CarriedExtent,
    ExtentsCarried,
    Granted,
    HeldTo,
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
from holdfast.store.store import CARRIED

Key = tuple[UUID, int]
P = ParamSpec("P")

_FILES = count()
_FENCED = ReplicaManifest(
    store=0,
    incarnation=1,
    generation=0,
    settled_to=0,
    held_to=0,
    joined_from=None,
    cleaned=Cleaned(),
    clean_coverage=Coverage(),
)


Make = Callable[Concatenate["ReplicaPlanner", P], Change]


def of_a_replica(make: Make[P]) -> Make[P]:
    """Where every topic was deleted there is no replica: a lease in its place."""

    @wraps(make)
    def made(self: "ReplicaPlanner", /, *arguments: P.args, **named: P.kwargs) -> Change:
        return make(self, *arguments, **named) if self._places() else self.lease(1, 0)

    return made


class ReplicaPlanner:
    """Plans what keepers publish and what becomes of stores, on what the control plane says before the frame."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._stores = {state.store: state for state in plane.list_stores()}
        self._generations: dict[tuple[Key, int], int] = {}
        self._settled: dict[tuple[Key, int], int] = {}

    def lease(self, store: int, off_by: int) -> Change:
        """The next one."""
        return KeeperLeased(store, self._store(store).lease + 1 + off_by)

    @of_a_replica
    def settle(self, pick: int, more: int, keep_back: int, off_by: int) -> Change:
        """The next segment of a replica, which may end in the middle of an extent."""
        key, replica = self._replica(pick)
        first = self._settled.get((key, replica.store), replica.settled_to)
        bounds = self._plane.find_bounds(*key)
        end = max(first, min(first + 1 + 3 * more, bounds.last_stable, replica.held_to)) + max(off_by, 0)
        if replica.joined_from is not None and first == replica.held_to:
            end = min(first + 1 + 3 * more, bounds.last_stable)
        if first < bounds.start:
            first, end = bounds.start - more % 2, max(end, bounds.start + 1)
        added = () if end <= first else (_segment(first, end, more),)
        self._settled[key, replica.store] = max(first, end)
        clean = max(first, end) - keep_back
        return self._publish(key, replica, (), added, clean, clean, pick, min(off_by, 0))

    @of_a_replica
    def rewrite(self, pick: int, more: int, off_by: int) -> Change:
        """Some segments of a replica as one, under the greatest grant that there is."""
        key, replica = self._replica(pick)
        present = self._plane.find_segments(*key, replica.store)[more % 2 : more + 1]
        if not present:
            return self.settle(pick, more, 0, 0)
        added = (_segment(present[0].first, present[-1].end + off_by, more),)
        return self._publish(key, replica, tuple(each.file for each in present), added, -1, -1, pick, 0)

    @of_a_replica
    def carry(self, pick: int, skip: int, off_by: int) -> Change:
        """What a replica lacks, or its first extents."""
        key, replica = self._replica(pick)
        bounds, extents = self._plane.find_extents(*key, min(replica.held_to, self._end(key) - 1), 1 << 30)
        if not extents:
            _, extents = self._plane.find_extents(*key, bounds.start, 100)
        lasts = [extent.last for extent in extents[skip % 2 :]] + ([bounds.end] if off_by > 0 else [])
        state = self._store(replica.store)
        return ExtentsCarried(
            replica.store,
            state.incarnation,
            state.lease + min(off_by, 0),
            CARRIED + pick,
            tuple(CarriedExtent(*key, last, 10 * last) for last in lasts),
        )

    def leave(self, store: int, less: int) -> Change:
        """Perhaps it lacks something of a partition."""
        if less == 0 or self._store(store).phase is StorePhase.AWAY:
            return StoreLeft(store, ())
        return StoreLeft(
            store, tuple(HeldTo(*key, max(self._end(key) - less, 0)) for key in self._on_store(store))
        )

    def move(self, store: int, off_by: int) -> Change:
        """To the next phase on the way back; a store in sync leaves, or is fenced."""
        state = self._store(store)
        if state.phase is StorePhase.AWAY:
            if off_by > 0:
                return StoreRebuilt(store, state.incarnation + 1)
            return StoreJoining(store, state.incarnation + off_by)
        if state.phase is StorePhase.FENCED:
            return StoreRebuilt(store, state.incarnation + 1 + off_by)
        if (behind := self._plane.list_behind(store)) and not off_by:
            return self._catch_up(state, behind)
        if state.phase is StorePhase.JOINING or off_by or behind:
            return StoreJoined(store)
        return StoreLeft(store, ())

    def _catch_up(self, state: StoreState, behind: list[HeldTo]) -> Change:
        """All extents that the store lacks; if some are trimmed, a segment in their place."""
        rows = []
        for topic_id, partition, held_to in behind:
            key = (topic_id, partition)
            _, extents = self._plane.find_extents(*key, held_to, 1 << 30)
            if not extents or extents[0].first > held_to:
                replicas = self._plane.find_removal(*key).replicas
                replica = next(each for each in replicas if each.store == state.store)
                end = min(self._plane.find_bounds(*key).last_stable, replica.joined_from or held_to)
                added = (_segment(replica.settled_to, max(end, held_to), 1),)
                return self._publish(key, replica, (), added, -1, -1, 1, 0)
            rows += [CarriedExtent(*key, extent.last, extent.last) for extent in extents]
        return ExtentsCarried(state.store, state.incarnation, state.lease, CARRIED, tuple(rows))

    def fence(self, store: int, at_ms: int) -> Change:
        """With a time or without."""
        return StoreFenced(store, at_ms)

    def rebuild(self, store: int, off_by: int) -> Change:
        """If it may be."""
        return StoreRebuilt(store, self._store(store).incarnation + 1 + off_by)

    @of_a_replica
    def assign(self, pick: int, replicas: list[int], off_by: int) -> Change:
        """With the leader, most often."""
        key, _ = self._replica(pick)
        leader = self._plane.find_partition(*key).leader
        before = self._plane.find_partition(*key).replicas
        others = [
            store
            for store in replicas
            if store != leader and (store in before or store in self._plane.find_in_sync())
        ]
        held = tuple(others if off_by else [*others, leader])
        # Whatever is said to be under way, be it what makes no sense, is kept or refused by all alike.
        adding, removing = (tuple(store for store in replicas if (pick + store) % 3 == way) for way in (0, 1))
        if pick % 2:
            adding, removing = (tuple(set(each) & set(held)) for each in (adding, removing))
        return ReplicasAssigned(*key, held, pick, adding, removing)

    def _publish(
        self,
        key: Key,
        replica: ReplicaManifest,
        removed: tuple[str, ...],
        added: tuple[AddedSegment, ...],
        mcco: int,
        mxfo: int,
        at_ms: int,
        off_by: int,
    ) -> Change:
        state, removal = self._store(replica.store), self._plane.find_removal(*key)
        generation = self._generations.get((key, replica.store), replica.generation) + 1
        self._generations[key, replica.store] = generation
        mtro, mxro = removal.removable.mtro, removal.removable.mxro
        return SegmentsPublished(
            *key,
            replica.store,
            state.incarnation,
            state.lease,
            generation + off_by,
            removal.lineage,
            removed,
            added,
            Granted(mtro, mxro, max(mtro - 1, 0)),
            mcco,
            mxfo,
            at_ms,
        )

    def _store(self, store: int) -> StoreState:
        unknown = StoreState(store=store, incarnation=1, lease=0, phase=StorePhase.IN_SYNC, checkpoint=None)
        return self._stores.get(store, unknown)

    def _places(self) -> list[Key]:
        """Partitions that were there before the frame."""
        return [
            (topic.topic_id, number)
            for topic in self._plane.list_topics()
            for number in range(len(topic.partitions))
        ]

    def _end(self, key: Key) -> int:
        return self._plane.find_bounds(*key).end

    def _on_store(self, store: int) -> list[Key]:
        return [key for key in self._places() if store in self._plane.find_partition(*key).replicas]

    def _replica(self, pick: int) -> tuple[Key, ReplicaManifest]:
        """One of the members there are; if all are fenced, one that was."""
        replicas = [
            (key, replica) for key in self._places() for replica in self._plane.find_removal(*key).replicas
        ]
        if not replicas:
            key = self._places()[0]
            return key, replace(_FENCED, store=self._plane.find_partition(*key).leader)
        return replicas[pick % len(replicas)]


def _segment(first: int, end: int, more: int) -> AddedSegment:
    return AddedSegment(
        first, end, f"{next(_FILES)}.log", 10 * (more % 3), (first * 5 + more) % 6, 1, -1, more, first % 3
    )


PICK = range(41)
STORE = (1, 2, 3)
HELD_BY = ([1], [2], [3], [1, 2], [2, 3], [3, 1], [1, 2, 3], [3, 2, 1])
SMALL = range(6)
OFF_BY = (0,) * 40 + (1, -1)

WEIGHTED: list[tuple[int, str | type[Change], tuple[Sequence[object], ...]]] = [
    (2, "lease", (STORE, OFF_BY)),
    (12, "settle", (PICK, SMALL, (0, 0, 1, 2), OFF_BY)),
    (5, "rewrite", (PICK, SMALL, OFF_BY)),
    (5, "carry", (PICK, (0, 0, 0, 1), OFF_BY)),
    (1, "leave", (STORE, SMALL)),
    (12, "move", (STORE, (0,) * 9 + (1, -1))),
    (1, "fence", (STORE, (-1, 5))),
    (1, "rebuild", (STORE, OFF_BY)),
    (2, "assign", (PICK, HELD_BY, OFF_BY)),
    (1, StoreAdded, (STORE,)),
]
"""How often each, and what to call it with: one of these each."""

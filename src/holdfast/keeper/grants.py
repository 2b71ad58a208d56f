"""Whether every rewrite was made by right: all grants, replayed from the changes of frames alone. Pure.

A ledger follows who the members of each partition were and what they had reported, frame by frame, and computes MTRO
and MXRO from that with the one function there is. It asks no control plane what it had stored: a rewrite that the
control plane should have refused is found here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from holdfast.control.replicas import StorePhase
from holdfast.rules.membership import ReplicaId
from holdfast.rules.removal import NOTHING_REMOVABLE, Removable, removal_offset, risen
from holdfast.store.footer import Change, LogStartMoved, PartitionsAdded, TopicCreated, TopicDeleted
from holdfast.store.replica_changes import (
    KeeperLeased,
    ReplicasAssigned,
    SegmentsPublished,
    StoreFenced,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)

Key = tuple[UUID, int]
"""Topic id and partition."""


@dataclass(slots=True, kw_only=True)
class StoreAccount:
    """What frames have said of a store."""

    incarnation: int = 1
    lease: int = 0
    phase: StorePhase = StorePhase.IN_SYNC


@dataclass(slots=True, kw_only=True)
class ReplicaAccount:
    """What a replica has reported."""

    generation: int = 0
    settled_to: int = 0
    mcco: int = 0
    mxfo: int = 0


@dataclass(slots=True, kw_only=True)
class GroupAccount:
    """A partition: its replicas by store, and what follows from their reports."""

    topic: str
    log_start: int = 0
    lineage: int = 1
    removable: Removable = NOTHING_REMOVABLE
    replicas: dict[int, ReplicaAccount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """The first thing that was not right; `topic` None: it concerns the store as a whole."""

    frame: int
    topic: str | None
    partition: int | None
    store: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What one frame says."""

    number: int
    changes: Sequence[Change]


class _Unlawful(Exception):
    """Why a change is not right, and whose it is."""

    def __init__(self, store: int, key: Key | None, why: str) -> None:
        super().__init__(why)
        self.store = store
        self.key = key


class GrantLedger:
    """Replays frames in order, from an empty log or from accounts that somebody has vouched for."""

    def __init__(
        self,
        stores: Mapping[int, StoreAccount] | None = None,
        groups: Mapping[Key, GroupAccount] | None = None,
    ) -> None:
        self._stores = dict(stores or {})
        self._groups = dict(groups or {})
        self.rewrites = 0
        """Manifests that were found right."""
        self._followers: dict[type[Change], Callable[[Any], None]] = {
            TopicCreated: self._create,
            TopicDeleted: self._delete,
            PartitionsAdded: self._add_partitions,
            LogStartMoved: self._move_log_start,
            KeeperLeased: self._lease,
            SegmentsPublished: self._publish,
            StoreLeft: self._leave,
            StoreJoining: self._come,
            StoreJoined: self._join,
            StoreFenced: self._fence,
            StoreRebuilt: self._rebuild,
            ReplicasAssigned: self._assign,
        }

    @property
    def partitions(self) -> int:
        """How many there are now."""
        return len(self._groups)

    def find_removable(self, key: Key) -> Removable:
        """What follows from the reports of a partition's members."""
        return self._groups[key].removable

    def check_start(self, frame: int) -> Violation | None:
        """Whether the accounts that it began with, as of `frame`, agree with themselves."""
        for (_, partition), group in self._groups.items():
            computed = self._compute(group, NOTHING_REMOVABLE)
            members = self._members(group)
            if members and group.removable.raised(computed) != computed:
                return Violation(
                    frame=frame,
                    topic=group.topic,
                    partition=partition,
                    store=min(members),
                    why=f"the snapshot lets {_told(group.removable)} go, the reports in it {_told(computed)}",
                )
        return None

    def follow(self, frame: Frame) -> Violation | None:
        """The next frame; what is wrong with it, if something is. Nothing may follow then."""
        for change in frame.changes:
            follower = self._followers.get(type(change))
            if follower is None:
                continue
            try:
                follower(change)
            except _Unlawful as found:
                group = None if found.key is None else self._groups.get(found.key)
                return Violation(
                    frame=frame.number,
                    topic=None if group is None else group.topic,
                    partition=None if found.key is None else found.key[1],
                    store=found.store,
                    why=str(found),
                )
        return None

    def _create(self, change: TopicCreated) -> None:
        for partition, stores in enumerate(change.replicas):
            self._found((change.topic_id, partition), change.name, stores)

    def _add_partitions(self, change: PartitionsAdded) -> None:
        first = self._groups.get((change.topic_id, 0))
        for partition, stores in enumerate(change.replicas, change.first):
            self._found((change.topic_id, partition), "" if first is None else first.topic, stores)

    def _found(self, key: Key, topic: str, stores: Sequence[int]) -> None:
        self._groups[key] = GroupAccount(topic=topic, replicas={store: ReplicaAccount() for store in stores})

    def _delete(self, change: TopicDeleted) -> None:
        for key in [key for key in self._groups if key[0] == change.topic_id]:
            del self._groups[key]

    def _move_log_start(self, change: LogStartMoved) -> None:
        group = self._groups.get((change.topic_id, change.partition))
        if group is not None:
            group.log_start = max(group.log_start, change.log_start)

    def _lease(self, change: KeeperLeased) -> None:
        store = self._store(change.store)
        if change.lease != store.lease + 1:
            raise _Unlawful(change.store, None, f"lease {change.lease} follows lease {store.lease}")
        store.lease = change.lease

    def _publish(self, change: SegmentsPublished) -> None:
        key = (change.topic_id, change.partition)
        group = self._groups.get(key)
        replica = None if group is None else group.replicas.get(change.store)
        if group is None or replica is None:
            raise _Unlawful(change.store, key, "published segments of a partition that it does not hold")
        why = self._find_fault(change, group, replica)
        if why is not None:
            raise _Unlawful(change.store, key, why)
        replica.generation = change.generation
        replica.settled_to = _settled_to(change, replica)
        replica.mcco, replica.mxfo = max(replica.mcco, change.mcco), max(replica.mxfo, change.mxfo)
        group.removable = self._compute(group, group.removable)
        self.rewrites += 1

    def _find_fault(
        self, change: SegmentsPublished, group: GroupAccount, replica: ReplicaAccount
    ) -> str | None:
        store, grant, allowed = self._store(change.store), change.grant, group.removable
        settled_to = _settled_to(change, replica)
        mcco, mxfo = max(replica.mcco, change.mcco), max(replica.mxfo, change.mxfo)
        faults = {
            "is fenced, and published": store.phase is StorePhase.FENCED,
            f"is in life {store.incarnation}, and life {change.incarnation} published": (
                change.incarnation != store.incarnation
            ),
            f"is leased under {store.lease}, and {change.lease} published": change.lease != store.lease,
            f"published generation {change.generation} after {replica.generation}": (
                change.generation != replica.generation + 1
            ),
            f"published under lineage {change.lineage}, in lineage {group.lineage}": (
                change.lineage != group.lineage
            ),
            f"let tombstones go below {grant.tombstones_end} under a grant for {grant.mtro}": (
                grant.tombstones_end > grant.mtro
            ),
            f"was granted {_told(Removable(mtro=grant.mtro, mxro=grant.mxro))},"
            f" while the members' reports allowed {_told(allowed)}": (
                grant.mtro > allowed.mtro or grant.mxro > allowed.mxro
            ),
            f"reported MCCO {mcco} and MXFO {mxfo}, while its segments end at {settled_to}": (
                not mcco <= mxfo <= max(settled_to, group.log_start, replica.mxfo)
            ),
        }
        return next((why for why, is_so in faults.items() if is_so), None)

    def _leave(self, change: StoreLeft) -> None:
        store = self._store(change.store)
        if store.phase is not StorePhase.FENCED:
            store.phase = StorePhase.AWAY

    def _come(self, change: StoreJoining) -> None:
        store = self._store(change.store)
        if (store.phase, store.incarnation) != (StorePhase.AWAY, change.incarnation):
            raise _Unlawful(
                change.store,
                None,
                f"came back in life {change.incarnation}, while it was {store.phase.value} in life"
                f" {store.incarnation}",
            )
        store.phase = StorePhase.JOINING

    def _join(self, change: StoreJoined) -> None:
        store = self._store(change.store)
        if store.phase not in (StorePhase.IN_SYNC, StorePhase.JOINING):
            raise _Unlawful(change.store, None, f"is in sync out of being {store.phase.value}")
        store.phase = StorePhase.IN_SYNC

    def _fence(self, change: StoreFenced) -> None:
        self._store(change.store).phase = StorePhase.FENCED
        for group in self._groups_on(change.store):
            group.removable = self._compute(group, group.removable)

    def _rebuild(self, change: StoreRebuilt) -> None:
        store = self._store(change.store)
        if change.incarnation != store.incarnation + 1:
            raise _Unlawful(change.store, None, f"life {change.incarnation} follows life {store.incarnation}")
        if store.phase not in (StorePhase.FENCED, StorePhase.AWAY):
            raise _Unlawful(change.store, None, f"begins another life while it is {store.phase.value}")
        store.incarnation, store.phase = change.incarnation, StorePhase.JOINING
        for group in self._groups_on(change.store):
            group.replicas[change.store] = _newcomer(group)

    def _assign(self, change: ReplicasAssigned) -> None:
        group = self._groups.get((change.topic_id, change.partition))
        if group is None:
            return
        group.replicas = {
            store: group.replicas.get(store) or _newcomer(group) for store in sorted(change.replicas)
        }
        group.removable = self._compute(group, group.removable)

    def _compute(self, group: GroupAccount, before: Removable) -> Removable:
        members = self._members(group)
        ids = [ReplicaId(store) for store in members]
        mccos = {ReplicaId(store): replica.mcco for store, replica in members.items()}
        mxfos = {ReplicaId(store): replica.mxfo for store, replica in members.items()}
        return Removable(
            mtro=risen(before.mtro, removal_offset(mccos, ids)),
            mxro=risen(before.mxro, removal_offset(mxfos, ids)),
        )

    def _members(self, group: GroupAccount) -> dict[int, ReplicaAccount]:
        """Every replica whose store is not fenced."""
        return {
            store: replica
            for store, replica in group.replicas.items()
            if self._store(store).phase is not StorePhase.FENCED
        }

    def _groups_on(self, store: int) -> list[GroupAccount]:
        return [group for group in self._groups.values() if store in group.replicas]

    def _store(self, store: int) -> StoreAccount:
        """A store is known from the first word about it on."""
        return self._stores.setdefault(store, StoreAccount())


def _newcomer(group: GroupAccount) -> ReplicaAccount:
    """It starts at the group's values: below them it receives only what members that are clean past them hold."""
    return ReplicaAccount(settled_to=group.log_start, mcco=group.removable.mtro, mxfo=group.removable.mxro)


def _told(removable: Removable) -> str:
    return f"MTRO {removable.mtro}, MXRO {removable.mxro}"


def _settled_to(change: SegmentsPublished, replica: ReplicaAccount) -> int:
    return max([replica.settled_to, *(segment.end for segment in change.added)])

"""What a change does to a replica and to its group: decided here for every control plane, which only keep the rows.

Whatever these functions refuse, they refuse again in a replay: they look at nothing that the frames alone do not
determine. Where bytes lie is no such thing (a replay may have fewer stores), nor is what has been trimmed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.control.plane import LogBounds
from holdfast.control.replicas import StorePhase
from holdfast.errors import CommitRefused
from holdfast.rules.grace import NOTHING_COVERED, Coverage
from holdfast.rules.membership import ReplicaId
from holdfast.rules.removal import (
    NOTHING_REMOVABLE,
    Cleaned,
    Removable,
    Unreported,
    removal_offset,
    risen,
)
from holdfast.store.replica_changes import NO_TIME, NOT_LIFTED, ReplicasAssigned, SegmentsPublished

Ranges = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStore:
    """What is kept of a store, and where it may go from there."""

    store: int
    incarnation: int = 1
    lease: int = 0
    phase: StorePhase = StorePhase.IN_SYNC

    @property
    def is_written(self) -> bool:
        """Whether it is given every frame."""
        return self.phase in (StorePhase.IN_SYNC, StorePhase.JOINING)

    def check_writer(self, incarnation: int, lease: int) -> None:
        """CommitRefused unless who publishes speaks for this life, holds the lease and is not fenced."""
        if self.phase is StorePhase.FENCED:
            raise CommitRefused(f"store {self.store} is fenced")
        self._check_life(incarnation)
        if lease != self.lease:
            raise CommitRefused(f"the lease of store {self.store} is {self.lease}, not {lease}")

    def leased(self, lease: int) -> "KeptStore":
        """Another keeper publishes for it."""
        if lease != self.lease + 1:
            raise CommitRefused(f"the lease of store {self.store} is {self.lease}: {lease} is not the next")
        return replace(self, lease=lease)

    def came(self, incarnation: int) -> "KeptStore":
        """It was away, and is given every frame again."""
        if self.phase is not StorePhase.AWAY:
            raise CommitRefused(f"store {self.store} is {self.phase.value}, not away")
        self._check_life(incarnation)
        return replace(self, phase=StorePhase.JOINING)

    def joined(self, behind: int) -> "KeptStore":
        """All of its replicas have everything; `behind`: how many do not."""
        if not self.is_written:
            raise CommitRefused(f"store {self.store} is {self.phase.value}, not joining")
        if behind:
            raise CommitRefused(f"store {self.store} lacks something of {behind} partitions")
        return replace(self, phase=StorePhase.IN_SYNC)

    def fenced(self) -> "KeptStore":
        """It counts no longer."""
        if self.phase is StorePhase.FENCED:
            raise CommitRefused(f"store {self.store} is fenced already")
        return replace(self, phase=StorePhase.FENCED)

    def rebuilt(self, incarnation: int) -> "KeptStore":
        """Its next life."""
        if self.phase not in (StorePhase.FENCED, StorePhase.AWAY):
            raise CommitRefused(f"store {self.store} is {self.phase.value}, neither fenced nor away")
        if incarnation != self.incarnation + 1:
            raise CommitRefused(
                f"store {self.store} is in life {self.incarnation}: {incarnation} is not the next"
            )
        return replace(self, incarnation=incarnation, phase=StorePhase.JOINING)

    def check_newcomer(self) -> None:
        """CommitRefused unless a partition may come to lie on it."""
        if not self.is_written:
            raise CommitRefused(f"store {self.store} is {self.phase.value}: nothing can be copied to it")

    def _check_life(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            raise CommitRefused(f"store {self.store} is in life {self.incarnation}, not {incarnation}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReplica:
    """What is kept of a replica. `held_to` None: the log end, wherever that is."""

    generation: int = 0
    settled_to: int = 0
    held_to: int | None = None
    joined_from: int | None = None
    mcco: int = 0
    mxfo: int = 0
    clean_coverage: Coverage = NOTHING_COVERED

    @property
    def cleaned(self) -> Cleaned:
        """How far it is clean."""
        return Cleaned(mcco=self.mcco, mxfo=self.mxfo)

    def held(self, start: int, end: int) -> int:
        """It holds every byte below; what lies below the log start is missed by nobody."""
        if self.held_to is None:
            return end
        held_to = max(self.held_to, start)
        return end if self.joined_from is not None and held_to >= self.joined_from else held_to

    def has(self, first: int, last: int) -> bool:
        """Whether an extent's place on the store counts.

        Not if it is settled: then segments hold it, and the journal may be gone. Not in the hole of a replica that
        lacks something: such a place is of an earlier life, or of an earlier attempt to join.
        """
        if last < self.settled_to:
            return False
        is_below_hole = self.held_to is None or last < self.held_to
        return is_below_hole or (self.joined_from is not None and first >= self.joined_from)

    def left(self, held_to: int) -> "KeptReplica":
        """It is given no more frames, and holds what lies below; its segments in any case."""
        return replace(self, held_to=max(held_to, self.settled_to), joined_from=None)

    def left_with(self, said: int | None, start: int, end: int, phase: StorePhase) -> "KeptReplica":
        """A frame says that it left, and perhaps what it holds: no more than was known.

        Of a store that was away already it may say more: what was known then comes from where bytes lay, and a
        replay may have fewer stores.
        """
        known = self.held(start, end)
        if said is None:
            return self.left(known)
        return self.left(said if phase is StorePhase.AWAY else min(said, known))

    def came(self, end: int) -> "KeptReplica":
        """It is given every frame from here on."""
        return replace(self, joined_from=end)

    def joined(self) -> "KeptReplica":
        """It has everything."""
        return replace(self, held_to=None, joined_from=None)

    def carried(self, start: int, extents: Iterable[tuple[int, int]]) -> "KeptReplica":
        """It has been given these extents, (first, last) each: those that follow without a hole are held."""
        if self.joined_from is None or self.held_to is None:
            return self
        held_to = max(self.held_to, start)
        for first, last in sorted(extents):
            if first <= held_to:
                held_to = max(held_to, last + 1)
        return replace(self, held_to=held_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGroup:
    """What is kept of a partition's replicas together."""

    lineage: int = 1
    membership: int = 1
    removable: Removable = NOTHING_REMOVABLE
    coverage: Coverage = NOTHING_COVERED
    extents_from: int = 0
    """Nobody needs extents below: all members have settled them and MXRO lies above."""
    trimmed_to: int = 0
    """The highest that was: extents below may be missing, even if a newcomer might use them."""

    def recomputed(
        self, members: Mapping[int, KeptReplica], at_ms: int, counted: Collection[int] | None = None
    ) -> "KeptGroup":
        """After a report or a change of the members; `counted`: those that are waited for, None: all."""
        ids = [ReplicaId(store) for store in (members if counted is None else counted)]
        mccos = {ReplicaId(store): replica.mcco for store, replica in members.items()}
        mxfos = {ReplicaId(store): replica.mxfo for store, replica in members.items()}
        mtro = risen(self.removable.mtro, removal_offset(mccos, ids))
        mxro = risen(self.removable.mxro, removal_offset(mxfos, ids))
        extents_from = min([mxro, *(replica.settled_to for replica in members.values())])
        return replace(
            self,
            removable=Removable(mtro=mtro, mxro=mxro),
            coverage=self.coverage if at_ms == NO_TIME else self.coverage.cover(mtro, at_ms),
            extents_from=extents_from,
            trimmed_to=max(self.trimmed_to, extents_from),
        )

    def regrouped(
        self,
        members: Mapping[int, KeptReplica],
        at_ms: int = NO_TIME,
        counted: Collection[int] | None = None,
    ) -> "KeptGroup":
        """Other members, or one in another life."""
        return replace(self, membership=self.membership + 1).recomputed(members, at_ms, counted)

    def newcomer(self, start: int, end: int) -> KeptReplica:
        """A replica that begins empty.

        It starts at the group's values, which may lie above its log end: below them it only ever receives what
        replicas that were clean past them hold.
        """
        return KeptReplica(
            settled_to=start,
            held_to=start,
            joined_from=end,
            mcco=self.removable.mtro,
            mxfo=self.removable.mxro,
        )


def founding(phase: StorePhase | None) -> KeptReplica:
    """A replica of a new partition, on a store in this phase (None: not known yet); nothing was ever written."""
    match phase:
        case None | StorePhase.IN_SYNC:
            return KeptReplica()
        case StorePhase.JOINING:
            return KeptReplica(held_to=0, joined_from=0)
        case _:
            return KeptReplica(held_to=0)


def check_assignment(change: ReplicasAssigned, leader: int) -> None:
    """CommitRefused unless the partition can lie on these stores."""
    if leader not in change.replicas or len(set(change.replicas)) < len(change.replicas):
        raise CommitRefused(
            f"{change.topic_id}/{change.partition} is led by store {leader}:"
            f" it cannot lie on {list(change.replicas)}"
        )
    if not set(change.replicas) >= {*change.adding, *change.removing}:
        raise CommitRefused(
            f"{change.topic_id}/{change.partition} cannot come to {list(change.adding)} and leave"
            f" {list(change.removing)} while it lies on {list(change.replicas)}"
        )


def publish(
    change: SegmentsPublished,
    *,
    store: KeptStore,
    replica: KeptReplica,
    group: KeptGroup,
    bounds: LogBounds,
    present: Mapping[str, tuple[int, int]],
) -> KeptReplica:
    """The replica under its new manifest; CommitRefused if that does not fit. `present`: its segments by file."""
    store.check_writer(change.incarnation, change.lease)
    if change.generation != replica.generation + 1:
        raise _misfit(change, f"is at generation {replica.generation}, not {change.generation - 1}")
    if change.lineage != group.lineage:
        raise _misfit(change, f"is in lineage {group.lineage}, not {change.lineage}")
    _check_grant(change, group.removable)
    settled_to = _check_ranges(change, replica, bounds, present)
    if settled_to > bounds.last_stable:
        raise _misfit(change, f"is stable up to {bounds.last_stable} only, not {settled_to}")
    held, held_to = replica.held(bounds.start, bounds.end), replica.held_to
    if settled_to > held:
        # Segments of a peer, copied by a replica that has nothing above its own.
        if replica.joined_from is None or max(replica.settled_to, bounds.start) < held:
            raise _misfit(change, f"does not hold all below {settled_to}")
        held_to = settled_to
    cleaned = replica.cleaned.raised(_lifts(change))
    assert not isinstance(cleaned.mcco, Unreported)
    assert not isinstance(cleaned.mxfo, Unreported)
    if not cleaned.mcco <= cleaned.mxfo <= max(settled_to, bounds.start, replica.mxfo):
        raise _misfit(change, f"cannot be clean up to {cleaned.mcco} and {cleaned.mxfo}")
    return replace(
        replica,
        generation=change.generation,
        settled_to=settled_to,
        held_to=held_to,
        mcco=cleaned.mcco,
        mxfo=cleaned.mxfo,
        clean_coverage=replica.clean_coverage.cover(cleaned.mcco, change.at_ms),
    )


def _check_grant(change: SegmentsPublished, removable: Removable) -> None:
    grant = change.grant
    if not grant.tombstones_end <= grant.mtro <= removable.mtro or grant.mxro > removable.mxro:
        raise _misfit(
            change,
            f"may forget below {removable.mtro} and {removable.mxro}, was rewritten under {tuple(grant)}",
        )


def _check_ranges(
    change: SegmentsPublished,
    replica: KeptReplica,
    bounds: LogBounds,
    present: Mapping[str, tuple[int, int]],
) -> int:
    """Where the segments end then: the added ones take exactly the place of the removed ones, or continue."""
    missing = [file for file in change.removed if file not in present]
    if missing or len(set(change.removed)) < len(change.removed):
        raise _misfit(change, f"has no segments {missing or list(change.removed)}")
    files = [segment.file for segment in change.added]
    if len(set(files)) < len(files) or any(file in present for file in files):
        raise _misfit(change, f"has a segment of those names already: {files}")
    added = sorted((segment.first, segment.end) for segment in change.added)
    settled_to = max([replica.settled_to, *(end for _, end in added)])
    replaced: Ranges = [present[file] for file in change.removed]
    if settled_to > replica.settled_to:
        first = replica.settled_to
        if first < bounds.start:
            # Nothing is left of what lies below the log start: there is no hole where nobody reads.
            first = max(first, min(bounds.start, added[0][0]))
        replaced.append((first, settled_to))
    if any(first >= end for first, end in added) or _joined(added) != _joined(sorted(replaced)):
        raise _misfit(change, f"cannot have segments {added} in the place of {sorted(replaced)}")
    return settled_to


def _joined(ranges: Sequence[tuple[int, int]]) -> Ranges | None:
    """Ranges that touch as one; None if two overlap."""
    joined: Ranges = []
    for first, end in ranges:
        if joined and first < joined[-1][1]:
            return None
        if joined and first == joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((first, end))
    return joined


def _lifts(change: SegmentsPublished) -> Cleaned:
    return Cleaned(
        **{
            track: value
            for track, value in (("mcco", change.mcco), ("mxfo", change.mxfo))
            if value != NOT_LIFTED
        }
    )


def _misfit(change: SegmentsPublished, why: str) -> CommitRefused:
    return CommitRefused(f"{change.topic_id}/{change.partition} on store {change.store} {why}")

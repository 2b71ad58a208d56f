"""Who holds a removal offset back in a running log, and why: what an operator sees while cleanup waits. Pure.

The sibling of `rules.blockers`, which tells the same of the lab's leader. Here the control plane knows every member's
values, so that nobody is silent; but a member may be away, and a keeper may have its reasons not to go on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from holdfast.control.plane import LogBounds
from holdfast.control.replicas import PartitionRemoval, ReplicaManifest, Segment, StorePhase
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.plan import ReplicaView, grant, is_settle_due, measure, settleable
from holdfast.rules.blockers import Track
from holdfast.rules.removal import Unreported
from holdfast.rules.survival import is_young


class Reason(Enum):
    """Why a removal offset does not rise, or why what lies below it stays."""

    AWAY = "away"
    """The store is not there."""
    JOINING = "joining"
    """The replica is still catching up: its own values are not lifted meanwhile."""
    UNREPORTED = "unreported"
    """The replica has never said how far it is clean."""
    BEHIND = "behind"
    """A rewrite is due, and others have made theirs."""
    DUE = "due"
    """A rewrite is due: the keeper has not come to it yet."""
    OPEN_TRANSACTION = "open-transaction"
    """Nothing is decided above the last stable offset."""
    LAG = "lag"
    """min.compaction.lag.ms has not passed for what comes next."""
    DIRTY_RATIO = "dirty-ratio"
    """Less is dirty than min.cleanable.dirty.ratio asks for."""
    SMALL = "small"
    """Too little is decided, and for too short a time, to be worth a segment."""
    GRACE = "grace"
    """Below MTRO delete.retention.ms has not passed: the tombstones stay until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One reason why a track stands; `store` None: it is nobody's fault in particular."""

    track: Track
    reason: Reason
    store: int | None
    at: int | Unreported
    since_ms: int | None = None
    """When another member got past it, on the grace clock; None if that is not known."""
    remaining_ms: int | None = None
    """How long it lasts at least, where that is a matter of time alone."""
    dirty_bytes: int | None = None
    clean_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStanding:
    """All that the reasons follow from, as of one moment."""

    removal: PartitionRemoval
    bounds: LogBounds
    compacts: bool
    phases: Mapping[int, StorePhase]
    views: Mapping[int, ReplicaView]
    """What keepers see of the replicas that are in sync, by store."""


def find_blockers(standing: PartitionStanding, limits: KeeperLimits) -> tuple[Blocker, ...]:
    """Those that hold MTRO or MXRO back now, by track and store; none where everything is clean."""
    found: list[Blocker] = []
    if standing.compacts:
        found += _lowest(standing, Track.TOMBSTONES, limits)
        found += _grace(standing)
    found += _lowest(standing, Track.OUTCOMES, limits)
    return tuple(found)


def waiting_tombstone_bytes(segments: Sequence[Segment], manifest: ReplicaManifest, mtro: int) -> int:
    """Bytes of tombstones on a replica that wait for other members: an estimate, and rather too much.

    The replica is clean up to its MCCO; a tombstone between MTRO and there stays for the sake of others. Where in
    a segment tombstones lie is not known but for the first one, so every offset from there on counts as one, as far as
    the segment has records, and each as large as its records are on average.
    """
    mcco = manifest.cleaned.mcco
    if isinstance(mcco, Unreported):
        return 0
    waiting = 0
    for segment in segments:
        first = max(segment.first_tombstone, mtro, segment.first)
        end = min(segment.end, mcco)
        if segment.first_tombstone >= 0 and first < end:
            waiting += segment.length_bytes * min(end - first, segment.records) // segment.records
    return waiting


def _lowest(standing: PartitionStanding, track: Track, limits: KeeperLimits) -> Iterator[Blocker]:
    """The members at the minimum, each with what keeps it there."""
    bounds = standing.bounds
    values = {member.store: _value(member, track, bounds) for member in standing.removal.replicas}
    known = [value for value in values.values() if not isinstance(value, Unreported)]
    is_open = False
    for member in standing.removal.replicas:
        value = values[member.store]
        if isinstance(value, Unreported):
            yield Blocker(track=track, reason=Reason.UNREPORTED, store=member.store, at=value)
            continue
        if value > min(known) or value >= bounds.end:
            continue
        blocker = _explain(standing, track, member, value, is_behind=value < max(known), limits=limits)
        if blocker.reason is not Reason.OPEN_TRANSACTION:
            yield blocker
        elif not is_open:
            is_open = True
            yield blocker


def _explain(
    standing: PartitionStanding,
    track: Track,
    member: ReplicaManifest,
    value: int,
    *,
    is_behind: bool,
    limits: KeeperLimits,
) -> Blocker:
    phase = standing.phases.get(member.store)
    is_joining = phase is StorePhase.JOINING or member.joined_from is not None
    last_stable = standing.bounds.last_stable
    view = standing.views.get(member.store)
    found = Blocker(track=track, reason=Reason.DUE, store=member.store, at=value)
    if phase in (StorePhase.AWAY, StorePhase.LOST):
        found = replace(found, reason=Reason.AWAY)
    elif is_joining:
        found = replace(found, reason=Reason.JOINING)
    elif value >= last_stable:
        return replace(found, reason=Reason.OPEN_TRANSACTION, store=None, at=last_stable)
    elif view is not None and track is Track.TOMBSTONES:
        found = _hesitate(found, view, value)
    elif view is not None:
        found = _hesitate_to_settle(found, view, limits)
    if found.reason is Reason.DUE and is_behind:
        found = replace(found, reason=Reason.BEHIND)
    since_ms = _passed_ms(standing.removal, member, value) if track is Track.TOMBSTONES else None
    return replace(found, since_ms=since_ms)


def _hesitate(found: Blocker, view: ReplicaView, first_dirty: int) -> Blocker:
    """Why a keeper does not compact on, if it has a reason."""
    measured = measure(view, first_dirty)
    if measured.is_due:
        return found
    if measured.end > first_dirty:
        return replace(
            found,
            reason=Reason.DIRTY_RATIO,
            dirty_bytes=measured.dirty_bytes,
            clean_bytes=measured.clean_bytes,
        )
    newest_ms = [segment.max_timestamp for segment in view.segments if segment.end > first_dirty]
    newest_ms += [extent.max_timestamp for extent in settleable(view) if extent.end > first_dirty]
    if newest_ms and is_young(newest_ms[0], view.wall_ms, view.config):
        remaining_ms = newest_ms[0] + view.config.min_compaction_lag_ms - view.wall_ms
        return replace(found, reason=Reason.LAG, remaining_ms=remaining_ms)
    return found


def _hesitate_to_settle(found: Blocker, view: ReplicaView, limits: KeeperLimits) -> Blocker:
    """Why a keeper does not settle on, if it has a reason."""
    extents = settleable(view)
    if extents and not is_settle_due(view, extents, limits):
        return replace(found, reason=Reason.SMALL)
    return found


def _grace(standing: PartitionStanding) -> Iterator[Blocker]:
    """Tombstones that every member is clean past, and that consumers may still have to see."""
    removal = standing.removal
    waits: list[tuple[int, int]] = []
    for view in standing.views.values():
        first = min((each.first_tombstone for each in view.segments if each.first_tombstone >= 0), default=-1)
        if not grant(view).tombstones_end <= first < removal.removable.mtro:
            continue
        retention_ms = view.config.delete_retention_ms
        dues = [
            view.manifest.clean_coverage.due(first, retention_ms),
            removal.coverage.due(first, retention_ms),
        ]
        known = [due_ms for due_ms in dues if due_ms is not None]
        # Without a time the grace has not begun: it lasts for all of the retention.
        ends_ms = max(known) if len(known) == len(dues) else view.grace_ms + retention_ms
        waits.append((max(0, ends_ms - view.grace_ms), first))
    if waits:
        remaining_ms, first = max(waits)
        yield Blocker(
            track=Track.TOMBSTONES, reason=Reason.GRACE, store=None, at=first, remaining_ms=remaining_ms
        )


def _value(member: ReplicaManifest, track: Track, bounds: LogBounds) -> int | Unreported:
    """How far a member is clean; what lies below the log start needs no cleaning."""
    value = member.cleaned.mcco if track is Track.TOMBSTONES else member.cleaned.mxfo
    return value if isinstance(value, Unreported) else max(value, bounds.start)


def _passed_ms(removal: PartitionRemoval, member: ReplicaManifest, value: int) -> int | None:
    """When the first of the others was clean past a member's value."""
    passed = (other.clean_coverage.since(value) for other in removal.replicas if other is not member)
    return min((since_ms for since_ms in passed if since_ms is not None), default=None)

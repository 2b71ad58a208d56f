"""Removal offsets: how far a replica group may forget the records that decide the fate of others.

Two tracks run through one mechanism. All four values are exclusive upper bounds.

    track        of one replica                      of the group: the minimum over all replicas
    tombstones   MCCO: below it, cleanly compacted   MTRO: below it, tombstones may go after their grace
    outcomes     MXFO: below it, all is settled      MXRO: below it, outcomes may be forgotten

The protocol has two phases. The leader *collects* what every member *reports* of itself, *recomputes* the
minimum, and *distributes* it; a replica answers a distribution with a report, which tells the leader what has
arrived. The state machines are `removal_leader.LeaderState` and `removal_replica.ReplicaState`: pure, without
I/O, clock or randomness. They are safe under messages that are lost, late, repeated or out of order, because
every message says for which lineage, term, membership, lives of the two replicas and manifest generation it
speaks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NewType

from holdfast.rules.lineage import Lineage
from holdfast.rules.membership import Generation, MembershipVersion, Replica, ReplicaId

Term = NewType("Term", int)
NO_TERM = Term(0)


class Unreported(Enum):
    """A replica has not said how far it is clean. That is not the same as having said 0."""

    UNREPORTED = "unreported"

    def __repr__(self) -> str:
        return self.name


UNREPORTED = Unreported.UNREPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """How far one replica is clean, on both tracks; unreported until it has been given a start."""

    mcco: int | Unreported = UNREPORTED
    mxfo: int | Unreported = UNREPORTED

    def raised(self, other: "Cleaned") -> "Cleaned":
        """The higher of both, track by track: being clean is never unlearned within a lineage."""
        return Cleaned(mcco=_higher(self.mcco, other.mcco), mxfo=_higher(self.mxfo, other.mxfo))

    @property
    def reach(self) -> int:
        """The higher of both, as a number."""
        return max(0 if isinstance(value, Unreported) else value for value in (self.mcco, self.mxfo))

    def clipped(self, at: int) -> "Cleaned":
        """What is left of it after a truncation to `at`."""
        return Cleaned(mcco=_clip(self.mcco, at), mxfo=_clip(self.mxfo, at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """How far the group may forget, on both tracks; 0 lets nothing go."""

    mtro: int = 0
    mxro: int = 0

    def raised(self, other: "Removable") -> "Removable":
        """The higher of both, track by track: a permission that was given stays given within a lineage."""
        if other == self:
            return self
        return Removable(mtro=risen(self.mtro, other.mtro), mxro=risen(self.mxro, other.mxro))

    def clipped(self, at: int) -> "Removable":
        """What is left of it after a truncation to `at`."""
        return Removable(mtro=min(self.mtro, at), mxro=min(self.mxro, at))


NOTHING_REPORTED = Cleaned()
NOTHING_REMOVABLE = Removable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What every message says about itself.

    `generation` is that of the replica's manifest: in a report the sender's own, in the other messages the
    newest one that the sender has heard of from the target.
    """

    lineage: Lineage
    term: Term
    membership: MembershipVersion
    sender: Replica
    target: Replica
    generation: Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """Leader to replica: how far are you clean?"""

    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Replica to leader: so far am I clean, and so far was I allowed to forget."""

    stamp: Stamp
    cleaned: Cleaned
    removable: Removable


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribute:
    """Leader to replica: so far may the group forget. To a replica without a start it is the start."""

    stamp: Stamp
    removable: Removable


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Replica to leader: I know of a newer lineage, term or membership, namely this stamp's."""

    stamp: Stamp


Message = Collect | Report | Distribute | Refusal


def removal_offset(
    reports: Mapping[ReplicaId, int | Unreported], members: Iterable[ReplicaId]
) -> int | Unreported:
    """MTRO from MCCOs, MXRO from MXFOs: the minimum over all members, unknown while one has not reported.

    The only place where a removal offset is computed. Who is no member does not count; who is one and is
    silent, away or still without a start holds everything back.
    """
    lowest: int | None = None
    for member in members:
        value = reports.get(member, UNREPORTED)
        if isinstance(value, Unreported):
            return UNREPORTED
        if lowest is None or value < lowest:
            lowest = value
    return UNREPORTED if lowest is None else lowest


def risen(current: int, computed: int | Unreported) -> int:
    """The removal offset after a computation: within a lineage it never goes back."""
    if isinstance(computed, Unreported):
        return current
    return max(current, computed)


def _higher(one: int | Unreported, other: int | Unreported) -> int | Unreported:
    if isinstance(one, Unreported):
        return other
    if isinstance(other, Unreported):
        return one
    return max(one, other)


def _clip(value: int | Unreported, at: int) -> int | Unreported:
    return value if isinstance(value, Unreported) else min(value, at)

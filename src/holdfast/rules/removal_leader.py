"""The leader's side of the removal protocol: collect, recompute, distribute, and say who holds things back.

A leader is made anew in every term. It starts from the values that had reached it as a replica, has to hear
from every member of exactly one membership before it recomputes, and learns from the same reports what
earlier leaders had granted, so that no permission that anybody acted on is forgotten. Whoever lags behind the
group's value is sent it again, also when nothing has changed since.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.rules import fencing, removal
from holdfast.rules.lineage import Lineage
from holdfast.rules.membership import (
    NO_GENERATION,
    NO_MEMBERSHIP,
    Generation,
    Membership,
    MembershipVersion,
    Replica,
    ReplicaId,
)
from holdfast.rules.removal import (
    Cleaned,
    Collect,
    Distribute,
    Message,
    Refusal,
    Removable,
    Report,
    Stamp,
    Term,
    Unreported,
)
from holdfast.rules.removal_replica import ReplicaState


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The newest word of one member in this term, and since when its values stand where they are."""

    generation: Generation
    cleaned: Cleaned
    removable: Removable
    heard_ms: int
    mcco_since_ms: int
    mxfo_since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderState:
    """All that a leader remembers; it may be persisted, or dropped and made anew by the next term."""

    me: Replica
    lineage: Lineage
    term: Term
    membership: Membership
    removable: Removable
    since_ms: int
    heard: Mapping[ReplicaId, Heard] = field(default_factory=dict)
    newer_membership: MembershipVersion = NO_MEMBERSHIP
    """A version that somebody knows of; nothing is decided until this leader has read it."""
    deposed: bool = False

    @property
    def missing(self) -> tuple[Replica, ...]:
        """The members that this leader has not heard from in its term."""
        return tuple(member for member in self.membership.replicas if member.id not in self.heard)

    @property
    def may_decide(self) -> bool:
        """It still leads, as far as it knows, and knows the membership that counts."""
        return not self.deposed and not fencing.stale_membership(
            self.membership.version, self.newer_membership
        )


def lead(replica: ReplicaState, term: Term, membership: Membership, now_ms: int) -> LeaderState:
    """Begin a term from the values that were distributed to this replica."""
    return LeaderState(
        me=replica.me,
        lineage=replica.lineage,
        term=term,
        membership=membership,
        removable=replica.removable,
        since_ms=now_ms,
    )


def collect(state: LeaderState) -> tuple[Message, ...]:
    """One round, to be sent again and again: ask every member; who turns out to lag behind is told again."""
    if state.deposed:
        return ()
    return tuple(Collect(stamp=_stamp(state, member)) for member in state.membership.replicas)


def receive(
    state: LeaderState, message: Report | Refusal, now_ms: int
) -> tuple[LeaderState, tuple[Message, ...]]:
    """Take a replica's answer; recompute; what to distribute once the new state is durable.

    An answer from before a change of membership is taken: it is as true of that life as it was.
    """
    stamp = message.stamp
    if fencing.other_replica(stamp.target, state.me):
        return state, ()
    if fencing.stale_lineage(state.lineage, stamp.lineage) or fencing.stale_term(state.term, stamp.term):
        return replace(state, deposed=True), ()
    if fencing.stale_membership(state.membership.version, stamp.membership):
        return replace(state, newer_membership=max(state.newer_membership, stamp.membership)), ()
    member = state.membership.current(stamp.sender.id)
    if (
        isinstance(message, Refusal)
        or member is None
        or fencing.other_replica(stamp.sender, member)
        or fencing.stale_lineage(stamp.lineage, state.lineage)
        or fencing.stale_term(stamp.term, state.term)
    ):
        return state, ()
    return _hear(state, member, message, now_ms)


def change_membership(state: LeaderState, membership: Membership) -> tuple[LeaderState, tuple[Message, ...]]:
    """Take a recorded change: who left stops counting at once, who joined counts at once, as unreported."""
    if membership.version <= state.membership.version:
        return state, ()
    kept = {member.id: member for member in state.membership.replicas if member in membership}
    heard = {id_: heard for id_, heard in state.heard.items() if id_ in kept}
    state = replace(state, membership=membership, heard=heard)
    if state.may_decide:
        state = replace(state, removable=_recompute(state.removable, heard, membership))
    return state, _distribute(state, membership.replicas)


def _hear(
    state: LeaderState, member: Replica, report: Report, now_ms: int
) -> tuple[LeaderState, tuple[Message, ...]]:
    before = state.heard.get(member.id)
    if before is not None and fencing.stale_generation(report.stamp.generation, before.generation):
        return state, ()
    heard = {**state.heard, member.id: _heard(report, before, now_ms)}
    removable = state.removable.raised(report.removable)
    if state.may_decide and (before is None or before.cleaned != report.cleaned):
        removable = _recompute(removable, heard, state.membership)
    everyone = removable != state.removable or before is None
    state = replace(state, heard=heard, removable=removable)
    return state, _distribute(state, state.membership.replicas if everyone else (member,))


def _heard(report: Report, before: Heard | None, now_ms: int) -> Heard:
    cleaned = report.cleaned
    mcco_stands = before is not None and before.cleaned.mcco == cleaned.mcco
    mxfo_stands = before is not None and before.cleaned.mxfo == cleaned.mxfo
    return Heard(
        generation=report.stamp.generation,
        cleaned=cleaned,
        removable=report.removable,
        heard_ms=now_ms,
        mcco_since_ms=before.mcco_since_ms if before is not None and mcco_stands else now_ms,
        mxfo_since_ms=before.mxfo_since_ms if before is not None and mxfo_stands else now_ms,
    )


def _recompute(current: Removable, heard: Mapping[ReplicaId, Heard], membership: Membership) -> Removable:
    members = [member.id for member in membership.replicas]
    mtro = removal.removal_offset({id_: word.cleaned.mcco for id_, word in heard.items()}, members)
    mxro = removal.removal_offset({id_: word.cleaned.mxfo for id_, word in heard.items()}, members)
    return Removable(mtro=removal.risen(current.mtro, mtro), mxro=removal.risen(current.mxro, mxro))


def _distribute(state: LeaderState, to: Iterable[Replica]) -> tuple[Message, ...]:
    """Tell those of `to` that lag behind.

    Once a leader has heard from all in its term, it knows every value that a member ever acted on: since then
    they refuse whatever leaders of earlier terms still have on its way.
    """
    if not state.may_decide:
        return ()
    return tuple(
        Distribute(stamp=_stamp(state, member), removable=state.removable)
        for member in to
        if _lags(state, state.heard.get(member.id))
    )


def _lags(state: LeaderState, heard: Heard | None) -> bool:
    if heard is None:
        return False
    if isinstance(heard.cleaned.mcco, Unreported):
        return may_give_start(state)
    return heard.removable != state.removable


def may_give_start(state: LeaderState) -> bool:
    """Only a leader that has heard from all knows the group's current value, which is where a replica starts."""
    return not state.missing


def _stamp(state: LeaderState, target: Replica) -> Stamp:
    heard = state.heard.get(target.id)
    return Stamp(
        lineage=state.lineage,
        term=state.term,
        membership=state.membership.version,
        sender=state.me,
        target=target,
        generation=heard.generation if heard else NO_GENERATION,
    )

"""A replica's side of the removal protocol: report what its manifest says, obey the newest leader."""

from dataclasses import dataclass, replace

from holdfast.rules import fencing
from holdfast.rules.grace import NOTHING_COVERED, Coverage
from holdfast.rules.lineage import FIRST_LINEAGE, Lineage
from holdfast.rules.membership import (
    NO_GENERATION,
    NO_MEMBERSHIP,
    Generation,
    Membership,
    MembershipVersion,
    Replica,
)
from holdfast.rules.removal import (
    NO_TERM,
    NOTHING_REMOVABLE,
    NOTHING_REPORTED,
    Cleaned,
    Collect,
    Distribute,
    Refusal,
    Removable,
    Report,
    Stamp,
    Term,
    Unreported,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """All that a replica must remember, persisted before any reply leaves it.

    `cleaned` is the prefix that its manifest proves, or the start it was given when it joined, if that is
    higher: below the start it only ever receives what replicas that were clean past it hold. The start may
    lie above its log end. Nothing else ever lifts `cleaned`: a distributed value says what others have done.
    """

    me: Replica
    lineage: Lineage = FIRST_LINEAGE
    term: Term = NO_TERM
    membership: MembershipVersion = NO_MEMBERSHIP
    generation: Generation = NO_GENERATION
    cleaned: Cleaned = NOTHING_REPORTED
    thinned_to: int = 0
    """No record is missing here for the sake of one at or above this offset, neither dropped nor never copied."""
    removable: Removable = NOTHING_REMOVABLE
    clean_coverage: Coverage = NOTHING_COVERED
    """When `cleaned.mcco` reached which offset."""
    coverage: Coverage = NOTHING_COVERED
    """When `removable.mtro` reached which offset: consumers' grace runs from then."""

    @staticmethod
    def founding(me: Replica, membership: Membership) -> "ReplicaState":
        """A replica of a new partition: nothing was ever written, so it is clean up to 0."""
        return ReplicaState(me=me, membership=membership.version, cleaned=Cleaned(mcco=0, mxfo=0))

    @staticmethod
    def joining(me: Replica, membership: Membership, lineage: Lineage) -> "ReplicaState":
        """A replica that the membership has just recorded, with an empty store and no start yet."""
        return ReplicaState(me=me, lineage=lineage, membership=membership.version)

    @property
    def may_copy(self) -> bool:
        """A joining replica copies its first byte only after it has been given its start."""
        return not isinstance(self.cleaned.mcco, Unreported) and not isinstance(self.cleaned.mxfo, Unreported)

    def copied_from(self, source: "ReplicaState") -> "ReplicaState":
        """The replica has copied from a log that others' records may have been dropped from."""
        if source.thinned_to <= self.thinned_to:
            return self
        return replace(self, thinned_to=source.thinned_to, generation=self.next_generation)

    @property
    def next_generation(self) -> Generation:
        """Every change is published under a new one, so that an old copy is always seen to be old."""
        return Generation(self.generation + 1)

    def clean_to(self, cleaned: Cleaned, now_ms: int) -> "ReplicaState":
        """The replica publishes a manifest in which it is clean this far."""
        assert self.may_copy, "nothing can be clean in a store that may not hold anything yet"
        cleaned = self.cleaned.raised(cleaned)
        return replace(
            self,
            cleaned=cleaned,
            thinned_to=max(self.thinned_to, cleaned.reach),
            clean_coverage=_covered(self.clean_coverage, cleaned.mcco, now_ms),
            generation=self.next_generation,
        )

    def clean_since(self, offset: int) -> int | None:
        """When this replica was first clean past `offset`, on its grace clock."""
        return self.clean_coverage.since(offset)

    def covered_since(self, offset: int) -> int | None:
        """When MTRO, as far as it had reached this replica, first covered `offset`."""
        return self.coverage.since(offset)

    def truncated(self, at: int, lineage: Lineage) -> "ReplicaState":
        """The one legal decrease: all four values clipped to `at`, under a newer lineage."""
        assert lineage > self.lineage, "a truncation starts a new lineage"
        return replace(
            self,
            lineage=lineage,
            generation=self.next_generation,
            cleaned=self.cleaned.clipped(at),
            thinned_to=min(self.thinned_to, at),
            removable=self.removable.clipped(at),
            clean_coverage=self.clean_coverage.clipped(at),
            coverage=self.coverage.clipped(at),
        )


def receive(
    state: ReplicaState, message: Collect | Distribute, now_ms: int
) -> tuple[ReplicaState, Report | Refusal | None]:
    """Take a leader's message: the new state, and what to answer once that state is durable.

    A message for an earlier life gets no answer, nor does one from a lineage that this replica has not
    truncated to yet; one from the past is refused with what is known here, so that its sender can step down
    or read up.
    """
    stamp = message.stamp
    if fencing.other_replica(stamp.target, state.me) or stamp.lineage > state.lineage:
        return state, None
    if (
        fencing.stale_lineage(stamp.lineage, state.lineage)
        or fencing.stale_term(stamp.term, state.term)
        or fencing.stale_membership(stamp.membership, state.membership)
    ):
        return state, Refusal(stamp=_answer(state, stamp))
    taken = _heard(state, stamp)
    if isinstance(message, Distribute):
        taken = _granted(taken, message.removable, now_ms)
    if taken is not state:
        state = replace(taken, generation=state.next_generation)
    return state, Report(stamp=_answer(state, stamp), cleaned=state.cleaned, removable=state.removable)


def _heard(state: ReplicaState, stamp: Stamp) -> ReplicaState:
    term, membership = max(state.term, stamp.term), max(state.membership, stamp.membership)
    if (term, membership) == (state.term, state.membership):
        return state
    return replace(state, term=term, membership=membership)


def _granted(state: ReplicaState, removable: Removable, now_ms: int) -> ReplicaState:
    cleaned = state.cleaned
    if not state.may_copy:
        cleaned = Cleaned(mcco=removable.mtro, mxfo=removable.mxro)
    removable = state.removable.raised(removable)
    if removable == state.removable and cleaned is state.cleaned:
        return state
    return replace(
        state,
        cleaned=cleaned,
        removable=removable,
        clean_coverage=_covered(state.clean_coverage, cleaned.mcco, now_ms),
        coverage=_covered(state.coverage, removable.mtro, now_ms),
    )


def _covered(coverage: Coverage, end: int | Unreported, now_ms: int) -> Coverage:
    return coverage if isinstance(end, Unreported) else coverage.cover(end, now_ms)


def _answer(state: ReplicaState, stamp: Stamp) -> Stamp:
    return Stamp(
        lineage=state.lineage,
        term=state.term,
        membership=state.membership,
        sender=state.me,
        target=stamp.sender,
        generation=state.generation,
    )

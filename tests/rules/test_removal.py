"""The removal protocol without faults: the worked example, fencing, joining, leaving, truncation."""

from dataclasses import replace

import pytest

from holdfast.rules import removal_leader, removal_replica
from holdfast.rules.blockers import Reason, Track, blockers
from holdfast.rules.lineage import FIRST_LINEAGE, Lineage, LineageHistory
from holdfast.rules.membership import (
    Incarnation,
    Membership,
    MembershipVersion,
    Replica,
    ReplicaId,
)
from holdfast.rules.removal import (
    UNREPORTED,
    Cleaned,
    Collect,
    Distribute,
    Message,
    Refusal,
    Removable,
    Report,
    Term,
    removal_offset,
    risen,
)
from holdfast.rules.removal_leader import LeaderState
from holdfast.rules.removal_replica import ReplicaState

ONE, TWO, THREE, FOUR = (ReplicaId(number) for number in (1, 2, 3, 4))


class Group:
    """Replicas and one leader whose messages arrive at once and in order."""

    def __init__(self, count: int) -> None:
        self.membership = Membership.found(count)
        self.replicas = {
            replica.id: ReplicaState.founding(replica, self.membership)
            for replica in self.membership.replicas
        }
        self.leader = self.elect(ONE, Term(1))

    def elect(self, id_: ReplicaId, term: Term) -> LeaderState:
        self.leader = removal_leader.lead(self.replicas[id_], term, self.membership, now_ms=0)
        return self.leader

    def clean(self, id_: ReplicaId, mcco: int, mxfo: int = 0, now_ms: int = 0) -> None:
        self.replicas[id_] = self.replicas[id_].clean_to(Cleaned(mcco=mcco, mxfo=mxfo), now_ms)

    def join(self, id_: ReplicaId) -> Replica:
        self.membership = self.membership.join(id_)
        life = self.membership.current(id_)
        assert life is not None
        self.replicas[id_] = ReplicaState.joining(life, self.membership, FIRST_LINEAGE)
        self._change()
        return life

    def leave(self, id_: ReplicaId) -> None:
        self.membership = self.membership.leave(id_)
        del self.replicas[id_]
        self._change()

    def _change(self) -> None:
        self.leader, messages = removal_leader.change_membership(self.leader, self.membership)
        self._deliver(list(messages), now_ms=0, deaf=())

    def round(self, *, now_ms: int = 0, deaf: tuple[ReplicaId, ...] = ()) -> None:
        """One collection round and all that follows from it; `deaf` replicas get nothing."""
        self._deliver(list(removal_leader.collect(self.leader)), now_ms, deaf)

    def _deliver(self, queue: list[Message], now_ms: int, deaf: tuple[ReplicaId, ...]) -> None:
        while queue:
            message = queue.pop(0)
            if isinstance(message, Collect | Distribute):
                id_ = message.stamp.target.id
                if id_ in deaf or id_ not in self.replicas:
                    continue
                self.replicas[id_], answer = removal_replica.receive(self.replicas[id_], message, now_ms)
                queue.extend([answer] if answer is not None else [])
            else:
                self.leader, more = removal_leader.receive(self.leader, message, now_ms)
                queue.extend(more)

    def asked(self, id_: ReplicaId) -> Collect:
        """What the leader would ask this replica now."""
        return next(
            message
            for message in removal_leader.collect(self.leader)
            if isinstance(message, Collect) and message.stamp.target.id == id_
        )

    def mtro(self) -> dict[int, int]:
        return {id_: state.removable.mtro for id_, state in self.replicas.items()}


def test_worked_example_of_the_article() -> None:
    """Three replicas, the slowest clean to 80: everyone learns that below 80 is safe to remove."""
    group = Group(3)
    group.clean(ONE, 100)
    group.clean(TWO, 80)
    group.clean(THREE, 120)
    group.round()
    assert group.mtro() == {1: 80, 2: 80, 3: 80}


def test_slowest_replica_catches_up() -> None:
    """Once the slowest replica has compacted, the group's value follows to the next slowest."""
    group = Group(3)
    for id_, mcco in ((ONE, 100), (TWO, 80), (THREE, 120)):
        group.clean(id_, mcco)
    group.round()
    group.clean(TWO, 130)
    group.round()
    assert group.mtro() == {1: 100, 2: 100, 3: 100}


def test_tracks_are_independent() -> None:
    """MXRO follows MXFO and MTRO follows MCCO; neither waits for the other."""
    group = Group(2)
    group.clean(ONE, 10, 50)
    group.clean(TWO, 90, 40)
    group.round()
    assert {state.removable for state in group.replicas.values()} == {Removable(mtro=10, mxro=40)}


@pytest.mark.parametrize("count", range(1, 8))
def test_replication_factors_one_to_seven(count: int) -> None:
    """The minimum is taken over all replicas, whatever their number."""
    group = Group(count)
    for number in range(1, count + 1):
        group.clean(ReplicaId(number), 10 * number)
    group.round()
    assert group.mtro() == dict.fromkeys(range(1, count + 1), 10)


def test_unreported_is_not_zero() -> None:
    """A member without a word makes the value unknown; a member at 0 makes it 0."""
    assert removal_offset({ONE: 5}, [ONE, TWO]) is UNREPORTED
    assert removal_offset({ONE: 5, TWO: UNREPORTED}, [ONE, TWO]) is UNREPORTED
    assert removal_offset({ONE: 5, TWO: 0}, [ONE, TWO]) == 0
    assert removal_offset({ONE: 5, TWO: 7, THREE: 1}, [ONE, TWO]) == 5
    assert removal_offset({}, []) is UNREPORTED
    assert risen(7, UNREPORTED) == 7
    assert risen(7, 3) == 7


def test_silent_replica_holds_everything_back() -> None:
    """A replica that is away freezes the group's value, and the leader can say who, why and since when."""
    group = Group(3)
    for id_ in (ONE, TWO):
        group.clean(id_, 100)
    group.round(now_ms=5, deaf=(THREE,))
    assert group.mtro() == {1: 0, 2: 0, 3: 0}
    silent = [blocker for blocker in blockers(group.leader) if blocker.track is Track.TOMBSTONES]
    assert [(blocker.replica.id, blocker.reason, blocker.at) for blocker in silent] == [
        (3, Reason.SILENT, UNREPORTED)
    ]
    group.round(now_ms=9)
    behind = [blocker for blocker in blockers(group.leader) if blocker.track is Track.TOMBSTONES]
    assert [(blocker.replica.id, blocker.reason, blocker.at, blocker.since_ms) for blocker in behind] == [
        (3, Reason.BEHIND, 0, 9)
    ]


def test_removed_replica_leaves_the_minimum_at_once() -> None:
    """Removing or fencing the slowest lets the value rise without another round."""
    group = Group(3)
    for id_, mcco in ((ONE, 100), (TWO, 100), (THREE, 20)):
        group.clean(id_, mcco)
    group.round()
    group.leave(THREE)
    assert group.mtro() == {1: 100, 2: 100}


def test_joining_replica_starts_at_the_groups_value() -> None:
    """A new replica starts at MTRO, above its empty log, and holds further removal back until it cleans."""
    group = Group(2)
    for id_ in (ONE, TWO):
        group.clean(id_, 60, 40)
    group.round()
    life = group.join(THREE)
    assert not group.replicas[THREE].may_copy
    group.round()
    assert group.replicas[THREE].may_copy
    assert group.replicas[THREE].cleaned == Cleaned(mcco=60, mxfo=40)
    for id_ in (ONE, TWO):
        group.clean(id_, 90, 90)
    group.round()
    assert group.mtro() == {1: 60, 2: 60, 3: 60}
    assert life.incarnation == 1


def test_distribution_does_not_lift_a_replica() -> None:
    """A distributed value says what others have done; the receiver's own MCCO stays what it proved."""
    group = Group(1)
    state = group.replicas[ONE]
    stamp = removal_leader.collect(group.leader)[0].stamp
    state, _ = removal_replica.receive(state, Distribute(stamp=stamp, removable=Removable(mtro=9, mxro=9)), 0)
    assert state.cleaned == Cleaned(mcco=0, mxfo=0)


def test_no_start_from_a_leader_that_has_not_heard_from_all() -> None:
    """Only a leader that heard from every member knows the group's value, so only it may give a start."""
    group = Group(3)
    for id_ in (ONE, TWO, THREE):
        group.clean(id_, 50)
    group.round()
    group.elect(TWO, Term(2))
    group.join(FOUR)
    group.round(deaf=(THREE,))
    assert not group.replicas[FOUR].may_copy
    group.round()
    assert group.replicas[FOUR].cleaned == Cleaned(mcco=50, mxfo=0)


def test_new_leader_learns_values_that_only_others_received() -> None:
    """A value that reached one replica before the leader died is known to the next leader, and sent on."""
    group = Group(3)
    for id_ in (ONE, TWO, THREE):
        group.clean(id_, 50)
    group.round(deaf=(THREE,))
    group.round()
    for id_ in (ONE, TWO, THREE):
        group.clean(id_, 70)
    collected = list(removal_leader.collect(group.leader))
    group._deliver(collected, 0, deaf=())
    lost = group.replicas[THREE]
    group.replicas[THREE] = replace(lost, removable=Removable(mtro=50))
    group.elect(THREE, Term(2))
    assert group.leader.removable.mtro == 50
    group.round()
    assert group.mtro() == {1: 70, 2: 70, 3: 70}


def test_new_leader_recomputes_only_after_hearing_from_all() -> None:
    """A new leader does not compute from those that happened to answer."""
    group = Group(3)
    for id_ in (ONE, TWO):
        group.clean(id_, 70)
    group.elect(TWO, Term(2))
    group.round(deaf=(THREE,))
    assert group.leader.removable.mtro == 0
    assert [member.id for member in group.leader.missing] == [THREE]


def test_deposed_leader_is_refused_and_steps_down() -> None:
    """A replica that knows a higher term refuses the old leader, which then stops."""
    group = Group(2)
    old = group.leader
    group.elect(TWO, Term(2))
    group.round()
    refusals = [
        removal_replica.receive(group.replicas[message.stamp.target.id], message, 0)[1]
        for message in removal_leader.collect(old)
        if isinstance(message, Collect)
    ]
    assert all(isinstance(refusal, Refusal) for refusal in refusals)
    refusal = refusals[1]
    assert isinstance(refusal, Refusal)
    old, _ = removal_leader.receive(old, refusal, 0)
    assert old.deposed
    assert removal_leader.collect(old) == ()


def test_leader_with_an_old_membership_is_refused_and_waits() -> None:
    """W1: a leader that does not know the newest member cannot collect from those that do."""
    group = Group(2)
    stale = group.membership
    group.join(THREE)
    group.round()
    group.membership, newest = stale, group.membership
    leader = group.elect(TWO, Term(2))
    refused, refusal = removal_replica.receive(group.replicas[ONE], group.asked(ONE), 0)
    assert refused == group.replicas[ONE]
    assert isinstance(refusal, Refusal)
    leader, _ = removal_leader.receive(leader, refusal, 0)
    assert not leader.may_decide
    leader, _ = removal_leader.change_membership(leader, newest)
    assert leader.may_decide


def test_report_of_an_earlier_life_does_not_count() -> None:
    """W8: a wiped replica under the next incarnation is not credited with what its earlier life reported."""
    group = Group(2)
    for id_ in (ONE, TWO):
        group.clean(id_, 100)
    _, late = removal_replica.receive(group.replicas[TWO], group.asked(TWO), 0)
    group.join(TWO)
    assert isinstance(late, Report)
    stamp = replace(late.stamp, membership=group.membership.version)
    leader, _ = removal_leader.receive(group.leader, replace(late, stamp=stamp), 0)
    assert leader.removable.mtro == 0


def test_older_manifest_is_ignored() -> None:
    """A report made from an older manifest than one already heard of changes nothing."""
    group = Group(1)
    early = removal_replica.receive(group.replicas[ONE], group.asked(ONE), 0)[1]
    group.clean(ONE, 30)
    group.round()
    assert isinstance(early, Report)
    leader, _ = removal_leader.receive(group.leader, early, 0)
    assert leader.heard[ONE].cleaned.mcco == 30


def test_truncation_clips_all_four_values_under_a_new_lineage() -> None:
    """The one legal decrease; what the old lineage said no longer counts on either side."""
    group = Group(2)
    for id_ in (ONE, TWO):
        group.clean(id_, 100, 90)
    group.round(now_ms=3)
    old_leader = group.leader
    late = Distribute(
        stamp=removal_leader.collect(old_leader)[0].stamp, removable=Removable(mtro=100, mxro=90)
    )
    history = LineageHistory().truncate(70, leader_thinned_to=100)
    for id_, state in group.replicas.items():
        group.replicas[id_] = state.truncated(70, history.current)
    assert {state.cleaned for state in group.replicas.values()} == {Cleaned(mcco=70, mxfo=70)}
    assert {state.removable for state in group.replicas.values()} == {Removable(mtro=70, mxro=70)}
    assert group.replicas[ONE].covered_since(69) == 3
    assert group.replicas[ONE].covered_since(70) is None
    state, answer = removal_replica.receive(group.replicas[ONE], late, 5)
    assert state == group.replicas[ONE]
    assert isinstance(answer, Refusal)
    assert removal_leader.receive(old_leader, answer, 5)[0].deposed
    group.elect(ONE, Term(2))
    group.round()
    assert group.mtro() == {1: 70, 2: 70}


def test_replica_of_an_older_lineage_stays_silent_until_it_has_truncated() -> None:
    """A replica that missed a truncation says nothing about offsets that now mean other records."""
    group = Group(2)
    group.replicas[ONE] = group.replicas[ONE].truncated(0, Lineage(2))
    group.elect(ONE, Term(2))
    state, answer = removal_replica.receive(group.replicas[TWO], group.asked(TWO), 0)
    assert answer is None
    assert state == group.replicas[TWO]


def test_membership_never_reuses_an_incarnation() -> None:
    """There is no way back for a fenced life: every join is a new incarnation and a new version."""
    membership = Membership.found(3)
    rejoined = membership.leave(TWO).join(TWO)
    assert rejoined.version == MembershipVersion(3)
    assert rejoined.current(TWO) == Replica(id=TWO, incarnation=Incarnation(2))
    assert membership.current(TWO) not in rejoined

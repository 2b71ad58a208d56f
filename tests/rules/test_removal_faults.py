"""The removal protocol under lost, late, repeated, reordered messages, crashes, stale leaders, lost disks.

Beside the protocol runs the truth: how clean every stretch of every replica's log really is.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.lab.coordination import Coordination
from holdfast.rules.removal import Cleaned, Removable, Unreported
from holdfast.rules.removal_replica import ReplicaState

IDS = st.integers(1, 5)
PICK = st.integers(0, 1_000)


@dataclass(slots=True)
class Stretch:
    """Offsets of one replica's log; no record in it is shadowed by one below `clean_to`."""

    start: int
    end: int
    clean_to: int


class Log:
    """What one replica really holds."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []

    @property
    def end(self) -> int:
        return self.stretches[-1].end if self.stretches else 0

    @property
    def clean_to(self) -> int:
        """Nothing that this replica holds is shadowed by a record below this offset."""
        return min((stretch.clean_to for stretch in self.stretches), default=10**9)

    def append(self, start: int, end: int, clean_to: int) -> None:
        self.stretches.append(Stretch(start, end, clean_to))

    def clean(self, to: int) -> None:
        for stretch in self.stretches:
            stretch.clean_to = max(stretch.clean_to, to)

    def copy_from(self, source: "Log", count: int) -> None:
        start, end = self.end, min(self.end + count, source.end)
        for stretch in source.stretches:
            if stretch.end > start and stretch.start < end:
                first = max(stretch.start, start)
                self.append(first, min(stretch.end, end), max(stretch.clean_to, first))

    def truncate(self, at: int) -> None:
        self.stretches = [
            Stretch(stretch.start, min(stretch.end, at), min(stretch.clean_to, at))
            for stretch in self.stretches
            if stretch.start < at
        ]

    def copy(self) -> "Log":
        log = Log()
        log.stretches = [Stretch(piece.start, piece.end, piece.clean_to) for piece in self.stretches]
        return log


class Protocol(RuleBasedStateMachine):
    """Random interleavings; the invariants are what every replica's readers rely on."""

    @initialize(count=st.integers(1, 4))
    def found(self, count: int) -> None:
        self.now_ms = 0
        self.group = Coordination(count)
        self.logs = {id_: Log() for id_ in self.group.nodes}
        self.snapshots: dict[int, tuple[ReplicaState, Log]] = {}
        self.leader = 1
        self.end = 0
        self.granted: dict[tuple[object, int], Removable] = {}
        self.group.elect(1, 0)

    def alive(self, id_: int) -> bool:
        return id_ in self.group.nodes and self.group.nodes[id_].alive

    def live(self) -> list[int]:
        return [id_ for id_ in self.group.nodes if self.alive(id_)]

    @rule(count=st.integers(1, 9), reads=st.booleans(), away=IDS)
    def tend(self, count: int, reads: bool, away: int) -> None:
        """All but one replica copy and clean, and the leader has an undisturbed round with them."""
        self.produce(count)
        for id_ in self.live():
            if id_ != away:
                self.replicate(id_, 100)
                self.clean(id_, 3)
        if self.alive(self.leader):
            if reads:
                self.group.read_membership(self.leader, self.now_ms)
            self._round(self.leader, away)

    def _round(self, leader: int, away: int) -> None:
        """What was on its way before stays so, and so does what goes to the replica that is away."""
        late, self.group.wire = self.group.wire, []
        self.group.collect(leader, self.now_ms)
        for id_ in [*self.live(), *self.live()]:
            if id_ != away:
                self.group.talk(leader, id_, self.now_ms)
        self.group.wire += late

    @rule(pick=PICK, away=IDS, reads=st.booleans())
    def round(self, pick: int, away: int, reads: bool) -> None:
        """Somebody who believes to lead has a round with all but one."""
        leaders = self.group.leaders()
        if leaders:
            leader = leaders[pick % len(leaders)]
            if reads:
                self.group.read_membership(leader, self.now_ms)
            self._round(leader, away)

    @rule(id_=IDS, pick=PICK)
    def admit(self, id_: int, pick: int) -> None:
        """A replica joins, and somebody who believes to lead has to do with it alone."""
        leaders = self.group.leaders()
        if leaders and id_ not in self.group.nodes:
            self.join(id_)
            leader = leaders[pick % len(leaders)]
            self.group.read_membership(leader, self.now_ms)
            self.group.collect(leader, self.now_ms)
            self.group.talk(leader, id_, self.now_ms)
            self.replicate(id_, 3)

    @rule(id_=IDS)
    def lose_disk(self, id_: int) -> None:
        """A replica that had a copy of its disk made gets it back."""
        if id_ in self.snapshots and self.alive(id_) and id_ != self.leader:
            self.group.crash(id_)
            self.restart(id_, put_back=True)

    @rule(count=st.integers(1, 9))
    def produce(self, count: int) -> None:
        if self.alive(self.leader):
            self.logs[self.leader].append(self.end, self.end + count, self.end)
            self.end += count

    @rule(id_=IDS, count=st.integers(1, 20))
    def replicate(self, id_: int, count: int) -> None:
        if id_ != self.leader and self.alive(self.leader) and self.group.may_fetch(id_):
            self.logs[id_].copy_from(self.logs[self.leader], count)
            self.group.copied(self.leader, id_)

    @rule(id_=IDS, share=st.integers(1, 3))
    def clean(self, id_: int, share: int) -> None:
        self.now_ms += 1
        if self.alive(id_) and self.group.may_fetch(id_):
            to = self.logs[id_].end * share // 3
            self.logs[id_].clean(to)
            self.group.nodes[id_].record.publish(Cleaned(mcco=to, mxfo=to), self.now_ms)

    @rule(id_=IDS)
    def elect(self, id_: int) -> None:
        if self.alive(id_) and self.logs[id_].end == self.end and self.group.may_fetch(id_):
            self.leader = id_
            self.group.elect(id_, self.now_ms)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        """The operator lets the log end earlier: offsets will be used again, under a new lineage."""
        if self.alive(self.leader):
            self.end = max(0, self.end - back)
            self.group.truncate(self.end, self.leader)
            for id_ in [id_ for id_ in self.group.nodes if self.alive(id_)]:
                self.logs[id_].truncate(self.end)
                if not self.group.follow_lineage(id_):
                    self.group.leave(id_)
                    self.group.join(id_)
                    self.logs[id_] = Log()
            self.group.elect(self.leader, self.now_ms)

    @rule(id_=IDS)
    def collect(self, id_: int) -> None:
        if self.alive(id_):
            self.group.collect(id_, self.now_ms)

    @precondition(lambda self: self.group.wire)
    @rule(index=PICK)
    def deliver(self, index: int) -> None:
        self.group.deliver(index % len(self.group.wire), self.now_ms)

    @precondition(lambda self: self.group.sent)
    @rule(picks=st.lists(PICK, min_size=1, max_size=6))
    def repeat(self, picks: list[int]) -> None:
        for pick in picks:
            self.group.repeat(pick % len(self.group.sent), self.now_ms)

    @rule(one=IDS, other=IDS)
    def talk(self, one: int, other: int) -> None:
        self.group.talk(one, other, self.now_ms)

    @precondition(lambda self: self.group.wire)
    @rule(index=PICK)
    def drop(self, index: int) -> None:
        self.group.drop(index % len(self.group.wire))

    @rule(id_=IDS)
    def read_membership(self, id_: int) -> None:
        if self.alive(id_):
            self.group.read_membership(id_, self.now_ms)

    @rule(id_=IDS)
    def snapshot(self, id_: int) -> None:
        if self.alive(id_):
            self.snapshots[id_] = (self.group.nodes[id_].state, self.logs[id_].copy())

    @rule(id_=IDS)
    def crash(self, id_: int) -> None:
        if self.alive(id_):
            self.group.crash(id_)

    @rule(id_=IDS, put_back=st.booleans())
    def restart(self, id_: int, put_back: bool) -> None:
        if id_ not in self.group.nodes or self.alive(id_):
            return
        saved = self.snapshots.get(id_)
        if put_back and saved is not None:
            self.group.nodes[id_].record.state = saved[0]
            self.logs[id_] = saved[1].copy()
        at = self.group.missed_truncation(id_)
        if self.group.restart(id_):
            if at is not None:
                self.logs[id_].truncate(at)
        elif len(self.group.nodes) > 1:
            self.logs[id_] = Log()
            self.group.join(id_)

    @rule(id_=IDS)
    def join(self, id_: int) -> None:
        if id_ not in self.group.nodes:
            self.group.join(id_)
            self.logs[id_] = Log()
            self.snapshots.pop(id_, None)

    @rule(id_=IDS)
    def leave(self, id_: int) -> None:
        if id_ in self.group.nodes and id_ != self.leader and len(self.group.nodes) > 1:
            self.group.leave(id_)
            del self.logs[id_]

    def current(self) -> list[int]:
        """Members that live in the newest lineage and are not lost with their disk."""
        newest = self.group.history.current
        return [id_ for id_, node in self.group.nodes.items() if node.alive and node.state.lineage == newest]

    @invariant()
    def nothing_is_granted_that_a_member_still_needs(self) -> None:
        """MTRO ≤ every member's MCCO, in truth and as said; likewise MXRO and MXFO."""
        if not hasattr(self, "group"):
            return
        states = {id_: self.group.nodes[id_].state for id_ in self.current()}
        mtro = max((state.removable.mtro for state in states.values()), default=0)
        mxro = max((state.removable.mxro for state in states.values()), default=0)
        for id_, state in states.items():
            if not isinstance(state.cleaned.mcco, Unreported) and not isinstance(
                state.cleaned.mxfo, Unreported
            ):
                assert state.cleaned.mcco <= self.logs[id_].clean_to
                assert mtro <= state.cleaned.mcco
                assert mxro <= state.cleaned.mxfo
            assert mtro <= self.logs[id_].clean_to

    @invariant()
    def values_never_go_back_within_a_lineage(self) -> None:
        """A life's removal offsets only rise while the lineage is the same, over crashes too."""
        if not hasattr(self, "group"):
            return
        for id_ in self.current():
            state = self.group.nodes[id_].state
            before = self.granted.get((state.me, state.lineage), Removable())
            assert state.removable.mtro >= before.mtro
            assert state.removable.mxro >= before.mxro
            self.granted[state.me, state.lineage] = state.removable

    def teardown(self) -> None:
        """Once all are back and the wire is whole, the group's value reaches the lowest report everywhere."""
        if not hasattr(self, "group"):
            return
        for id_ in list(self.group.nodes):
            self.restart(id_, put_back=False)
        if not self.alive(self.leader) or self.group.nodes[self.leader].state.me not in self.group.membership:
            return
        self.group.elect(self.leader, self.now_ms)
        self.group.converge(self.now_ms)
        states = [node.state for node in self.group.nodes.values()]
        lowest = [state.cleaned.mcco for state in states if not isinstance(state.cleaned.mcco, Unreported)]
        assert len(lowest) == len(states)
        assert {state.removable.mtro for state in states} == {min(lowest)}
        self.nothing_is_granted_that_a_member_still_needs()


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(max_examples=300, stateful_step_count=60)

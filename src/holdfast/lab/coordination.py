"""The removal protocol among simulated replicas; the caller decides the fate of every message on the wire.

What is recorded for the whole group (membership, lineage, leases, the highest term) is one truth here, as a
control plane or a controller quorum would keep it. Everything else is known only to those whom a message has
reached: a replica that was deposed leads on until it hears of it, and a leader may work from a membership
that is out of date.
"""

from dataclasses import dataclass
from operator import is_

from holdfast.rules import removal_leader, removal_replica
from holdfast.rules.coordinated_policy import RemovalRecord
from holdfast.rules.lineage import LineageHistory
from holdfast.rules.membership import Lease, Membership, Replica, ReplicaId
from holdfast.rules.removal import Collect, Distribute, Message, Term
from holdfast.rules.removal_leader import LeaderState
from holdfast.rules.removal_replica import ReplicaState

ROUNDS_MAX = 8
DELIVERIES_MAX = 2_000
"""Far more than a round of the largest group takes: each message has at most one answer."""


class Unsettled(Exception):
    """The protocol goes on without end; with all its guards it never does."""


TALK_MAX = 64


@dataclass(slots=True, kw_only=True)
class Node:
    """One replica's part in the protocol. A crash keeps `record` and loses `leader`."""

    record: RemovalRecord
    known: Membership
    leader: LeaderState | None = None
    alive: bool = True

    @property
    def state(self) -> ReplicaState:
        """What the replica remembers."""
        return self.record.state


class Coordination:
    """All replicas of one partition, and the messages between them that are on their way."""

    def __init__(self, count: int) -> None:
        self.membership = Membership.found(count)
        self.history = LineageHistory()
        self.term = Term(0)
        self.wire: list[Message] = []
        self.sent: list[Message] = []
        """Every message that was ever on the wire: a copy of it may arrive at any time."""
        self.nodes: dict[int, Node] = {}
        self.leases: dict[int, Lease] = {}
        for replica in self.membership.replicas:
            record = RemovalRecord(state=ReplicaState.founding(replica, self.membership))
            self.nodes[replica.id] = Node(record=record, known=self.membership)

    def elect(self, id_: int, now_ms: int) -> None:
        """Replica `id_` leads from now on, by what it knows; whoever led before has yet to hear of it."""
        node = self.nodes[id_]
        self.term = Term(self.term + 1)
        node.leader = removal_leader.lead(node.state, self.term, node.known, now_ms)

    def leaders(self) -> list[int]:
        """Those that believe that they lead, the rightful one included."""
        return [
            id_
            for id_, node in self.nodes.items()
            if node.alive and node.leader is not None and not node.leader.deposed
        ]

    def collect(self, id_: int, now_ms: int) -> None:
        """A leader sends one round of messages."""
        node = self.nodes[id_]
        if node.alive and node.leader is not None:
            self._send(removal_leader.collect(node.leader), now_ms)

    def deliver(self, index: int, now_ms: int) -> None:
        """The message at `index` of the wire arrives."""
        self._receive(self.wire.pop(index), now_ms)

    def repeat(self, index: int, now_ms: int) -> None:
        """A copy of a message that was sent before arrives, `index` counting from the last one sent."""
        self._receive(self.sent[-1 - index], now_ms)

    def drop(self, index: int) -> None:
        """The message at `index` of the wire is lost."""
        self.wire.pop(index)

    def talk(self, one: int, other: int, now_ms: int) -> None:
        """All that is on its way between two nodes arrives in order, and so do the answers."""
        pair = (one, other)
        for _ in range(TALK_MAX):
            for index, message in enumerate(self.wire):
                if message.stamp.sender.id in pair and message.stamp.target.id in pair:
                    self.deliver(index, now_ms)
                    break
            else:
                return

    def join(self, id_: int) -> Replica:
        """Record a new life of `id_` as a member; it copies nothing before a leader has given it a start."""
        self.membership = self.membership.join(ReplicaId(id_))
        life = self.membership.current(ReplicaId(id_))
        assert life is not None
        state = ReplicaState.joining(life, self.membership, self.history.current)
        self.nodes[id_] = Node(record=RemovalRecord(state=state), known=self.membership)
        return life

    def leave(self, id_: int) -> None:
        """Remove or fence `id_`: it stops counting, and only a new life of it can come back."""
        self.membership = self.membership.leave(ReplicaId(id_))
        del self.nodes[id_]

    def read_membership(self, id_: int, now_ms: int) -> None:
        """A node reads what is recorded; if it leads, the change takes effect."""
        node = self.nodes[id_]
        node.known = self.membership
        if node.leader is not None:
            node.leader, messages = removal_leader.change_membership(node.leader, node.known)
            self._send(messages, now_ms)

    def may_fetch(self, id_: int) -> bool:
        """A replica copies only once it has its start and while it is a member in this lineage."""
        node = self.nodes.get(id_)
        return (
            node is not None
            and node.alive
            and node.state.may_copy
            and node.state.lineage == self.history.current
        )

    def copied(self, source: int, target: int) -> None:
        """`target` has copied something from `source`."""
        node = self.nodes[target]
        node.record.state = node.state.copied_from(self.nodes[source].state)

    def crash(self, id_: int) -> None:
        """The process is gone, the disk stays."""
        node = self.nodes[id_]
        node.alive = False
        node.leader = None
        self.leases[id_] = Lease(replica=node.state.me, generation=node.state.generation)

    def restart(self, id_: int) -> bool:
        """The process is back; False if its disk is of no use any more: wipe it and join anew.

        That is so if the disk was put back to an older state, or cannot follow a truncation that it missed.
        """
        node = self.nodes[id_]
        lease = self.leases[id_].renew(node.state.me, node.state.generation)
        node.alive = lease is not None and self.follow_lineage(id_)
        return node.alive

    def truncate(self, at: int, leader: int) -> None:
        """An operator lets the leader's log end at `at`; the others have yet to follow the new lineage."""
        state = self.nodes[leader].state
        self.history = self.history.truncate(at, leader_thinned_to=state.thinned_to)
        self.nodes[leader].record.state = state.truncated(at, self.history.current)

    def missed_truncation(self, id_: int) -> int | None:
        """Where a replica's log must end before it says or shows anything; None if it missed nothing."""
        return self.history.clip_since(self.nodes[id_].state.lineage)

    def follow_lineage(self, id_: int) -> bool:
        """Clip a replica's values by the truncations that it missed; False if it must be rebuilt instead."""
        node = self.nodes[id_]
        node.leader = None
        at = self.history.clip_since(node.state.lineage)
        if at is None:
            return True
        if not self.history.may_follow(node.state.lineage, node.state.thinned_to):
            return False
        node.record.state = node.state.truncated(at, self.history.current)
        return True

    def converge(self, now_ms: int) -> None:
        """Rounds of the rightful leader over a wire without faults, until nobody learns anything new."""
        for _ in range(ROUNDS_MAX):
            before = [node.state for node in self.nodes.values()]
            for id_ in self.leaders():
                self.read_membership(id_, now_ms)
                self.collect(id_, now_ms)
            self._deliver_all(now_ms)
            now = [node.state for node in self.nodes.values()]
            if self._at_one(now) or all(map(is_, before, now)):
                return

    def _deliver_all(self, now_ms: int) -> None:
        for _ in range(DELIVERIES_MAX):
            if not self.wire:
                return
            self.deliver(0, now_ms)
        raise Unsettled(f"{DELIVERIES_MAX} messages later there is still one on its way")

    def _at_one(self, states: list[ReplicaState]) -> bool:
        """One leader has heard from all, and all have its values."""
        leaders = [self.nodes[id_].leader for id_ in self.leaders()]
        return (
            len(leaders) == 1
            and leaders[0] is not None
            and not leaders[0].missing
            and all(state.may_copy and state.removable == leaders[0].removable for state in states)
        )

    def _send(self, messages: tuple[Message, ...], now_ms: int) -> None:
        """Put messages on the wire; those of a node to itself arrive at once."""
        for message in messages:
            if message.stamp.sender == message.stamp.target:
                self._receive(message, now_ms)
            else:
                self.wire.append(message)
                self.sent.append(message)

    def _receive(self, message: Message, now_ms: int) -> None:
        node = self.nodes.get(message.stamp.target.id)
        if node is None or not node.alive:
            return
        if isinstance(message, Collect | Distribute):
            node.record.state, answer = removal_replica.receive(node.state, message, now_ms)
            self._send((answer,) if answer is not None else (), now_ms)
        elif node.leader is not None:
            node.leader, messages = removal_leader.receive(node.leader, message, now_ms)
            self._send(messages, now_ms)

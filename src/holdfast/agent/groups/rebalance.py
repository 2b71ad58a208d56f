"""How one group gets from generation to generation: everybody joins, the leader assigns, everybody syncs."""

from holdfast.agent.groups.messages import (
    Answer,
    Effect,
    GroupLimits,
    GroupState,
    Joined,
    Refuse,
    Save,
    Synced,
    Ticket,
)
from holdfast.agent.groups.roster import Member, Roster
from holdfast.errors import KafkaRefusal, RebalanceInProgress, UnknownMemberId
from holdfast.store.footer import GroupSaved


class Rebalance:
    """The phases of a group and what is due in each; it trusts its caller to have checked the request.

    A generation counts only when it is durable: syncs are answered after `saved`, so no member ever acts on
    an assignment that a restart would not know.
    """

    def __init__(self, group: str, roster: Roster, limits: GroupLimits) -> None:
        self.group = group
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.deadline_ms: int | None = None
        """When the phase ends with whoever is there."""
        self.effects: list[Effect] = []
        self.is_saved = True
        """Whether what would be restored is what is here; only asked of an empty group."""
        self._roster = roster
        self._limits = limits
        self._initial_left_ms: int | None = None
        self._has_newcomer = False
        self._revision = 0
        self._assigning: int | None = None
        self._held: dict[int, Answer] = {}

    def prepare(self, now_ms: int) -> None:
        """Begin a rebalance: everybody has to join again, in the time that the slowest has asked for."""
        was_empty = self.state is GroupState.EMPTY
        self._assigning = None
        for member in self._roster:
            member.owes_sync = False
            if member.syncing is not None:
                refusal = RebalanceInProgress("the group has begun another rebalance")
                self.effects.append(Refuse(member.syncing, refusal))
                member.syncing = None
                self._roster.keep_alive(member, now_ms)
        self.state = GroupState.PREPARING_REBALANCE
        timeout_ms = self._roster.rebalance_timeout_ms
        delay_ms = min(self._limits.initial_rebalance_delay_ms, timeout_ms)
        if was_empty and delay_ms:
            # The first members of a group tend to come together: one generation for all of them.
            self._initial_left_ms = timeout_ms - delay_ms
            self._has_newcomer = False
            timeout_ms = delay_ms
        self.deadline_ms = now_ms + timeout_ms
        self.complete_if_joined(now_ms)

    def welcome(self) -> None:
        """A new member has come; the first members' time to gather may be extended for it."""
        self._has_newcomer = True

    def begin_or_complete(self, now_ms: int) -> None:
        """The members have changed: rebalance, or end a joining that waited only for that."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_joined(now_ms)
        else:
            self.prepare(now_ms)

    def complete_if_joined(self, now_ms: int) -> None:
        """End the joining as soon as nobody is missing."""
        if (
            self.state is GroupState.PREPARING_REBALANCE
            and self._initial_left_ms is None
            and not self._roster.pending
            and all(member.joining is not None for member in self._roster)
        ):
            self._complete(now_ms)

    def expire(self, now_ms: int) -> None:
        """Act on the phase's deadline if it has come."""
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._drop_laggards(now_ms)
        elif self._initial_left_ms and self._has_newcomer:
            extension_ms = min(self._limits.initial_rebalance_delay_ms, self._initial_left_ms)
            self._initial_left_ms -= extension_ms
            self._has_newcomer = False
            self.deadline_ms = now_ms + extension_ms
        else:
            self._complete(now_ms)

    def _complete(self, now_ms: int) -> None:
        """The next generation, of those who have joined; static members keep their place all the same."""
        self._initial_left_ms = None
        for member in self._roster:
            if member.joining is None and member.instance_id is None:
                self._roster.remove(member)
        if len(self._roster) and not self._roster.elect():
            # Only static members, and none is back: there is no one to lead until one is, or all expire.
            self.deadline_ms = now_ms + self._roster.rebalance_timeout_ms
            return
        self.generation += 1
        if not len(self._roster):
            self.state = GroupState.EMPTY
            self.protocol = self.deadline_ms = None
            self.save()
            return
        self.state = GroupState.COMPLETING_REBALANCE
        self.protocol = self._roster.select_protocol()
        self.deadline_ms = now_ms + self._roster.rebalance_timeout_ms
        for member in self._roster:
            member.assignment = b""
            if member.joining is not None:
                ticket, member.joining = member.joining, None
                member.owes_sync = True
                self.answer_join(ticket, member, now_ms)

    def answer_join(self, ticket: Ticket, member: Member, now_ms: int) -> None:
        """Tell a member about the current generation."""
        self.effects.append(Answer(ticket, self.joined(member)))
        self._roster.keep_alive(member, now_ms)

    def joined(self, member: Member) -> Joined:
        """The current generation as one member sees it."""
        assert self.protocol is not None
        assert self._roster.leader is not None
        is_leader = member.member_id == self._roster.leader
        return Joined(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self._roster.leader,
            member_id=member.member_id,
            members=self._roster.describe(self.protocol) if is_leader else (),
        )

    def sync(self, ticket: Ticket, member: Member, assignments: dict[str, bytes], now_ms: int) -> None:
        """Give a member its assignment when there is one; the leader's sync brings it."""
        member.owes_sync = False
        if member.syncing is not None:
            self.effects.append(Refuse(member.syncing, RebalanceInProgress("the member has asked again")))
            member.syncing = None
        if self.state is GroupState.STABLE:
            self._answer_sync(ticket, member, now_ms)
            return
        member.syncing = ticket
        if member.member_id == self._roster.leader and self._assigning is None:
            for each in self._roster:
                each.assignment = assignments.get(each.member_id, b"")
            self._assigning = self.save()

    def _answer_sync(self, ticket: Ticket, member: Member, now_ms: int) -> None:
        assert self.protocol is not None
        synced = Synced(
            protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment
        )
        self.effects.append(Answer(ticket, synced))
        self._roster.keep_alive(member, now_ms)

    def _drop_laggards(self, now_ms: int) -> None:
        """Members that were told of a generation and never asked for their part hold everybody up."""
        self.deadline_ms = None
        laggards = [member for member in self._roster if member.owes_sync]
        for member in laggards:
            self.dismiss(member, UnknownMemberId("no SyncGroup within the rebalance timeout"))
        if laggards:
            self.prepare(now_ms)

    def dismiss(self, member: Member, refusal: KafkaRefusal) -> None:
        """Take a member out; its waiting requests are refused."""
        self.refuse_waiting(member, refusal)
        self._roster.remove(member)

    def refuse_waiting(self, member: Member, refusal: KafkaRefusal) -> None:
        """Nothing of this member waits any longer."""
        for ticket in (member.joining, member.syncing):
            if ticket is not None:
                self.effects.append(Refuse(ticket, refusal))
        member.joining = member.syncing = None

    def save(self, held: Answer | None = None) -> int:
        """Have the group made durable; `held` is sent when it is. The revision that `saved` will name."""
        self._revision += 1
        self.is_saved = False
        if held is not None:
            self._held[self._revision] = held
        snapshot = GroupSaved(
            self.group,
            self.generation,
            self.protocol_type,
            self.protocol,
            self._roster.leader,
            tuple(member.save() for member in self._roster),
            saved_ms=0,
        )
        self.effects.append(Save(self._revision, snapshot))
        return self._revision

    def saved(self, revision: int, failure: KafkaRefusal | None, now_ms: int) -> None:
        """A revision is durable, or could not be made so."""
        if failure is None and revision == self._revision:
            self.is_saved = True
        held = self._held.pop(revision, None)
        if held is not None:
            self.effects.append(held if failure is None else Refuse(held.ticket, failure))
        if revision != self._assigning:
            return
        self._assigning = None
        if failure is not None:
            for member in self._roster:
                self.refuse_waiting(member, failure)
                self._roster.keep_alive(member, now_ms)
            self.prepare(now_ms)
            return
        self.state = GroupState.STABLE
        for member in self._roster:
            if member.syncing is not None:
                ticket, member.syncing = member.syncing, None
                self._answer_sync(ticket, member, now_ms)

    def restore(self, saved: GroupSaved, now_ms: int) -> None:
        """Go on where a rebalance left the group; every member has its whole session timeout to show up."""
        self.generation = saved.generation
        self.protocol_type = saved.protocol_type
        self.protocol = saved.protocol
        for row in saved.members:
            member = Member.restore(row)
            self._roster.add(member)
            self._roster.keep_alive(member, now_ms)
        if saved.members:
            self._roster.leader = saved.leader
            self.state = GroupState.STABLE

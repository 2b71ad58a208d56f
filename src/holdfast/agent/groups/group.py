"""One classic consumer group: who may join, sync, heartbeat, leave and commit, exactly as Kafka answers.

No clock, no socket, no disk: times are handed in, and what has to happen outside is handed out as effects.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.agent.groups.admission import Admission, topics_of
from holdfast.agent.groups.messages import (
    Caller,
    Effect,
    GroupLimits,
    GroupState,
    Join,
    Leaver,
    Refuse,
    Sync,
    Ticket,
)
from holdfast.agent.groups.rebalance import Rebalance
from holdfast.agent.groups.roster import Member, Roster
from holdfast.errors import (
    CoordinatorNotAvailable,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    KafkaRefusal,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from holdfast.store.footer import GroupMember, GroupSaved


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as DescribeGroups shows it; members carry metadata and assignment only while it is stable."""

    state: GroupState
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]


class Group:
    """`join` and `sync` answer by effects, now or later; the other requests return or raise at once.

    `take_effects` must be called after every other call, `expire` when `deadline_ms` has come, and `saved`
    for every Save, in their order.
    """

    def __init__(self, group: str, *, limits: GroupLimits, new_id: Callable[[], str]) -> None:
        self._limits = limits
        self._roster = Roster()
        self._rebalance = Rebalance(group, self._roster, limits)
        self._admission = Admission(self._roster, self._rebalance, limits=limits, new_id=new_id)

    @classmethod
    def restore(
        cls, saved: GroupSaved, *, limits: GroupLimits, new_id: Callable[[], str], now_ms: int
    ) -> "Group":
        """The group as it was saved last."""
        group = cls(saved.group, limits=limits, new_id=new_id)
        group._rebalance.restore(saved, now_ms)
        return group

    @property
    def state(self) -> GroupState:
        """Where it stands."""
        return self._rebalance.state

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost if it were forgotten here and restored when somebody asks for it."""
        return self.state is GroupState.EMPTY and not self._roster.pending and self._rebalance.is_saved

    @property
    def deadline_ms(self) -> int | None:
        """When `expire` has something to look at, at the earliest."""
        phase_end_ms, expiry_ms = self._rebalance.deadline_ms, self._roster.expiry_ms
        times = (phase_end_ms, expiry_ms, *self._roster.pending.values())
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def take_effects(self) -> list[Effect]:
        """What has to happen outside, in order; handed out once."""
        effects, self._rebalance.effects = self._rebalance.effects, []
        return effects

    def join(self, ticket: Ticket, join: Join, now_ms: int) -> None:
        """JoinGroup: answered when the generation begins, or with a refusal."""
        try:
            self._check_alive()
            self._admission.join(ticket, join, now_ms)
        except KafkaRefusal as refusal:
            self._rebalance.effects.append(Refuse(ticket, refusal))
            # The group may have waited for this very member, who was promised a place and gets none.
            self._rebalance.complete_if_joined(now_ms)

    def sync(self, ticket: Ticket, sync: Sync, now_ms: int) -> None:
        """SyncGroup: answered when the assignment is durable, or with a refusal."""
        try:
            self._check_alive()
            member = self._check_member(sync.caller)
            self._check_sync(sync)
            if self.state is GroupState.PREPARING_REBALANCE:
                raise RebalanceInProgress("the group is rebalancing")
            self._rebalance.sync(ticket, member, sync.assignments, now_ms)
        except KafkaRefusal as refusal:
            self._rebalance.effects.append(Refuse(ticket, refusal))

    def heartbeat(self, caller: Caller, now_ms: int) -> None:
        """Heartbeat: the session goes on; RebalanceInProgress tells the member to join again."""
        self._check_alive()
        self._roster.keep_alive(self._check_member(caller), now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress("the group is rebalancing")

    def leave(self, leavers: Sequence[Leaver], now_ms: int) -> list[KafkaRefusal | None]:
        """LeaveGroup: one refusal or None for each, in order; one rebalance for all who go."""
        self._check_alive()
        results: list[KafkaRefusal | None] = []
        size = len(self._roster)
        for leaver in leavers:
            try:
                self._leave(leaver)
                results.append(None)
            except KafkaRefusal as refusal:
                results.append(refusal)
        self._close_ranks(size, now_ms)
        return results

    def check_commit(self, caller: Caller, now_ms: int, *, transactional: bool = False) -> None:
        """OffsetCommit: raise unless this caller may commit now. A commit counts as a heartbeat.

        Without a generation it comes from a tool, or from a consumer that assigns partitions to itself: fine
        as long as the group has no members whose positions it would move. In a transaction it may be a producer
        from before KIP-447, which cannot say on whose behalf it commits; nor does a rebalance matter there.
        """
        self._check_alive()
        if caller.generation < 0 and self.state is GroupState.EMPTY:
            return
        if caller.generation < 0 and not caller.member_id and caller.instance_id is None:
            if transactional:
                return
            raise UnknownMemberId("the group has members, and the caller is none of them")
        member = self._check_member(caller)
        if self.state is GroupState.COMPLETING_REBALANCE and not transactional:
            raise RebalanceInProgress("the member has not asked for its assignment yet")
        self._roster.keep_alive(member, now_ms)

    def abandon(self, ticket: Ticket, now_ms: int) -> None:
        """The connection that waited is gone; the member may come back on another within its session."""
        for member in self._roster:
            if ticket in (member.joining, member.syncing):
                member.joining = member.syncing = None
                self._roster.keep_alive(member, now_ms)

    def expire(self, now_ms: int) -> None:
        """Act on everything whose time has come."""
        size = len(self._roster)
        for member in self._roster.expired(now_ms):
            self._rebalance.dismiss(member, UnknownMemberId("no heartbeat within the session timeout"))
        self._roster.forget_overdue(now_ms)
        self._close_ranks(size, now_ms)
        self._rebalance.expire(now_ms)

    def saved(self, revision: int, failure: KafkaRefusal | None, now_ms: int) -> None:
        """What a Save asked for is durable, or has failed."""
        self._rebalance.saved(revision, failure, now_ms)

    def begin_delete(self) -> None:
        """The group takes no request from here on; NonEmptyGroup if it has members."""
        self._check_alive()
        if self.state is not GroupState.EMPTY:
            raise NonEmptyGroup(f"the group has {len(self._roster)} members")
        self._rebalance.state = GroupState.DEAD

    def cancel_delete(self) -> None:
        """The group could not be deleted and is served again."""
        self._rebalance.state = GroupState.EMPTY

    def describe(self) -> GroupDescription:
        """The group as others see it."""
        is_stable = self.state is GroupState.STABLE
        members = (member.save() for member in self._roster)
        return GroupDescription(
            state=self.state,
            protocol_type=self._rebalance.protocol_type,
            protocol=self._rebalance.protocol or "" if is_stable else "",
            members=tuple(m if is_stable else m._replace(protocols=(), assignment=b"") for m in members),
        )

    def subscribes(self, topic: str) -> bool:
        """Whether a consumer of the group reads the topic, as far as can be told: in doubt it does."""
        subscriptions = [topics_of(self._rebalance.protocol, member) for member in self._roster]
        return any(topics is None or topic in topics for topics in subscriptions)

    def _check_alive(self) -> None:
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable("the group is being deleted")

    def _check_member(self, caller: Caller) -> Member:
        member = self._roster.check(caller.member_id, caller.instance_id)
        if caller.generation != self._rebalance.generation:
            raise IllegalGeneration(
                f"generation {caller.generation}, the group is at {self._rebalance.generation}"
            )
        return member

    def _check_sync(self, sync: Sync) -> None:
        for named, chosen in (
            (sync.protocol_type, self._rebalance.protocol_type),
            (sync.protocol, self._rebalance.protocol),
        ):
            if named is not None and named != chosen:
                raise InconsistentGroupProtocol(f"{named!r}, the group has chosen {chosen!r}")
        if max(map(len, sync.assignments.values()), default=0) > self._limits.member_bytes_max:
            raise InvalidRequest(f"an assignment of more than {self._limits.member_bytes_max} bytes")

    def _leave(self, leaver: Leaver) -> None:
        if leaver.instance_id is None and leaver.member_id in self._roster.pending:
            del self._roster.pending[leaver.member_id]
            return
        static = self._roster.find_static(leaver.instance_id) if not leaver.member_id else None
        member = static or self._roster.check(leaver.member_id, leaver.instance_id)
        self._rebalance.dismiss(member, UnknownMemberId("the member has left the group"))

    def _close_ranks(self, size_before: int, now_ms: int) -> None:
        """Rebalance if members have gone; a joining may have waited only for them, or for a pending id."""
        has_generation = self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)
        if has_generation and len(self._roster) < size_before:
            self._rebalance.prepare(now_ms)
        else:
            self._rebalance.complete_if_joined(now_ms)

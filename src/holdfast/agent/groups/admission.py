"""JoinGroup: who becomes a member, who joins again, and who takes over a static member's place."""

from collections.abc import Callable
from dataclasses import replace

from holdfast.agent.groups.messages import Answer, GroupLimits, GroupState, Join, Ticket
from holdfast.agent.groups.rebalance import Rebalance
from holdfast.agent.groups.roster import Member, Roster
from holdfast.agent.groups.subscription import CONSUMER, subscribed_topics
from holdfast.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
)


class Admission:
    """The door of one group. A refusal is raised; everything else is answered by the rebalance."""

    def __init__(
        self, roster: Roster, rebalance: Rebalance, *, limits: GroupLimits, new_id: Callable[[], str]
    ) -> None:
        self._roster = roster
        self._rebalance = rebalance
        self._limits = limits
        self._new_id = new_id

    def join(self, ticket: Ticket, join: Join, now_ms: int) -> None:
        """Let the member in, now or with the next generation."""
        self._check_join(join)
        if join.member_id in self._roster.pending and join.instance_id is None:
            del self._roster.pending[join.member_id]
            self._admit(ticket, join, join.member_id, now_ms)
        elif join.member_id:
            self._rejoin(ticket, join, self._roster.check(join.member_id, join.instance_id), now_ms)
        elif (static := self._roster.find_static(join.instance_id)) is not None:
            self._replace(ticket, join, static, now_ms)
        else:
            self._introduce(ticket, join, now_ms)

    def _introduce(self, ticket: Ticket, join: Join, now_ms: int) -> None:
        """Somebody new; by way of an id of its own, so that a retry does not leave a member behind."""
        member_id = f"{join.instance_id or join.client_id}-{self._new_id()}"
        if join.instance_id is not None or not join.needs_known_id:
            self._admit(ticket, join, member_id, now_ms)
            return
        self._check_room(len(self._roster.pending))
        self._check_room(len(self._roster))
        self._roster.pending[member_id] = now_ms + join.session_timeout_ms
        raise MemberIdRequired(member_id)

    def _check_room(self, taken: int) -> None:
        if taken >= self._limits.members_max:
            raise GroupMaxSizeReached(f"the group takes no more than {self._limits.members_max} members")

    def _admit(self, ticket: Ticket, join: Join, member_id: str, now_ms: int) -> None:
        self._check_room(len(self._roster))
        if not len(self._roster):
            self._rebalance.protocol_type = join.protocol_type
        self._roster.add(
            Member(
                member_id=member_id,
                instance_id=join.instance_id,
                client_id=join.client_id,
                client_host=join.client_host,
                session_timeout_ms=join.session_timeout_ms,
                rebalance_timeout_ms=join.rebalance_timeout_ms,
                protocols=join.protocols,
                joining=ticket,
            )
        )
        self._rebalance.welcome()
        self._rebalance.begin_or_complete(now_ms)

    def _rejoin(self, ticket: Ticket, join: Join, member: Member, now_ms: int) -> None:
        """A member joins again: for the coming generation, or because it missed an answer."""
        state = self._rebalance.state
        is_same = member.protocols == join.protocols
        is_leader = member.member_id == self._roster.leader
        if (state is GroupState.COMPLETING_REBALANCE and is_same) or (
            state is GroupState.STABLE and is_same and not is_leader
        ):
            self._rebalance.answer_join(ticket, member, now_ms)
            return
        self._rebalance.refuse_waiting(member, RebalanceInProgress("the member has asked again"))
        member.update(join)
        member.joining = ticket
        self._rebalance.begin_or_complete(now_ms)

    def _replace(self, ticket: Ticket, join: Join, member: Member, now_ms: int) -> None:
        """A static member is back under a new id; whoever had the old one is fenced (KIP-345).

        A stable group need not rebalance for it, as long as the group would choose the same protocol and the
        member still reads the same topics: it gets the assignment that it had.
        """
        rebalance = self._rebalance
        old_leader = self._roster.leader
        old_topics = topics_of(rebalance.protocol, member)
        rebalance.refuse_waiting(member, FencedInstanceId(f"{join.instance_id!r} has a new process"))
        self._roster.rename(member, f"{join.instance_id}-{self._new_id()}")
        member.update(join)
        if (
            rebalance.state is not GroupState.STABLE
            or self._roster.select_protocol() != rebalance.protocol
            or (rebalance.protocol_type == CONSUMER and topics_of(rebalance.protocol, member) != old_topics)
        ):
            member.joining = ticket
            rebalance.begin_or_complete(now_ms)
            return
        self._roster.keep_alive(member, now_ms)
        joined = rebalance.joined(member)
        if joined.members and join.may_skip_assignment:
            joined = replace(joined, skip_assignment=True)
        elif joined.members:
            # It would assign if it knew that it leads, and there is nothing to assign: name the id it had.
            joined = replace(joined, leader=old_leader or "", members=())
        rebalance.save(held=Answer(ticket, joined))

    def _check_join(self, join: Join) -> None:
        limits = self._limits
        if not limits.session_timeout_ms_min <= join.session_timeout_ms <= limits.session_timeout_ms_max:
            raise InvalidSessionTimeout(
                f"{join.session_timeout_ms} ms: {limits.session_timeout_ms_min} to"
                f" {limits.session_timeout_ms_max} are possible"
            )
        if sum(len(name) + len(metadata) for name, metadata in join.protocols) > limits.member_bytes_max:
            raise InvalidRequest(f"more than {limits.member_bytes_max} bytes of metadata")
        has_type = len(self._roster) == 0 or join.protocol_type == self._rebalance.protocol_type
        if not has_type or not join.protocol_type or not join.protocols:
            raise InconsistentGroupProtocol(f"a member of type {join.protocol_type!r} does not fit")
        if not self._roster.shares_protocol(join.protocols):
            raise InconsistentGroupProtocol("no protocol in common with the members that are there")


def topics_of(protocol: str | None, member: Member) -> frozenset[str] | None:
    """What a consumer subscribes to; None if that cannot be told."""
    return subscribed_topics(member.metadata(protocol))

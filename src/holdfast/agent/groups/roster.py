"""The members of one group: who is there, who leads, what they have in common."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.agent.groups.messages import Join, JoinedMember, Ticket
from holdfast.errors import FencedInstanceId, UnknownMemberId
from holdfast.store.footer import GroupMember, GroupProtocol

REBALANCE_TIMEOUT_MS_MIN = 100
"""A client that grants no time at all must not make its group spin."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. At most one of its requests waits at a time; meanwhile its session does not expire."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes = b""
    joining: Ticket | None = None
    syncing: Ticket | None = None
    owes_sync: bool = False
    """It was told of the generation and has not asked for its assignment yet."""
    expires_ms: int = 0

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it waits."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What it said about itself under a protocol."""
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def update(self, join: Join) -> None:
        """Take over what a new join says."""
        self.client_id = join.client_id
        self.client_host = join.client_host
        self.session_timeout_ms = join.session_timeout_ms
        self.rebalance_timeout_ms = join.rebalance_timeout_ms
        self.protocols = join.protocols

    def save(self) -> GroupMember:
        """The member as it is kept."""
        return GroupMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocols,
            self.assignment,
        )

    @classmethod
    def restore(cls, saved: GroupMember) -> "Member":
        """The member that was kept; none of its requests waits."""
        return cls(**saved._asdict())


class Roster:
    """Members in the order in which they came, with a leader whenever there are any."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self.leader: str | None = None
        self.pending: dict[str, int] = {}
        """Ids that new members were given to join with (KIP-394), and until when they may."""
        self.expiry_ms: int | None = None
        """No session ends before this; heartbeats move sessions on and leave it alone."""

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def find_static(self, instance_id: str | None) -> Member | None:
        """The member that goes by an instance id."""
        member_id = self._static.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self._members[member_id]

    def check(self, member_id: str, instance_id: str | None) -> Member:
        """The member; FencedInstanceId if another has its instance id, UnknownMemberId if it is not here."""
        if instance_id is not None:
            static = self.find_static(instance_id)
            if static is None:
                raise UnknownMemberId(f"no static member {instance_id!r} in the group")
            if static.member_id != member_id:
                raise FencedInstanceId(f"{instance_id!r} is now {static.member_id!r}")
        member = self._members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"no member {member_id!r} in the group")
        return member

    def add(self, member: Member) -> None:
        """A new member; the first one leads."""
        assert member.member_id not in self._members
        self._members[member.member_id] = member
        if member.instance_id is not None:
            assert member.instance_id not in self._static
            self._static[member.instance_id] = member.member_id
        self.leader = self.leader or member.member_id

    def remove(self, member: Member) -> None:
        """The member leaves; the oldest of the others leads if it was the leader."""
        del self._members[member.member_id]
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self._members), None)

    def forget_overdue(self, now_ms: int) -> None:
        """Forget the ids that nobody has joined with in time."""
        self.pending = {member_id: until for member_id, until in self.pending.items() if until > now_ms}

    def rename(self, member: Member, member_id: str) -> None:
        """A static member gets a new id and keeps its place, its lead included."""
        assert member.instance_id is not None
        was_leader = self.leader == member.member_id
        self._members = {member_id if m is member else key: m for key, m in self._members.items()}
        self._static[member.instance_id] = member_id
        member.member_id = member_id
        if was_leader:
            self.leader = member_id

    def elect(self) -> bool:
        """Have a leader that waits for the next generation; False if nobody waits."""
        waiting = [member.member_id for member in self if member.joining is not None]
        if waiting and self.leader not in waiting:
            self.leader = waiting[0]
        return bool(waiting)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that the slowest member asks for."""
        return max([REBALANCE_TIMEOUT_MS_MIN, *(member.rebalance_timeout_ms for member in self)])

    def keep_alive(self, member: Member, now_ms: int) -> None:
        """The member's session begins anew."""
        member.expires_ms = now_ms + member.session_timeout_ms
        if self.expiry_ms is None or member.expires_ms < self.expiry_ms:
            self.expiry_ms = member.expires_ms

    def expired(self, now_ms: int) -> list[Member]:
        """Members whose session is over; one that waits for an answer is alive as long as its connection."""
        listening = [member for member in self if not member.is_waiting]
        self.expiry_ms = min((m.expires_ms for m in listening if m.expires_ms > now_ms), default=None)
        return [member for member in listening if member.expires_ms <= now_ms]

    def shares_protocol(self, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether one of the protocols is offered by everybody here."""
        candidates = self._candidates()
        return not self._members or any(protocol.name in candidates for protocol in protocols)

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all offer; a tie goes to the oldest voter."""
        candidates = self._candidates()
        votes = Counter(
            next(protocol.name for protocol in member.protocols if protocol.name in candidates)
            for member in self
        )
        return votes.most_common(1)[0][0]

    def describe(self, protocol: str) -> tuple[JoinedMember, ...]:
        """Everybody, for the leader to assign to."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol)) for member in self
        )

    def _candidates(self) -> set[str]:
        offers = [{protocol.name for protocol in member.protocols} for member in self]
        return set.intersection(*offers) if offers else set()

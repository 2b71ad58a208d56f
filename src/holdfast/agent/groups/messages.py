"""What goes into a group and what comes out of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType

from holdfast.errors import KafkaRefusal
from holdfast.store.footer import GroupProtocol, GroupSaved

Ticket = NewType("Ticket", int)
"""A request that may have to wait for its answer."""


class GroupState(StrEnum):
    """Kafka's states by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Bounds on what clients may ask of a group."""

    session_timeout_ms_min: int = 1_000
    """Kafka's group.min.session.timeout.ms; lower than its 6000, because client suites want short sessions."""
    session_timeout_ms_max: int = 1_800_000
    """Kafka's group.max.session.timeout.ms."""
    initial_rebalance_delay_ms: int = 100
    """Kafka's group.initial.rebalance.delay.ms: how long the first members of a group wait for more.

    Not 0: kafka-python joins without waiting for the topic's metadata, assigns nothing if it is made leader
    before that comes, and may never notice. Kafka with a delay of 0 meets the same.
    """
    members_max: int = 1_000
    """Kafka's group.max.size."""
    member_bytes_max: int = 1024 * 1024
    """What a member may say of itself, and what it may be assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who a member says it is."""

    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A member wants to be in the next generation; an empty member id stands for a new one."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    needs_known_id: bool
    """A new dynamic member has to come back with the id that it is given (KIP-394)."""
    may_skip_assignment: bool
    """The leader understands that the assignment stays as it is (KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A member wants its assignment; the leader brings everybody's."""

    caller: Caller
    assignments: dict[str, bytes]
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A member to take out of the group, by its member id, its instance id or both."""

    member_id: str
    instance_id: str | None = None


class JoinedMember(NamedTuple):
    """What the leader learns of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a join. Only the leader sees the members."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a sync."""

    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """A waiting request gets what it asked for."""

    ticket: Ticket
    answer: Joined | Synced


@dataclass(frozen=True, slots=True)
class Refuse:
    """A waiting request is turned down."""

    ticket: Ticket
    refusal: KafkaRefusal


@dataclass(frozen=True, slots=True)
class Save:
    """Make the group durable, then tell it by its revision. The time of saving is not known here."""

    revision: int
    group: GroupSaved


Effect = Answer | Refuse | Save

"""A frame's footer: everything that the control plane learns from one group commit, as JSON.

The kinds and the order of their fields are part of the on-disk format (`docs/formats.md`). Nobody changes one; but
those of which several are made for every transaction are not frozen, which would make them thrice as dear.
"""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, get_args
from uuid import UUID

from holdfast.errors import CorruptFrame, FormatTooNew
from holdfast.records.batch import NO_TIMESTAMP
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.store import replica_changes
from holdfast.store.replica_changes import ReplicaChange


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists from here on; `replicas` names each partition's stores, the preferred leader first."""

    kind: ClassVar[str] = "topic"
    name: str
    topic_id: UUID
    replicas: list[list[int]]
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic is gone with all that belonged to it; its id never comes back."""

    kind: ClassVar[str] = "topic-deleted"
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A topic of `first` partitions has more from here on: their stores, the preferred leader first."""

    kind: ClassVar[str] = "partitions-added"
    topic_id: UUID
    first: int
    replicas: list[list[int]]


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    """These are a topic's configs from here on, all that were set."""

    kind: ClassVar[str] = "topic-configs"
    topic_id: UUID
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class LogStartMoved:
    """Records below `log_start` are gone; one that lies below the present start changes nothing."""

    kind: ClassVar[str] = "log-start"
    topic_id: UUID
    partition: int
    log_start: int


@dataclass(slots=True)
class ExtentAppended:
    """Batches of one partition lie in the bodies on `stores`; `first` is the log end that they continue.

    All of them belong to the same transaction instance, or to none. A store's body holds its extents in the
    order of the footer, so their positions follow from the lengths.
    """

    kind: ClassVar[str] = "extent"
    topic_id: UUID
    partition: int
    first: int
    last: int
    stores: list[int]
    length_bytes: int
    max_timestamp: int
    leader_epoch: int
    instance: int = NO_INSTANCE
    first_timestamp: int = NO_TIMESTAMP


@dataclass(slots=True)
class ProducerAdvanced:
    """One batch of an idempotent producer."""

    kind: ClassVar[str] = "producer"
    topic_id: UUID
    partition: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ProducerIdsAllotted:
    """Producer ids below `next_id` are taken."""

    kind: ClassVar[str] = "producer-ids"
    next_id: int


@dataclass(frozen=True, slots=True)
class GroupOffsetCommitted:
    """A consumer group's position in one partition."""

    kind: ClassVar[str] = "group-offset"
    group: str
    topic_id: UUID
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    committed_ms: int


class GroupProtocol(NamedTuple):
    """A way of assigning partitions that a member offers, with what the leader needs to know for it."""

    name: str
    metadata: bytes


class GroupMember(NamedTuple):
    """One member of a group; `protocols` in the order it likes them."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupSaved:
    """A group as a rebalance left it; what was saved of it before no longer counts."""

    kind: ClassVar[str] = "group"
    group: str
    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[GroupMember, ...]
    saved_ms: int


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """A group is gone, and all its positions with it."""

    kind: ClassVar[str] = "group-deleted"
    group: str


@dataclass(frozen=True, slots=True)
class GroupOffsetDeleted:
    """A group has no position in this partition any more."""

    kind: ClassVar[str] = "group-offset-deleted"
    group: str
    topic_id: UUID
    partition: int


@dataclass(slots=True)
class TransactionalIdSet:
    """A transactional id as it stands from here on, in place of what it was in turn `turn_before` (0: new)."""

    kind: ClassVar[str] = "transactional-id"
    transactional_id: str
    turn_before: int
    instance_before: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    phase: str
    instance: int
    turn: int
    previous_producer_id: int
    previous_epoch: int
    started_ms: int


@dataclass(slots=True)
class TransactionBegun:
    """A transaction instance is open from here on."""

    kind: ClassVar[str] = "transaction-begun"
    instance: int
    producer_id: int


@dataclass(slots=True)
class TransactionEnded:
    """The outcome of an instance. If it is committed, the positions that it staged count from here on."""

    kind: ClassVar[str] = "transaction-ended"
    instance: int
    committed: bool
    ended_ms: int


@dataclass(frozen=True, slots=True)
class GroupOffsetStaged:
    """A group's position in one partition, to count once the instance is committed."""

    kind: ClassVar[str] = "group-offset-staged"
    instance: int
    group: str
    topic_id: UUID
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


@dataclass(frozen=True, slots=True)
class LeaderMoved:
    """A partition has another leader from here on; `leader_epoch` is one more than before."""

    kind: ClassVar[str] = "leader"
    topic_id: UUID
    partition: int
    leader: int
    leader_epoch: int


Change = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | TopicConfigured
    | LogStartMoved
    | ExtentAppended
    | ProducerAdvanced
    | ProducerIdsAllotted
    | GroupOffsetCommitted
    | GroupSaved
    | GroupDeleted
    | GroupOffsetDeleted
    | TransactionalIdSet
    | TransactionBegun
    | TransactionEnded
    | GroupOffsetStaged
    | LeaderMoved
    | ReplicaChange
)

_KINDS: dict[str, type[Change]] = {change.kind: change for change in get_args(Change)}
_FIELDS = {change: tuple(field.name for field in fields(change)) for change in _KINDS.values()}
_FIELDS_MIN = {
    change: sum(field.default is MISSING for field in fields(change)) for change in _KINDS.values()
}
"""Fields that came later have a default: a footer from before them is shorter."""


def encode(changes: Sequence[Change]) -> bytes:
    """The footer's bytes."""
    return _ENCODER.encode([_GET_ROW[type(change)](change) for change in changes]).encode()


def extents_on(changes: Sequence[Change], store: int) -> Iterator[tuple[int, ExtentAppended]]:
    """(position in the body, extent) for what a store's body holds, in order."""
    position = 0
    for change in changes:
        if isinstance(change, ExtentAppended) and store in change.stores:
            yield position, change
            position += change.length_bytes


def decode(footer: bytes) -> list[Change]:
    """The changes that `encode` wrote; CorruptFrame for anything else."""
    try:
        return [_change(row[0], row[1:]) for row in json.loads(footer)]
    except (ValueError, KeyError, TypeError, IndexError) as failure:
        raise CorruptFrame(f"footer not understood: {failure!r}") from failure


def decode_sound(footer: bytes) -> list[Change]:
    """The changes of a footer whose CRC held: what is not understood then is no damage but a newer kind."""
    try:
        return decode(footer)
    except CorruptFrame as failure:
        raise FormatTooNew(f"{failure.why}: use a newer Holdfast") from failure


def _change(kind: str, values: list[object]) -> Change:
    change = _KINDS[kind]
    names = _FIELDS[change]
    if not _FIELDS_MIN[change] <= len(values) <= len(names):
        raise ValueError(f"{len(values)} fields in a change of kind {kind!r}")
    named = {
        name: _READERS[change, name](value) if (change, name) in _READERS else value
        for name, value in zip(names, values, strict=False)
    }
    return change(**named)  # type: ignore[arg-type]  # fields come from the same table


def _member(row: list[Any]) -> GroupMember:
    member = GroupMember(*row)
    return member._replace(
        protocols=tuple(GroupProtocol(name, base64.b64decode(data)) for name, data in member.protocols),
        assignment=base64.b64decode(member.assignment),
    )


def _uuid(value: object) -> UUID:
    return UUID(str(value))


_READERS: dict[tuple[type[Any], str], Callable[[Any], object]] = {
    **{(change, "topic_id"): _uuid for change in _KINDS.values() if "topic_id" in _FIELDS[change]},
    (GroupSaved, "members"): lambda rows: tuple(map(_member, rows)),
    **replica_changes.READERS,
}
"""How fields are read that are more than JSON has."""


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    assert isinstance(value, UUID), value
    return value.hex


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_plain, check_circular=False)
_GET_ROW = {
    change: attrgetter("kind", *("topic_id.hex" if name == "topic_id" else name for name in names))
    for change, names in _FIELDS.items()
}

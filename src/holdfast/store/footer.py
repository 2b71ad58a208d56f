"""A frame's footer: everything that the control plane learns from one group commit, as JSON.

The kinds and the order of their fields are part of the on-disk format (`docs/formats.md`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar
from uuid import UUID

from holdfast.errors import CorruptFrame


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists from here on."""

    kind: ClassVar[str] = "topic"
    name: str
    topic_id: UUID
    partitions: int
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class ExtentAppended:
    """Batches of one partition lie in the body; `first` is the log end that they continue."""

    kind: ClassVar[str] = "extent"
    topic_id: UUID
    partition: int
    first: int
    last: int
    position: int
    length_bytes: int
    max_timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
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


Change = TopicCreated | ExtentAppended | ProducerAdvanced | ProducerIdsAllotted | GroupOffsetCommitted

_KINDS: dict[str, type[Change]] = {
    change.kind: change
    for change in (TopicCreated, ExtentAppended, ProducerAdvanced, ProducerIdsAllotted, GroupOffsetCommitted)
}
_FIELDS = {change: tuple(field.name for field in fields(change)) for change in _KINDS.values()}


def encode(changes: Sequence[Change]) -> bytes:
    """The footer's bytes."""
    rows = [[change.kind, *(getattr(change, name) for name in _FIELDS[type(change)])] for change in changes]
    return json.dumps(rows, separators=(",", ":"), default=_plain).encode()


def decode(footer: bytes) -> list[Change]:
    """The changes that `encode` wrote; CorruptFrame for anything else."""
    try:
        return [_change(row[0], row[1:]) for row in json.loads(footer)]
    except (ValueError, KeyError, TypeError, IndexError) as failure:
        raise CorruptFrame(f"footer not understood: {failure!r}") from failure


def _change(kind: str, values: list[object]) -> Change:
    change = _KINDS[kind]
    named = dict(zip(_FIELDS[change], values, strict=True))
    if "topic_id" in named:
        named["topic_id"] = UUID(str(named["topic_id"]))
    return change(**named)  # type: ignore[arg-type]  # fields come from the same table


def _plain(value: object) -> str:
    assert isinstance(value, UUID), value
    return value.hex

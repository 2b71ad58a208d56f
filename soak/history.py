"""What happened, as clients saw it. Nothing here knows a client, a process or a clock."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class Violation(NamedTuple):
    """A rule, by its name in `docs/testing.md`, and what broke it."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class LogRecord(NamedTuple):
    """A record as a reader found it."""

    offset: int
    value: bytes


@dataclass(slots=True, kw_only=True)
class ProducerHistory:
    """One producer of one partition, which sends every value once.

    What was sent and neither acknowledged nor refused before anything was written may have happened, once.
    """

    name: str
    partition: int
    is_idempotent: bool
    sent: list[bytes] = field(default_factory=list)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    """Value to offset."""
    failed: dict[bytes, str] = field(default_factory=dict)
    """Value to the name of the error."""


@dataclass(slots=True, kw_only=True)
class ReaderHistory:
    """What a reader got from one partition while it was written to, over all crashes, in the order it came."""

    partition: int
    seen: list[LogRecord] = field(default_factory=list)


class PositionEvent(NamedTuple):
    """One step of a group's only committer: it asked for a position, was told yes, or read the position back."""

    kind: Literal["sent", "acknowledged", "found"]
    offset: int


@dataclass(slots=True, kw_only=True)
class PositionHistory:
    """A group's position in one partition. -1: none was ever committed."""

    group: str
    partition: int
    events: list[PositionEvent] = field(default_factory=list)

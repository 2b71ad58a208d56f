"""What happened to transactions, as those saw it who made them and those who read them. Nothing here knows a client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from soak.history import LogRecord


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Write(NamedTuple):
    """A value, unique in its round, and where it was sent."""

    place: Place
    value: bytes


class Answer(Enum):
    """What a producer was told at last; None in its place: nothing, because it or the answer was lost."""

    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, kw_only=True)
class Transaction:
    """One transaction of one producer, which notes what it is about to do before it does it.

    With a commit that was sent and never answered it may have happened, whole. Without one it must not.
    """

    name: str
    writes: list[Write] = field(default_factory=list)
    commit_sent_ns: int | None = None
    answer: Answer | None = None

    @property
    def may_be_seen(self) -> bool:
        """Whether any of it may ever be seen."""
        return self.commit_sent_ns is not None and self.answer is not Answer.ABORTED


class Sighting(NamedTuple):
    """A record that a reader was given, and when it had it: on the clock of `commit_sent_ns`."""

    place: Place
    offset: int
    value: bytes
    at_ns: int


@dataclass(slots=True, kw_only=True)
class CommittedReader:
    """What a read_committed reader was given from offset 0 on, in the order it came."""

    name: str
    seen: list[Sighting] = field(default_factory=list)


CommittedLogs = Mapping[Place, Sequence[LogRecord]]
"""What read_committed shows of each partition once all is over."""

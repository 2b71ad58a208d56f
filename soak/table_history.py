"""What was done to a compacted topic and what was seen of it. Nothing here knows a client, a process or a clock."""

from dataclasses import dataclass, field
from enum import Enum


class Outcome(Enum):
    """What became of a write, as far as its writer was told."""

    UNKNOWN = "unknown"
    """It may be there or not."""
    WRITTEN = "written"
    TAKEN_BACK = "taken back"
    """Part of a transaction that was aborted, or whose commit was never asked for."""


@dataclass(slots=True, kw_only=True)
class TableWrite:
    """One record that was sent. A version is given once in a round, and later writes have higher ones."""

    key: bytes
    version: int
    partition: int
    is_delete: bool
    offset: int | None = None
    """Where the log said that it lies."""
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True, kw_only=True)
class TableHistory:
    """One writer, the only one of its keys, in the order of sending."""

    name: str
    writes: list[TableWrite] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TableSighting:
    """A record that a reader got, and when it asked for it and had it."""

    key: bytes
    version: int
    partition: int
    offset: int
    is_delete: bool
    asked_s: float
    got_s: float


@dataclass(slots=True, kw_only=True)
class TableReader:
    """A read_committed reader, from the first offset to the last stable one, in the order it got things."""

    name: str
    seen: list[TableSighting] = field(default_factory=list)
    ended_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTable:
    """A partition through one node as its leader, when all is at rest."""

    node: int
    partition: int
    log_start: int
    last_stable: int
    versions: dict[bytes, int]
    """The newest version of every key that is not deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCounts:
    """What lies in the segments of one replica, when all is at rest."""

    store: int
    partition: int
    records: int
    keys: int
    deletes: int
    transactional: int
    """Batches that still say that they belong to a transaction."""
    outcomes: int
    """Control batches."""

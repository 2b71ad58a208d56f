"""The one interface for the two ways to compact: Kafka's, and the coordinated one of Holdfast."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.transaction import Outcome

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NEVER_MS = 2**63 - 1
"""Kafka's Long.MAX: a lag or a retention that never ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig:
    """A compacted topic's settings, under Kafka's names and with Kafka's defaults; sizes count batches."""

    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS
    min_cleanable_dirty_ratio: float = 0.5
    producer_id_expiration_ms: int = DAY_MS
    segment_ms: int = 7 * DAY_MS
    segment_batches: int = 1_000_000


class Fate(Enum):
    """What a pass did to one batch."""

    SHADOWED = "a newer record of its key exists"
    ABORTED = "its transaction was aborted"
    TOMBSTONE = "a delete that is no longer needed"
    OUTCOME = "a transaction's outcome that is no longer needed"
    EMPTY_BATCH = "a header without a record"
    SETTLED = "its transaction was committed, so it is plain data now"
    STAMPED = "its time until removal begins"


@dataclass(slots=True, kw_only=True)
class Pass:
    """What a compaction pass leaves of the log below its end, and what it did to the rest."""

    entries: list[Entry] = field(default_factory=list)
    fates: list[tuple[Fate, Entry]] = field(default_factory=list)

    def count(self, fate: Fate) -> int:
        """How many batches met this fate."""
        return sum(1 for met, _ in self.fates if met is fate)


@dataclass(slots=True, kw_only=True)
class Segment:
    """A run of a replica's log; the last one is active and takes appends."""

    base: int
    first_timestamp_ms: int
    largest_timestamp_ms: int
    batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """What a policy needs to know of a replica's log to choose and to make a pass."""

    entries: Sequence[Entry]
    segments: Sequence[Segment]
    first_dirty: int
    last_stable_offset: int
    now_ms: int


class ReplicaRules(Protocol):
    """What one replica makes of its own log. State is rebuilt from the log alone: `append` from the start."""

    def append(self, entry: Entry) -> None:
        """Follow one batch; raises OutcomeMissing if it proves that an outcome was lost."""

    def caught_up(self, leader_last_stable_offset: int) -> None:
        """Nothing is left to fetch; raises OutcomeMissing if the leader decided what we cannot."""

    def replicated_to(self, high_watermark: int) -> None:
        """The high watermark moved."""

    def last_stable_offset(self, high_watermark: int) -> int:
        """This replica's LSO."""

    def visible(self, entries: Iterable[Entry], *, end: int, isolation: Isolation) -> Iterator[Entry]:
        """The data that a consumer of this replica is given below `end`."""

    def outcome(self, entry: Entry) -> Outcome:
        """How this replica reads a data batch's transaction; plain data counts as committed."""

    def expire(self, now_ms: int) -> None:
        """Forget what only time keeps."""

    def pass_end(self, log: LogView) -> int | None:
        """Where a pass over [0, end) would end, or None if none is due."""

    def clean(self, log: LogView, end: int) -> Pass:
        """Make the pass."""

    def settle(self, log: LogView) -> Pass | None:
        """Apply outcomes up to the LSO and no more; None where the policy knows no such pass."""

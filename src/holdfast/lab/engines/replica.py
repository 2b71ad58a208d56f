"""One replica of the model: a log on a disk of its own, and what the replica makes of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from holdfast.errors import InvalidTxnState, OutcomeMissing
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.policy import CompactionConfig, Fate, LogView, Pass, ReplicaRules, Segment
from holdfast.rules.transaction import Outcome
from holdfast.rules.visibility import readable_end, table


@dataclass(slots=True, kw_only=True)
class Replica:
    """Log, offsets, leader epochs and cleaner checkpoint; what depends on the policy is in `rules`."""

    id: int
    config: CompactionConfig
    new_rules: Callable[[], ReplicaRules]
    rules: ReplicaRules = field(init=False)
    entries: list[Entry] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    log_end: int = 0
    high_watermark: int = 0
    first_dirty: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """(leader epoch, first offset), as in leader-epoch-checkpoint."""
    followed_epoch: int = -1
    """The leader epoch whose leader this log was last compared with."""
    alive: bool = True
    halted: str | None = None
    """Why the replica stopped itself, if it did."""
    tombstones_removed: int = 0
    outcomes_removed: int = 0
    changes: int = 0
    """Moves whenever the log or a reader's view of it may have changed."""

    def __post_init__(self) -> None:
        self.rules = self.new_rules()

    @property
    def last_stable_offset(self) -> int:
        """This replica's own LSO."""
        return self.rules.last_stable_offset(self.high_watermark)

    def append(self, entry: Entry) -> None:
        """Take one batch at the log's end; a batch that the rules refuse halts the replica."""
        try:
            self.rules.append(entry)
        except (OutcomeMissing, InvalidTxnState) as refusal:
            self.halted = str(refusal)
            return
        self.entries.append(entry)
        self.log_end = entry.offset + 1
        self.changes += 1
        if not self.epochs or entry.leader_epoch > self.epochs[-1][0]:
            self.epochs.append((entry.leader_epoch, entry.offset))
        self._add_to_segment(entry)

    def _add_to_segment(self, entry: Entry) -> None:
        active = self.segments[-1] if self.segments else None
        if (
            active is None
            or active.batches >= self.config.segment_batches
            or entry.timestamp_ms - active.first_timestamp_ms > self.config.segment_ms
        ):
            active = Segment(
                base=entry.offset,
                first_timestamp_ms=entry.timestamp_ms,
                largest_timestamp_ms=entry.timestamp_ms,
            )
            self.segments.append(active)
        active.batches += 1
        active.largest_timestamp_ms = max(active.largest_timestamp_ms, entry.timestamp_ms)

    def follow_epochs(self, source: "Replica") -> None:
        """Take over where the source's leader epochs began, as far as this log reaches.

        The batches alone do not tell: compaction may have dropped the first ones of an epoch, and a leader that
        believes in a later start keeps a returning replica from truncating what was never acknowledged.
        """
        self.epochs = [(epoch, start) for epoch, start in source.epochs if start < self.log_end]

    def entries_from(self, offset: int) -> list[Entry]:
        """What this log holds at and above `offset`, as a fetch answers it: holes are not marked."""
        index = len(self.entries)
        while index and self.entries[index - 1].offset >= offset:
            index -= 1
        return self.entries[index:]

    def learn_high_watermark(self, high_watermark: int) -> None:
        """Follow the leader's high watermark as far as this log reaches; it never falls."""
        reached = min(high_watermark, self.log_end)
        if reached > self.high_watermark:
            self.high_watermark = reached
            self.rules.replicated_to(reached)
            self.changes += 1

    def caught_up(self, leader_last_stable_offset: int) -> None:
        """Nothing more to fetch: whatever the leader has decided must be decidable here."""
        try:
            self.rules.caught_up(leader_last_stable_offset)
        except OutcomeMissing as missing:
            self.halted = str(missing)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: the largest known epoch up to `epoch`, and where it ends in this log."""
        answer = (-1, 0)
        for index, (known, _) in enumerate(self.epochs):
            if known > epoch:
                break
            last = index + 1 == len(self.epochs)
            answer = (known, self.log_end if last else self.epochs[index + 1][1])
        return answer

    def truncate_to(self, offset: int) -> None:
        """Drop the log from `offset` on, and rebuild from the rest what the replica knows."""
        if offset >= self.log_end:
            return
        kept = [entry for entry in self.entries if entry.offset < offset]
        clean_below = min(self.first_dirty, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.restart_from(kept, log_end=offset, first_dirty=clean_below)

    def restart_from(self, entries: Iterable[Entry], *, log_end: int, first_dirty: int) -> None:
        """Replay `entries` as recovery does: the log alone tells producers, transactions and epochs."""
        epochs = [(epoch, start) for epoch, start in self.epochs if start < log_end]
        self.rules = self.new_rules()
        self.entries, self.segments, self.epochs = [], [], []
        for entry in entries:
            self.append(entry)
        self.epochs = epochs
        self.log_end = log_end
        self.first_dirty = first_dirty
        self.segments = [s for s in self.segments if s.base >= first_dirty] or self.segments[-1:]
        self.rules.replicated_to(self.high_watermark)
        self.changes += 1

    def view(self, now_ms: int) -> LogView:
        """The log as the policy sees it."""
        return LogView(
            entries=self.entries,
            segments=self.segments,
            first_dirty=self.first_dirty,
            last_stable_offset=self.last_stable_offset,
            now_ms=now_ms,
        )

    def clean(self, now_ms: int) -> Pass | None:
        """Let the cleaner look: it makes a pass if one is due."""
        self.rules.expire(now_ms)
        if not self.segments:
            return None
        log = self.view(now_ms)
        end = self.rules.pass_end(log)
        if end is None:
            return None
        done = self.rules.clean(log, end)
        self._swap(done, end)
        self.segments = [segment for segment in self.segments if segment.base >= end] or self.segments[-1:]
        self.first_dirty = max(self.first_dirty, end)
        return done

    def settle(self, now_ms: int) -> Pass | None:
        """Apply outcomes up to the LSO, if the policy knows how."""
        if not self.segments:
            return None
        log = self.view(now_ms)
        done = self.rules.settle(log)
        if done is not None:
            self._swap(done, log.last_stable_offset)
        return done

    def _swap(self, done: Pass, end: int) -> None:
        self.entries = done.entries + self.entries_from(end)
        self.tombstones_removed += done.count(Fate.TOMBSTONE)
        self.outcomes_removed += done.count(Fate.OUTCOME)
        self.changes += 1

    def read(self, isolation: Isolation) -> list[Entry]:
        """What a consumer of this replica is given, from the beginning."""
        end = readable_end(
            isolation, high_watermark=self.high_watermark, last_stable_offset=self.last_stable_offset
        )
        return list(self.rules.visible(self.entries, end=end, isolation=isolation))

    def outcome(self, entry: Entry) -> Outcome:
        """How this replica reads a data batch's transaction."""
        return self.rules.outcome(entry)

    def table(self) -> dict[str, Entry]:
        """The keys and newest values that a read_committed consumer ends up with."""
        return table(self.read(Isolation.READ_COMMITTED))

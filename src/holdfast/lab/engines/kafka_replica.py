"""What is seen of a replica on a real broker: its own log and what its broker gives to clients, leader or not."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import Isolation as WireIsolation
from holdfast.client.replica_log import ReplicaChunk, find_bounds, read_replica
from holdfast.errors import HoldfastError
from holdfast.records.batch import BatchView
from holdfast.records.build import read_records
from holdfast.records.control import ControlType, read_control
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.policy import Fate, Pass
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.visibility import table


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A replica at one moment."""

    entries: tuple[Entry, ...] = ()
    committed: tuple[Entry, ...] = ()
    """What a client that reads committed records is given."""
    log_end: int = 0
    high_watermark: int = 0
    last_stable_offset: int = 0


@dataclass(slots=True, kw_only=True)
class BrokerReplica:
    """Implements `engine.SeenReplica`. While its broker is away it is seen as it was last."""

    id: int
    clients: Cluster
    place: TopicPartition
    written: Mapping[int, Entry]
    """The history by offset: what brokers give out carries no instance."""
    alive: bool = True
    halted: str | None = None
    tombstones_removed: int = 0
    outcomes_removed: int = 0
    seen: Look = field(default_factory=Look)
    told: set[int] = field(default_factory=set)
    """Offsets of what is gone here, or never came, and was told already."""
    _is_stale: bool = True

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What is in its log, in order, up to its high watermark."""
        return self.look().entries

    @property
    def log_end(self) -> int:
        """Its own."""
        return self.look().log_end

    @property
    def high_watermark(self) -> int:
        """Its own: a follower hears of the leader's a moment later."""
        return self.look().high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Its own, from what it made of the markers that it got."""
        return self.look().last_stable_offset

    def touch(self) -> None:
        """Something has happened: what was seen may be so no longer."""
        self._is_stale = self.alive

    def look(self) -> Look:
        """What is there now; while it is away, what was there last."""
        if self._is_stale:
            self.seen = self._look_patiently()
            self._is_stale = False
        return self.seen

    def read(self, isolation: Isolation) -> list[Entry]:
        """What a client is given, from the beginning."""
        if isolation is Isolation.READ_COMMITTED:
            return list(self.look().committed)
        return [entry for entry in self.look().entries if entry.marker is None and not entry.empty]

    def table(self) -> dict[str, Entry]:
        """The keys and newest values that a read_committed client ends up with."""
        return table(self.read(Isolation.READ_COMMITTED))

    def outcome(self, entry: Entry) -> Outcome:
        """How its clients are shown a record: given, kept back, or held until it is decided."""
        if not entry.transactional:
            return Outcome.COMMITTED
        if entry.offset >= self.last_stable_offset:
            return Outcome.OPEN
        given = any(each.offset == entry.offset for each in self.look().committed)
        return Outcome.COMMITTED if given else Outcome.ABORTED

    def count(self, done: Pass) -> None:
        """A pass is over."""
        self.tombstones_removed += done.count(Fate.TOMBSTONE)
        self.outcomes_removed += done.count(Fate.OUTCOME)

    def _look_patiently(self) -> Look:
        patience = self.clients.patience()
        while True:
            try:
                return self._look()
            except HoldfastError as failure:
                patience.wait(failure)

    def _look(self) -> Look:
        log_start = find_bounds(self.clients, self.id, self.place).log_start
        entries: list[Entry] = []
        committed: list[Entry] = []
        for chunk in self._chunks(log_start, WireIsolation.READ_COMMITTED):
            committed += self._data(without_aborted(chunk.batches, chunk.aborted))
        for chunk in self._chunks(log_start, WireIsolation.READ_UNCOMMITTED):
            entries += [entry for batch in chunk.batches for entry in self._entries_of(batch)]
        return Look(
            entries=tuple(entries),
            committed=tuple(committed),
            log_end=find_bounds(self.clients, self.id, self.place).log_end,
            high_watermark=chunk.high_watermark,
            last_stable_offset=chunk.last_stable_offset,
        )

    def _chunks(self, start: int, isolation: WireIsolation) -> Iterator[ReplicaChunk]:
        return read_replica(self.clients, self.id, self.place, start, isolation=isolation)

    def _data(self, batches: Iterable[BatchView]) -> list[Entry]:
        return [
            entry
            for batch in batches
            if not batch.is_control
            for entry in self._entries_of(batch)
            if not entry.empty
        ]

    def _entries_of(self, batch: BatchView) -> list[Entry]:
        if batch.is_control:
            return [self._marker(batch)]
        entries = []
        for record in read_records(batch):
            assert record.offset is not None
            assert record.key is not None
            value = None if record.value is None else record.value.decode()
            entries.append(
                self._entry(
                    batch,
                    record.offset,
                    key=record.key.decode(),
                    value=value,
                    timestamp_ms=record.timestamp_ms,
                )
            )
        return entries or [self._entry(batch, batch.last_offset, empty=True)]

    def _marker(self, batch: BatchView) -> Entry:
        control = read_control(batch)
        if control is None:
            return self._entry(batch, batch.last_offset, empty=True)
        committed = control.type == ControlType.COMMIT
        return self._entry(batch, control.offset, marker=Outcome.COMMITTED if committed else Outcome.ABORTED)

    def _entry(
        self,
        batch: BatchView,
        offset: int,
        *,
        key: str | None = None,
        value: str | None = None,
        marker: Outcome | None = None,
        timestamp_ms: int = 0,
        empty: bool = False,
    ) -> Entry:
        written = self.written.get(offset)
        return Entry(
            offset=offset,
            key=key,
            value=value,
            marker=marker,
            timestamp_ms=timestamp_ms,
            leader_epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            transactional=batch.is_transactional,
            instance=written.instance if written is not None else NO_INSTANCE,
            horizon_ms=batch.delete_horizon_ms,
            empty=empty,
        )

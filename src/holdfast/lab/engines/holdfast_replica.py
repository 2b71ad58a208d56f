"""What is seen of a replica of the real log: its files as they are, and what a client is given by its node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.agent.fetch_plan import PartitionReader
from holdfast.client.cluster import Cluster as ClientCluster
from holdfast.client.offsets import Isolation as WireIsolation
from holdfast.client.reader import OffsetRange, read_range
from holdfast.control.plane import Extent, is_hidden
from holdfast.control.replicas import Segment
from holdfast.errors import HoldfastError, OutcomeMissing
from holdfast.lab.engines.holdfast_cluster import TOPIC, LabCluster
from holdfast.records.batch import BatchView
from holdfast.records.build import read_records
from holdfast.records.walk import walk_valid
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.policy import Fate, Pass
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.visibility import table

BYTES_MAX = 1 << 30
_WIRE = {
    Isolation.READ_COMMITTED: WireIsolation.READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: WireIsolation.READ_UNCOMMITTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is on a store at one moment."""

    entries: tuple[Entry, ...] = ()
    outcomes: Mapping[int, Outcome | None]
    """Of the records in transactions that are not settled, by offset; None if nobody knows."""
    log_end: int = 0
    last_stable_offset: int = 0


NOTHING = Look(outcomes={})


@dataclass(slots=True, kw_only=True)
class StoreReplica:
    """Implements `engine.SeenReplica`. While it is away it is seen as it was last."""

    id: int
    cluster: LabCluster
    clients: ClientCluster
    written: Mapping[int, Entry]
    """The history by offset: what readers are given carries no instance."""
    alive: bool = True
    halted: str | None = None
    tombstones_removed: int = 0
    outcomes_removed: int = 0
    seen: Look = NOTHING
    _is_stale: bool = True
    _read: list[Entry] = field(default_factory=list)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What is in its files, in order."""
        return self.look().entries

    @property
    def log_end(self) -> int:
        """It holds every byte below."""
        return self.look().log_end

    @property
    def high_watermark(self) -> int:
        """All that is in the log is durable on every store in sync."""
        return self.look().log_end

    @property
    def last_stable_offset(self) -> int:
        """As the control plane has it, as far as this replica reaches."""
        return self.look().last_stable_offset

    @property
    def serves(self) -> bool:
        """Whether its node answers consumers."""
        cluster = self.cluster.cluster
        partition = cluster.catalog.get(TOPIC).partitions[0]
        return self.alive and self.halted is None and cluster.catalog.has_all(partition, self.id)

    def touch(self) -> None:
        """Something has happened: what was seen may be so no longer."""
        self._is_stale = self.alive

    def look(self) -> Look:
        """What is on the store now; while it is away, what was there last."""
        if self._is_stale:
            self._is_stale = False
            self.seen = self._look()
        return self.seen

    def _look(self) -> Look:
        plane = self.cluster.cluster.plane
        held = plane.find_held(*self.cluster.key, self.id)
        entries: list[Entry] = []
        outcomes: dict[int, Outcome | None] = {}
        reader = PartitionReader(plane, self.cluster.cluster.stores.by_number[self.id])
        for piece in self._pieces(held):
            batches = [batch for chunk in reader.read_piece(piece) for batch in walk_valid(chunk)]
            found = [entry for batch in batches for entry in self._entries_of(batch)]
            if isinstance(piece, Extent):
                outcomes |= {entry.offset: piece.outcome for entry in found if entry.transactional}
            entries += found
        return Look(
            entries=tuple(entries),
            outcomes=outcomes,
            log_end=held,
            last_stable_offset=min(held, plane.find_bounds(*self.cluster.key).last_stable),
        )

    def read(self, isolation: Isolation) -> list[Entry]:
        """What a client is given by the node of the store; a replica that cannot tell has stopped itself."""
        if not self.serves:
            return self._read
        end = self.last_stable_offset if isolation is Isolation.READ_COMMITTED else self.high_watermark
        wanted = OffsetRange(topic=TOPIC, partition=0, start=0, end=end)
        chunks = read_range(self.clients, wanted, isolation=_WIRE[isolation], node_id=self.id)
        try:
            batches = [batch for chunk in chunks for batch in chunk.batches if not batch.is_control]
        except HoldfastError as failure:
            self.halted = self._reason() or str(failure)
            return self._read
        found = [entry for batch in batches for entry in self._entries_of(batch)]
        if isolation is Isolation.READ_COMMITTED:
            self._read = found
        return found

    def count(self, done: Pass) -> None:
        """A pass is over."""
        self.tombstones_removed += done.count(Fate.TOMBSTONE)
        self.outcomes_removed += done.count(Fate.OUTCOME)

    def table(self) -> dict[str, Entry]:
        """The keys and newest values that a read_committed client ends up with."""
        return table(self.read(Isolation.READ_COMMITTED))

    def outcome(self, entry: Entry) -> Outcome:
        """What the control plane says of the extent that the record lies in; what is settled is plain data."""
        outcome = self.look().outcomes.get(entry.offset, Outcome.COMMITTED)
        if outcome is None:
            raise OutcomeMissing(f"no outcome is known of the transaction at offset {entry.offset}")
        return outcome

    def _pieces(self, held: int) -> list[Segment | Extent]:
        found: list[Segment | Extent] = []
        offset = 0
        while offset < held:
            _, pieces = self.cluster.cluster.plane.find_pieces(*self.cluster.key, self.id, offset, BYTES_MAX)
            if not pieces:
                break
            found += pieces
            offset = pieces[-1].end
        return found

    def _entries_of(self, batch: BatchView) -> list[Entry]:
        entries = []
        for record in read_records(batch):
            assert record.offset is not None
            assert record.key is not None
            key = record.key.decode()
            value = None if record.value is None else record.value.decode()
            written = self.written.get(record.offset)
            is_that = written is not None and (written.key, written.value) == (key, value)
            entries.append(
                Entry(
                    offset=record.offset,
                    key=key,
                    value=value,
                    timestamp_ms=record.timestamp_ms,
                    transactional=batch.is_transactional,
                    instance=written.instance if written is not None and is_that else NO_INSTANCE,
                )
            )
        return entries

    def _reason(self) -> str | None:
        """Clients are told that the node cannot answer; the node knows why."""
        try:
            for piece in self._pieces(self.last_stable_offset):
                if isinstance(piece, Extent) and piece.last < self.last_stable_offset:
                    is_hidden(piece)
        except OutcomeMissing as missing:
            return str(missing)
        return None

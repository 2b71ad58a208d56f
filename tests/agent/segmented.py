"""A partition on one store, in segments with gaps and in journals, and what its readers must find in it."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from uuid import UUID

from holdfast.agent.fetch_plan import PartitionData, PartitionReader
from holdfast.agent.partition_key import PartitionKey
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.records.batch import NO_TIMESTAMP, BatchView
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.walk import walk_valid
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.store import footer
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    LogStartMoved,
    TopicCreated,
    TransactionBegun,
    TransactionEnded,
)
from holdfast.store.local import LocalStore
from holdfast.store.replica_changes import AddedSegment, Granted, KeeperLeased, SegmentsPublished
from holdfast.store.segment import SegmentWriter, segment_file
from holdfast.store.segment_index import index_entries
from tests.agent.faults import CLUSTER

KEY = PartitionKey(UUID(int=1), 0)
LEASE = 1
READS_MAX = 10_000

Range = tuple[int, int, Sequence[bytes]]
"""Offsets [first, end), and the batches that are left there."""


class SegmentedLog:
    """Files and control plane are real; what is in the segments is up to the test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plane = SqliteControlPlane(directory / "control.db")
        self.store = LocalStore(directory, store=1, cluster_id=CLUSTER)
        self.plane.add_store(1)
        self.reader = PartitionReader(self.plane, self.store)
        self.end = self.settled_to = self.generation = 0
        self.produced: list[tuple[bytes, Outcome | None]] = []
        """Batches in order, and what became of the transaction that each was in."""
        self.added: dict[str, AddedSegment] = {}
        """The segments that count, by file."""
        self._frame = self._instance = 0
        self._apply([TopicCreated("t", KEY.topic_id, [[1]], {}), KeeperLeased(1, LEASE)])

    def close(self) -> None:
        """Let go of all files."""
        self.store.close()
        self.plane.close()

    def append(self, *counts: int, outcome: Outcome | None = None, value: bytes = b"v") -> None:
        """One extent with a batch for each count, of so many records, perhaps in a transaction."""
        first = self.end
        batches = []
        for count in counts:
            batches.append(
                build_batch(
                    [Record(key=b"k", value=value, timestamp_ms=self.end + n) for n in range(count)],
                    base_offset=self.end,
                    transactional=outcome is not None,
                )
            )
            self.end += count
        self.produced += [(batch, outcome) for batch in batches]
        changes: list[Change] = []
        instance = NO_INSTANCE
        if outcome is not None:
            self._instance += 1
            instance = self._instance
            changes.append(TransactionBegun(instance, 1000 + instance))
        size_bytes = sum(map(len, batches))
        changes.append(
            ExtentAppended(KEY.topic_id, 0, first, self.end - 1, [1], size_bytes, self.end - 1, 0, instance)
        )
        if outcome in (Outcome.COMMITTED, Outcome.ABORTED):
            changes.append(TransactionEnded(instance, outcome is Outcome.COMMITTED, 0))
        self._apply(changes, batches)

    def publish(self, *ranges: Range, removed: Sequence[str] = ()) -> list[str]:
        """Segments with these batches in the place of others, or after the last one; their files."""
        added = [self._write(*one) for one in ranges]
        self.generation += 1
        self.settled_to = max([self.settled_to, *(segment.end for segment in added)])
        self._apply(
            [
                SegmentsPublished(
                    topic_id=KEY.topic_id,
                    partition=0,
                    store=1,
                    incarnation=1,
                    lease=LEASE,
                    generation=self.generation,
                    lineage=1,
                    removed=tuple(removed),
                    added=tuple(added),
                    grant=Granted(0, 0, 0),
                    mcco=-1,
                    mxfo=self.settled_to,
                    at_ms=0,
                )
            ]
        )
        for file in removed:
            del self.added[file]
        self.added |= {segment.file: segment for segment in added}
        return [segment.file for segment in added]

    def move_start(self, log_start: int) -> None:
        """As DeleteRecords does."""
        self._apply([LogStartMoved(KEY.topic_id, 0, log_start)])

    def last_stable(self) -> int:
        """Where readers of committed records end."""
        return self.plane.find_bounds(*KEY).last_stable

    def read(
        self,
        offset: int,
        bytes_max: int = 1 << 20,
        *,
        at_least_one: bool = True,
        committed_only: bool = False,
    ) -> PartitionData:
        """One read."""
        return self.reader.read(
            KEY, offset, bytes_max=bytes_max, at_least_one=at_least_one, committed_only=committed_only
        )

    def read_all(self, offset: int, bytes_max: int = 1 << 20, *, committed_only: bool = False) -> list[int]:
        """The offsets of the records that a consumer finds from `offset` to the end, read by read.

        Each read must bring it further, and have a record for it, or a control batch that says why not.
        """
        found: list[int] = []
        end = self.last_stable() if committed_only else self.end
        for _ in range(READS_MAX):
            data = self.read(offset, bytes_max, committed_only=committed_only)
            if not data.chunks:
                assert offset == end
                return found
            batches = list(walk_valid(b"".join(data.chunks)))
            assert batches[0].last_offset >= offset
            assert all(one.last_offset <= other.last_offset for one, other in pairwise(batches))
            records = [one for batch in batches for one in offsets_of(batch) if one >= offset]
            assert records or any(batch.is_control for batch in batches)
            found += records
            offset = batches[-1].next_offset
        raise AssertionError(f"no end in {READS_MAX} reads")

    def _apply(self, changes: list[Change], body: Sequence[bytes] = ()) -> None:
        self._frame += 1
        stored = self.store.append(self._frame, list(body), footer.encode(changes))
        self.plane.apply([stored], changes)

    def _write(self, first: int, end: int, batches: Sequence[bytes]) -> AddedSegment:
        file = segment_file(KEY.topic_id, 0, first, LEASE, f"{self.generation:x}")
        data = b"".join(batches)
        writer = SegmentWriter(self.directory, file)
        if data:
            writer.append(data, index_entries(data))
        written = writer.finish()
        views = list(walk_valid(data))
        return AddedSegment(
            first=first,
            end=end,
            file=file,
            length_bytes=written.length_bytes,
            max_timestamp=max((view.max_timestamp for view in views), default=NO_TIMESTAMP),
            records=sum(view.record_count for view in views),
            first_tombstone=-1,
            crc=written.crc,
        )


def offsets_of(batch: BatchView) -> list[int]:
    """Of its records; a control batch has none that anybody sees."""
    return [] if batch.is_control else [record.offset or 0 for record in read_records(batch)]


def thinned(batch: bytes, offsets: Sequence[int]) -> bytes:
    """The batch with those of its records that are named, if any, as compaction leaves it."""
    view = BatchView(batch)
    kept = [record for record in read_records(view) if record.offset in offsets]
    return build_batch(kept, base_offset=view.base_offset, last_offset=view.last_offset) if kept else b""


class RandomSegments:
    """Settles a random part of a log: records go, and ranges of offsets become segments, some of them empty."""

    def __init__(self, log: SegmentedLog, chance: Random) -> None:
        self.log = log
        self.chance = chance
        self.kept: list[int] = []
        """The offsets of what is left in segments."""

    def settle(self) -> None:
        """From the end of the segments on, up to somewhere below the last stable offset."""
        log, chance = self.log, self.chance
        views = [(BatchView(batch), batch, outcome) for batch, outcome in log.produced]
        stable = log.last_stable()
        left = [one for one in views if log.settled_to <= one[0].base_offset and one[0].last_offset < stable]
        taken = left[: chance.randint(0, len(left))]
        ranges: list[tuple[int, int, list[bytes]]] = []
        first, batches = log.settled_to, []
        for view, batch, outcome in taken:
            if outcome is not Outcome.ABORTED and chance.random() < 0.6:
                offsets = range(view.base_offset, view.next_offset)
                kept = [offset for offset in offsets if chance.random() < 0.5]
                self.kept += kept
                batches.append(thinned(batch, kept))
            if chance.random() < 0.3 or view is taken[-1][0]:
                ranges.append((first, view.next_offset, batches))
                first, batches = view.next_offset, []
        if ranges:
            log.publish(*ranges)

    def expected(self, offset: int, *, committed_only: bool) -> list[int]:
        """What a reader of either level finds from `offset` on."""
        end = self.log.last_stable() if committed_only else self.log.end
        seen = list(self.kept)
        for batch, outcome in self.log.produced:
            view = BatchView(batch)
            if view.base_offset < self.log.settled_to:
                continue
            if not committed_only or outcome is not Outcome.ABORTED:
                seen += range(view.base_offset, view.next_offset)
        return [one for one in seen if offset <= one < end]

"""A replica's files without a log around them, and beside them what the rules say must be left in them.

Everything is drawn from one source of chance: the same seed gives the same files.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

from holdfast.keeper.task import rewrite
from holdfast.keeper.work import NewSegment, Piece, Rewrite, WorkItem
from holdfast.records.batch import BatchView, Codec, validate
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.walk import walk_valid
from holdfast.rules import survival
from holdfast.rules.entry import Entry
from holdfast.rules.policy import LogView
from holdfast.rules.survival import Forgettable
from holdfast.rules.transaction import NO_INSTANCE, Instances, Outcome
from holdfast.store.identity import open_identity
from holdfast.store.segment import segment_path
from holdfast.store.segment_index import index_path

TOPIC = UUID(int=5)
STORE = 1
SEED = 11
"""Of the hash of keys; which keys meet in one part of it is no matter of chance here."""

CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


@dataclass(frozen=True, slots=True)
class JournalExtent:
    """Batches of one instance, or of none, that were committed together."""

    piece: Piece
    is_aborted: bool


class Replica:
    """One replica. `survivors` is what the rules leave of the records that were produced."""

    def __init__(self, directory: Path, chance: Random, *, keys: int = 5, key_bytes: int = 1) -> None:
        self.directory = directory
        open_identity(directory, cluster_id=TOPIC, store=STORE, incarnation=None)
        self.chance = chance
        self.keys = [bytes([65 + number]) * key_bytes for number in range(keys)]
        self.produced: dict[int, bytes] = {}
        """Batches by base offset, as they were produced."""
        self.records: dict[int, Record] = {}
        """By offset."""
        self.survivors: list[Entry] = []
        self.instances = Instances()
        self.extents: list[JournalExtent] = []
        """Those that are not settled."""
        self.segments: list[NewSegment] = []
        self.log_start = self.log_end = self.settled_to = self.mcco = 0
        self.segment_bytes_max = 1 << 20
        self.map_bytes_max = 1 << 16
        self._last_offsets: dict[int, int] = {}
        self._next_instance = 1
        self._journal = directory / "1.journal"
        directory.mkdir(parents=True, exist_ok=True)
        self._journal.touch()

    def append(self, extents: int) -> None:
        """Produce: plain batches, and those of transactions, which are decided at once."""
        for _ in range(extents):
            instance, is_aborted = NO_INSTANCE, False
            if self.chance.random() < 0.5:
                instance, is_aborted = self._next_instance, self.chance.random() < 0.5
                self._next_instance += 1
            first = self.log_end
            batches = b"".join(self._produce(instance) for _ in range(self.chance.randint(1, 3)))
            if instance != NO_INSTANCE:
                self.instances.decide(instance, Outcome.ABORTED if is_aborted else Outcome.COMMITTED)
            self.extents.append(JournalExtent(self._write(first, batches), is_aborted))

    def produce(self, *records: tuple[str, str | None], codec: Codec = Codec.NONE) -> None:
        """One extent of one plain batch."""
        placed = [
            Record(
                key=key.encode(),
                value=None if value is None else value.encode(),
                timestamp_ms=0,
                offset=self.log_end + number,
            )
            for number, (key, value) in enumerate(records)
        ]
        first = self.log_end
        batch = self._add(build_batch(placed, base_offset=first, codec=codec), NO_INSTANCE)
        self.extents.append(JournalExtent(self._write(first, batch), is_aborted=False))

    def settle(self, extents: int, *, merged: int = 0) -> Rewrite:
        """Bring some extents into segments, with so many segments before them."""
        kept = len(self.segments) - merged
        first = self.segments[kept].first if merged else self.settled_to
        pieces = [*self.segment_pieces(self.segments[kept:], clean_to=0), *self._taken(extents)]
        end = self.extents[extents - 1].piece.end if extents else self.settled_to
        done = self.run(self.item(pieces, first=first, end=end, compacts=False))
        below = survival.settle(self.survivors, end, instances=self.instances).entries
        self._publish(done, extents, end, below)
        return done

    def compact(self, extents: int, *, tombstones_end: int = 0) -> Rewrite:
        """Keep each key's newest record in all segments and some extents; tombstones below the bound go."""
        pieces = [*self.segment_pieces(self.segments, clean_to=self.mcco), *self._taken(extents)]
        first = self.segments[0].first if self.segments else self.settled_to
        end = self.extents[extents - 1].piece.end if extents else self.settled_to
        item = self.item(pieces, first=first, end=end, compacts=True, tombstones_end=tombstones_end)
        done = self.run(item)
        view = LogView(
            entries=self.survivors, segments=(), first_dirty=self.mcco, last_stable_offset=end, now_ms=0
        )
        bounds = Forgettable(tombstones_end=tombstones_end, outcomes_end=0)
        below = survival.clean(view, end, instances=self.instances, bounds=bounds).entries
        # Kafka's cleaner knows no key that is null, and neither does anybody who reads the topic as a table. Of what
        # lies below the log start whole batches go: nobody sees them.
        below = [
            entry
            for entry in below
            if entry.key is not None and self._last_offsets[entry.offset] >= self.log_start
        ]
        self.mcco = end
        self._publish(done, extents, end, below)
        return done

    def run(self, item: WorkItem) -> Rewrite:
        """The rewrite, by way of what travels to a task and back."""
        done = rewrite(WorkItem.decode(item.encode()), seed=SEED)
        return Rewrite.decode(done.encode())

    def item(
        self, pieces: list[Piece], *, first: int, end: int, compacts: bool, tombstones_end: int = 0
    ) -> WorkItem:
        """Work on this replica."""
        return WorkItem(
            store=STORE,
            topic_id=TOPIC.hex,
            partition=0,
            lease=1,
            directory=str(self.directory),
            pieces=tuple(pieces),
            first=first,
            end=end,
            compacts=compacts,
            surveys=True,
            log_start=self.log_start,
            tombstones_end=tombstones_end,
            segment_bytes_max=self.segment_bytes_max,
            map_bytes_max=self.map_bytes_max,
        )

    def segment_pieces(self, segments: list[NewSegment], *, clean_to: int) -> list[Piece]:
        """Whole segments of this replica."""
        return [
            Piece(
                path=str(self.path(segment)),
                position=0,
                length_bytes=segment.length_bytes,
                first=segment.first,
                end=segment.end,
                is_clean=segment.end <= clean_to,
                index=str(index_path(self.path(segment))),
                file=segment.file,
                crc=segment.crc,
            )
            for segment in segments
        ]

    def path(self, segment: NewSegment) -> Path:
        """Where a segment lies."""
        return segment_path(self.directory, segment.file)

    def batches(self, segment: NewSegment) -> list[BatchView]:
        """The batches of a segment, each of them checked."""
        return list(walk_valid(self.path(segment).read_bytes()))

    def expected(self, *, first: int = 0) -> list[Record]:
        """What must be in the segments, by the rules."""
        return [
            self.records[entry.offset] for entry in self.survivors if first <= entry.offset < self.settled_to
        ]

    def found(self, *, first: int = 0) -> list[Record]:
        """What is in the segments."""
        return [
            record
            for segment in self.segments
            for batch in self.batches(segment)
            for record in read_records(batch)
            if (record.offset or 0) >= first
        ]

    def files(self) -> set[Path]:
        """All files of segments and their indexes."""
        return {path for path in self.directory.glob("segments/*/*/*") if path.is_file()}

    def _taken(self, extents: int) -> list[Piece]:
        """What was aborted is left out, as the plan does."""
        return [extent.piece for extent in self.extents[:extents] if not extent.is_aborted]

    def _publish(self, done: Rewrite, extents: int, end: int, below: list[Entry]) -> None:
        left = [segment for segment in self.segments if segment.file not in done.removed]
        self.segments = sorted([*left, *done.added], key=lambda segment: segment.first)
        self.survivors = below + [entry for entry in self.survivors if entry.offset >= end]
        del self.extents[:extents]
        self.settled_to = end

    def _produce(self, instance: int) -> bytes:
        chance = self.chance
        records = [
            self._record(offset) for offset in range(self.log_end, self.log_end + chance.randint(1, 6))
        ]
        time_ms = chance.randrange(1000) if chance.random() < 0.2 else None
        batch = build_batch(
            records,
            base_offset=self.log_end,
            leader_epoch=chance.randrange(3),
            codec=chance.choice(CODECS),
            producer_id=chance.randrange(9),
            producer_epoch=chance.randrange(3),
            base_sequence=chance.randrange(1000),
            transactional=instance != NO_INSTANCE,
            log_append_time_ms=time_ms,
        )
        return self._add(batch, instance)

    def _add(self, batch: bytes, instance: int) -> bytes:
        view = validate(batch)
        self.produced[self.log_end] = batch
        for record in read_records(view):
            offset = record.offset
            assert offset is not None
            self.records[offset] = record
            self._last_offsets[offset] = view.last_offset
            self.survivors.append(
                Entry(
                    offset=offset,
                    key=None if record.key is None else record.key.hex(),
                    value=None if record.value is None else record.value.hex(),
                    timestamp_ms=record.timestamp_ms,
                    transactional=instance != NO_INSTANCE,
                    instance=instance,
                )
            )
            if instance != NO_INSTANCE:
                self.instances.join(instance, offset)
        self.log_end = view.next_offset
        return batch

    def _record(self, offset: int) -> Record:
        chance = self.chance
        return Record(
            key=None if chance.random() < 0.03 else chance.choice(self.keys),
            value=None if chance.random() < 0.3 else b"%d " % offset + bytes(chance.randrange(60)),
            headers=tuple((f"h{n}", chance.randbytes(2)) for n in range(chance.choice((0, 0, 2)))),
            timestamp_ms=chance.randrange(1000),
            offset=offset,
        )

    def _write(self, first: int, batches: bytes) -> Piece:
        """An extent in the journal, with something else before and after it."""
        with self._journal.open("ab") as file:
            file.write(bytes(self.chance.randrange(50)))
            position = file.tell()
            file.write(batches)
            file.write(bytes(self.chance.randrange(50)))
        return Piece(
            path=str(self._journal),
            position=position,
            length_bytes=len(batches),
            first=first,
            end=self.log_end,
            is_clean=False,
        )

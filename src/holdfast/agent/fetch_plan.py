"""Reading a partition for a fetch: stored bytes as they are, whole batches only."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.agent.partition_key import PartitionKey
from holdfast.control.plane import ControlPlane, Extent, LogBounds, is_hidden
from holdfast.control.replicas import Segment
from holdfast.errors import OffsetOutOfRange, StoreFailed
from holdfast.records.batch import HEADER_BYTES, MAGIC, BatchView
from holdfast.records.control import filler_batch
from holdfast.records.walk import walk, whole_bytes
from holdfast.store.store import Place, Store

SEARCH_BYTES = 64 * 1024
STRETCH_BYTES = 1024 * 1024
RESUME_POINTS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """What one partition contributes to a fetch answer."""

    bounds: LogBounds
    chunks: list[memoryview] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(map(len, self.chunks))


class Source(NamedTuple):
    """Where a piece's batches lie on the store that is read: in a segment, or at a place in a journal."""

    file: str | None
    place: Place | None
    length_bytes: int
    last: int


class _Wanted(NamedTuple):
    """What one read asks for."""

    key: PartitionKey
    offset: int
    bytes_max: int
    at_least_one: bool
    committed_only: bool


@dataclass(slots=True)
class _Gathered:
    """What one read has found so far."""

    bytes_left: int
    position: int
    """What lies below was asked for by nobody, or has been looked at."""
    chunks: list[memoryview] = field(default_factory=list)
    passed: int | None = None
    """The last offset of a stretch that holds nothing for this reader."""

    def take(self, chunk: memoryview) -> None:
        self.chunks.append(chunk)
        self.bytes_left -= len(chunk)

    def fill(self, offset: int, leader_epoch: int) -> None:
        """Let no reader take an answer without a record at `offset` or later for one that was cut short."""
        if not self.chunks:
            if self.passed is not None:
                self._append_filler(offset, self.passed, leader_epoch)
        elif len(self.chunks) == 1:
            first = BatchView(self.chunks[0])
            is_alone = first.size_bytes == len(self.chunks[0])
            has_gaps = first.record_count <= first.last_offset_delta
            # The records that are left of it may all lie below: to look into it would cost more than a filler.
            if is_alone and has_gaps and first.base_offset < offset:
                self._append_filler(first.last_offset, first.last_offset, leader_epoch)

    def _append_filler(self, first: int, last: int, leader_epoch: int) -> None:
        filler = filler_batch(base_offset=first, last_offset=last, leader_epoch=leader_epoch)
        self.chunks.append(memoryview(filler))


class PartitionReader:
    """Reads from the piece that holds an offset on: segments first, then extents in the journals.

    Remembers where the last reads ended inside a piece (a cache: without it the piece is searched), so
    that a consumer that reads on does not pay for the batches before.
    """

    def __init__(self, plane: ControlPlane, store: Store) -> None:
        self._plane = plane
        self._store = store
        self._resume_points: OrderedDict[tuple[PartitionKey, int, Source], int] = OrderedDict()

    def read(
        self,
        key: PartitionKey,
        offset: int,
        *,
        bytes_max: int,
        at_least_one: bool,
        committed_only: bool = False,
    ) -> PartitionData:
        """Whole batches from the one that holds `offset` on, up to `bytes_max`.

        With `at_least_one` the first batch is returned however large it is. With `committed_only` nothing at or
        above the last stable offset, and nothing of aborted transactions. If a stretch holds nothing, because it
        was aborted or compacted away, a filler takes the reader past it. OffsetOutOfRange outside of the log;
        StoreFailed if acknowledged bytes cannot be read, OutcomeMissing if nobody knows whether they count.
        """
        wanted = _Wanted(key, offset, bytes_max, at_least_one, committed_only)
        try:
            return self._read_planned(wanted)
        except StoreFailed:
            # A keeper may have put other files in the place of those that the plan named. Then there is a new plan.
            return self._read_planned(wanted)

    def _read_planned(self, wanted: _Wanted) -> PartitionData:
        bounds, pieces = self._plane.find_pieces(
            *wanted.key, self._store.number, wanted.offset, wanted.bytes_max
        )
        if not bounds.start <= wanted.offset <= bounds.end:
            raise OffsetOutOfRange(f"offset {wanted.offset} is outside of {bounds.start} to {bounds.end}")
        if not pieces and wanted.offset < bounds.end:
            raise StoreFailed(f"store {self._store.number} lacks offsets from {wanted.offset} on")
        gathered = _Gathered(wanted.bytes_max, wanted.offset)
        for piece in pieces:
            # The log may begin inside of an open transaction: then it is the offset that is too far.
            if wanted.committed_only and max(piece.first, wanted.offset) >= bounds.last_stable:
                break
            if wanted.committed_only and isinstance(piece, Extent) and is_hidden(piece):
                gathered.passed = piece.last
            elif not self._gather(piece, wanted, gathered):
                break
            gathered.position = piece.end
        gathered.fill(wanted.offset, bounds.leader_epoch)
        return PartitionData(bounds=bounds, chunks=gathered.chunks)

    def _gather(self, piece: Segment | Extent, wanted: _Wanted, gathered: _Gathered) -> bool:
        """Read what fits of a piece, and say whether there is room for the next."""
        source = self._source(piece)
        # The first extent may begin before the last segment ends.
        is_inside = piece.first < gathered.position
        skipped = self._find_batch(wanted.key, source, gathered.position) if is_inside else 0
        if skipped == source.length_bytes:
            gathered.passed = source.last
            return True
        need_one = wanted.at_least_one and not gathered.chunks
        chunk = self._read_batches(source, skipped, gathered.bytes_left, need_one=need_one)
        if not chunk:
            return False
        gathered.take(chunk)
        read_bytes = skipped + len(chunk)
        if read_bytes < source.length_bytes:
            self._remember(wanted.key, source, chunk, read_bytes)
            return False
        return gathered.bytes_left > 0

    def read_piece(self, piece: Segment | Extent, *, since_ms: int | None = None) -> Iterator[memoryview]:
        """All batches of a piece, in stretches of whole ones; with `since_ms` it may leave out older ones."""
        source = self._source(piece)
        skipped = 0
        if since_ms is not None and source.file is not None:
            skipped = self._store.segment_index(source.file).find_time(since_ms)
        while skipped < source.length_bytes:
            chunk = self._read_batches(source, skipped, STRETCH_BYTES, need_one=True)
            yield chunk
            skipped += len(chunk)

    def _source(self, piece: Segment | Extent) -> Source:
        if isinstance(piece, Segment):
            return Source(piece.file, None, piece.length_bytes, piece.end - 1)
        place = piece.places.get(self._store.number)
        if place is None:
            raise StoreFailed(f"store {self._store.number} lacks offsets {piece.first} to {piece.last}")
        return Source(None, place, piece.length_bytes, piece.last)

    def _find_batch(self, key: PartitionKey, source: Source, offset: int) -> int:
        """Bytes of the piece before the first batch that ends at `offset` or later; all of them if there is none."""
        resume = self._resume_points.get((key, offset, source))
        if resume is not None:
            return resume
        skipped = 0 if source.file is None else self._store.segment_index(source.file).find(offset)
        while skipped < source.length_bytes:
            window = self._read(source, skipped, min(SEARCH_BYTES, source.length_bytes - skipped))
            position = 0
            # Headers alone tell: a batch that reaches out of the window is stepped over, not read.
            while position + HEADER_BYTES <= len(window):
                batch = BatchView(window, position)
                if batch.magic != MAGIC or batch.size_bytes < HEADER_BYTES:
                    raise StoreFailed(f"{source} is damaged at byte {skipped + position}")
                if batch.last_offset >= offset:
                    return skipped + position
                position += batch.size_bytes
            if position == 0:
                break
            skipped += position
        # A segment may lack offsets, but what it says of its batches must lead to its end.
        if source.file is None or skipped != source.length_bytes:
            raise StoreFailed(f"offset {offset} is not in {source}, nor is it known to be gone")
        return skipped

    def _read_batches(self, source: Source, skipped: int, bytes_max: int, *, need_one: bool) -> memoryview:
        """Whole batches after the first `skipped` bytes of the piece; none if the first is too large."""
        left = source.length_bytes - skipped
        if left <= bytes_max:
            return self._read(source, skipped, left)
        window = self._read(source, skipped, max(bytes_max, HEADER_BYTES))
        whole = whole_bytes(window)
        if whole == 0 and need_one:
            return self._read(source, skipped, BatchView(window).size_bytes)
        return window[:whole]

    def _read(self, source: Source, skipped: int, length: int) -> memoryview:
        if source.place is None:
            assert source.file is not None, source
            return memoryview(self._store.read_segment(source.file, skipped, length))
        place = Place(journal=source.place.journal, position=source.place.position + skipped)
        return memoryview(self._store.read(place, length))

    def _remember(self, key: PartitionKey, source: Source, chunk: memoryview, read_bytes: int) -> None:
        for last in walk(chunk):
            next_offset = last.next_offset
        self._resume_points[key, next_offset, source] = read_bytes
        if len(self._resume_points) > RESUME_POINTS_MAX:
            self._resume_points.popitem(last=False)

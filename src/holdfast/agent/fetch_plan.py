"""Reading a partition for a fetch: stored bytes as they are, whole batches only."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.agent.partition_key import PartitionKey
from holdfast.control.plane import ControlPlane, Extent, LogBounds, is_hidden
from holdfast.control.replicas import Segment
from holdfast.errors import OffsetOutOfRange, StoreFailed
from holdfast.records.batch import HEADER_BYTES, BatchView
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
        key, offset, bytes_max = wanted.key, wanted.offset, wanted.bytes_max
        bounds, pieces = self._plane.find_pieces(*key, self._store.number, offset, bytes_max)
        if not bounds.start <= offset <= bounds.end:
            raise OffsetOutOfRange(f"offset {offset} is outside of {bounds.start} to {bounds.end}")
        if not pieces and offset < bounds.end:
            raise StoreFailed(f"store {self._store.number} lacks offsets from {offset} on")
        data = PartitionData(bounds=bounds)
        passed = None
        for piece in pieces:
            if wanted.committed_only and isinstance(piece, Extent):
                # The log may begin inside of an open transaction: then it is the offset that is too far.
                if max(piece.first, offset) >= bounds.last_stable:
                    break
                if is_hidden(piece):
                    passed = piece.last
                    continue
            source = self._source(piece)
            skipped = self._find_batch(key, source, offset) if piece.first < offset else 0
            if skipped == source.length_bytes:
                passed = source.last
                continue
            need_one = wanted.at_least_one and not data.chunks
            chunk = self._read_batches(source, skipped, bytes_max, need_one=need_one)
            if not chunk:
                break
            data.chunks.append(chunk)
            bytes_max -= len(chunk)
            if skipped + len(chunk) < source.length_bytes:
                self._remember(key, source, chunk, skipped + len(chunk))
                break
            if bytes_max <= 0:
                break
        if passed is not None and not data.chunks:
            filler = filler_batch(base_offset=offset, last_offset=passed, leader_epoch=bounds.leader_epoch)
            data.chunks.append(memoryview(filler))
        return data

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
                if batch.last_offset >= offset:
                    return skipped + position
                position += max(batch.size_bytes, HEADER_BYTES)
            skipped += max(position, HEADER_BYTES)
        if source.file is None:
            raise StoreFailed(f"offset {offset} is not in the extent that ends at {source.last}")
        return source.length_bytes

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

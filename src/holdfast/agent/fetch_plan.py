"""Reading a partition for a fetch: stored bytes as they are, whole batches only."""

from collections import OrderedDict
from dataclasses import dataclass, field

from holdfast.agent.plan import PartitionKey
from holdfast.control.plane import ControlPlane, Extent, LogBounds
from holdfast.errors import OffsetOutOfRange, OutcomeMissing, StoreFailed
from holdfast.records.batch import HEADER_BYTES, BatchView
from holdfast.records.control import filler_batch
from holdfast.records.walk import walk, whole_bytes
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.store.store import Place, Store

SEARCH_BYTES = 64 * 1024
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


def is_hidden(extent: Extent) -> bool:
    """Whether readers of committed records must not see it; OutcomeMissing rather than a guess."""
    if extent.instance == NO_INSTANCE:
        return False
    if extent.outcome in (None, Outcome.OPEN):
        raise OutcomeMissing(
            f"offsets {extent.first} to {extent.last} belong to transaction instance {extent.instance},"
            " of which no outcome is known"
        )
    return extent.outcome is Outcome.ABORTED


class PartitionReader:
    """Reads from the extent that holds an offset on.

    Remembers where the last reads ended inside an extent (a cache: without it the extent is searched), so
    that a consumer that reads on does not pay for the batches before.
    """

    def __init__(self, plane: ControlPlane, store: Store) -> None:
        self._plane = plane
        self._store = store
        self._resume_points: OrderedDict[tuple[PartitionKey, int], int] = OrderedDict()

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
        above the last stable offset, and nothing of aborted transactions; if that leaves nothing of a stretch, a
        filler takes the reader past it. OffsetOutOfRange outside of the log; StoreFailed if acknowledged bytes
        cannot be read, OutcomeMissing if nobody knows whether they count.
        """
        bounds, extents = self._plane.find_extents(*key, offset, bytes_max)
        if not bounds.start <= offset <= bounds.end:
            raise OffsetOutOfRange(f"offset {offset} is outside of {bounds.start} to {bounds.end}")
        data = PartitionData(bounds=bounds)
        passed = None
        for extent in extents:
            if committed_only:
                # The log may begin inside of an open transaction: then it is the offset that is too far.
                if max(extent.first, offset) >= bounds.last_stable:
                    break
                if is_hidden(extent):
                    passed = extent
                    continue
            skipped = self._find_batch(key, extent, offset) if extent.first < offset else 0
            need_one = at_least_one and not data.chunks
            chunk = self._read_batches(extent, skipped, bytes_max, need_one=need_one)
            if not chunk:
                break
            data.chunks.append(chunk)
            bytes_max -= len(chunk)
            if skipped + len(chunk) < extent.length_bytes:
                self._remember(key, chunk, skipped + len(chunk))
                break
            if bytes_max <= 0:
                break
        if passed is not None and not data.chunks:
            filler = filler_batch(
                base_offset=offset, last_offset=passed.last, leader_epoch=bounds.leader_epoch
            )
            data.chunks.append(memoryview(filler))
        return data

    def read_extent(self, extent: Extent) -> memoryview:
        """All batches of one extent."""
        return self._read_batches(extent, 0, extent.length_bytes, need_one=False)

    def _find_batch(self, key: PartitionKey, extent: Extent, offset: int) -> int:
        """Bytes of the extent before the batch that holds `offset`."""
        resume = self._resume_points.get((key, offset))
        if resume is not None:
            return resume
        skipped = 0
        while skipped < extent.length_bytes:
            window = self._read(extent, skipped, min(SEARCH_BYTES, extent.length_bytes - skipped))
            position = 0
            # Headers alone tell: a batch that reaches out of the window is stepped over, not read.
            while position + HEADER_BYTES <= len(window):
                batch = BatchView(window, position)
                if batch.last_offset >= offset:
                    return skipped + position
                position += max(batch.size_bytes, HEADER_BYTES)
            skipped += max(position, HEADER_BYTES)
        raise StoreFailed(f"offset {offset} is not in the extent {extent.first} to {extent.last}")

    def _read_batches(self, extent: Extent, skipped: int, bytes_max: int, *, need_one: bool) -> memoryview:
        """Whole batches after the first `skipped` bytes of the extent; none if the first is too large."""
        left = extent.length_bytes - skipped
        if left <= bytes_max:
            return self._read(extent, skipped, left)
        window = self._read(extent, skipped, max(bytes_max, HEADER_BYTES))
        whole = whole_bytes(window)
        if whole == 0 and need_one:
            return self._read(extent, skipped, BatchView(window).size_bytes)
        return window[:whole]

    def _read(self, extent: Extent, skipped: int, length: int) -> memoryview:
        begin = extent.places.get(self._store.number)
        if begin is None:
            raise StoreFailed(f"store {self._store.number} lacks offsets {extent.first} to {extent.last}")
        place = Place(journal=begin.journal, position=begin.position + skipped)
        return memoryview(self._store.read(place, length))

    def _remember(self, key: PartitionKey, chunk: memoryview, read_bytes: int) -> None:
        for last in walk(chunk):
            next_offset = last.next_offset
        self._resume_points[key, next_offset] = read_bytes
        if len(self._resume_points) > RESUME_POINTS_MAX:
            self._resume_points.popitem(last=False)

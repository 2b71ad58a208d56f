"""Bringing the control plane up to date: the stores' frames are replayed side by side.

All stores in sync hold the same frames. After a crash the last one may lie on some of them only: nobody was told
about it, so it may stay, and the others are given it. A store that cannot be brought along is in sync no longer.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused, StoreFailed
from holdfast.store import footer
from holdfast.store.footer import Change, ExtentAppended
from holdfast.store.journal import Buffer
from holdfast.store.replica_changes import StoreLeft
from holdfast.store.store import Checkpoint, Place, Store, StoredFrame

logger = logging.getLogger(__name__)


class Recovery:
    """One replay of all stores that are in sync."""

    def __init__(
        self,
        plane: ControlPlane,
        stores: Mapping[int, Store],
        *,
        on_frame: Callable[[int], None] = lambda number: None,
    ) -> None:
        self._plane = plane
        self._on_frame = on_frame
        self._stores = stores
        self._streams: dict[int, Stream] = {}

    def run(self) -> int:
        """Apply what the control plane has not seen, and return how many frames that were.

        StoreFailed if no store is left that has everything.
        """
        applied = self._plane.find_applied()
        for store in sorted(self._plane.find_in_sync() & self._stores.keys()):
            checkpoint = self._plane.find_checkpoint(store)
            # A control plane from a snapshot may know stores that have been away since: they have a gap.
            first = applied + 1 if applied else None
            self._streams[store] = Stream(store, _replay(self._stores[store], checkpoint, first))
        replayed = 0
        while (number := self._find_next()) is not None:
            self._apply([frame for stream in self._streams.values() if (frame := stream.take(number))])
            self._on_frame(number)
            replayed += 1
        self._drop_failed()
        return replayed

    def _find_next(self) -> int | None:
        """The lowest frame that some store has and that is not applied yet."""
        numbers = (stream.frame.number for stream in self._streams.values() if stream.frame is not None)
        return min(numbers, default=None)

    def _apply(self, frames: list[StoredFrame]) -> None:
        number = frames[0].number
        if len({frame.footer for frame in frames}) > 1:
            names = ", ".join(str(frame.store) for frame in frames)
            raise StoreFailed(f"stores {names} disagree about frame {number}: restore one of them")
        changes = footer.decode(frames[0].footer)
        having = {frame.store for frame in frames}
        for store, stream in self._streams.items():
            if store not in having and stream.is_at_end:
                frames += filter(None, [self._heal(stream, frames, changes)])
        # A refusal now was a refusal when the frame was new, and nobody was told otherwise.
        with suppress(CommitRefused):
            self._plane.apply(frames, changes)
        if any(isinstance(change, StoreLeft) for change in changes):
            # It is given no more frames, so it lacks none.
            in_sync = self._plane.find_in_sync()
            self._streams = {store: stream for store, stream in self._streams.items() if store in in_sync}

    def _heal(self, stream: "Stream", frames: list[StoredFrame], changes: list[Change]) -> StoredFrame | None:
        """Give a store the frame that it lacks, its body put together from the others'."""
        number = frames[0].number
        try:
            body: list[Buffer] = [
                self._read_extent(extent, frames, changes)
                for _, extent in footer.extents_on(changes, stream.store)
            ]
            return self._stores[stream.store].append(number, body, frames[0].footer)
        except StoreFailed as failure:
            logger.error("store %d cannot be given frame %d: %s", stream.store, number, failure)
            stream.failure = failure
            return None

    def _read_extent(self, wanted: ExtentAppended, frames: list[StoredFrame], changes: list[Change]) -> bytes:
        for frame in frames:
            for position, extent in footer.extents_on(changes, frame.store):
                if extent is wanted:
                    place = Place(journal=frame.body.journal, position=frame.body.position + position)
                    return self._stores[frame.store].read(place, extent.length_bytes)
        raise StoreFailed(f"no store has offsets {wanted.first} to {wanted.last} of frame {frames[0].number}")

    def _drop_failed(self) -> None:
        """Stores that could not be replayed lack what others have; if no other is left, that is the end."""
        failures = [stream.failure for stream in self._streams.values() if stream.failure is not None]
        if failures and len(failures) == len(self._streams):
            raise failures[0]
        replayed = {store for store, stream in self._streams.items() if stream.failure is None}
        # A store may also have joined in a frame that was replayed. Nobody has looked at what it has since.
        if lacking := sorted(self._plane.find_in_sync() - replayed):
            self._plane.drop_stores(lacking)


class Stream:
    """The frames of one store, one at a time, until they end or cannot be read any further."""

    def __init__(self, store: int, frames: Iterator[StoredFrame]) -> None:
        self.store = store
        self._frames = frames
        self.frame: StoredFrame | None = None
        """The next one; None at the end and after a failure."""
        self.failure: StoreFailed | None = None
        self._advance()

    @property
    def is_at_end(self) -> bool:
        """Whether there are no more frames, and nothing went wrong."""
        return self.frame is None and self.failure is None

    def take(self, number: int) -> StoredFrame | None:
        """The frame of that number. A store that lacks it, but has later ones, has failed."""
        frame = self.frame
        if frame is None:
            return None
        if frame.number != number:
            self._fail(StoreFailed(f"store {self.store} lacks frames {number} to {frame.number - 1}"))
            return None
        self._advance()
        return frame

    def _advance(self) -> None:
        try:
            self.frame = next(self._frames, None)
        except StoreFailed as failure:
            self._fail(failure)

    def _fail(self, failure: StoreFailed) -> None:
        logger.error("store %d cannot be replayed: %s", self.store, failure)
        self.failure = failure
        self.frame = None


def _replay(store: Store, after: Checkpoint | None, first: int | None) -> Iterator[StoredFrame]:
    """Asked for the first frame, and not before: a store that is not even open fails then, like any other."""
    yield from store.replay(after, first=first)

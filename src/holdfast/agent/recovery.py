"""Bringing the control plane up to date: the stores' frames are replayed side by side.

All stores that are given frames hold the same ones: those in sync, and those that are joining, from the frame after
they came. Who comes and leaves is said by the frames themselves. After a crash the last one may lie on some stores
only: nobody was told about it, so it may stay, and the others are given it. A store that cannot be brought along
leaves.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase, StoreState
from holdfast.errors import CommitRefused, StoreFailed
from holdfast.store import footer
from holdfast.store.footer import Change, ExtentAppended
from holdfast.store.journal import Buffer
from holdfast.store.replica_changes import (
    ReplicaChange,
    StoreAdded,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from holdfast.store.store import Checkpoint, Place, Store, StoredFrame

logger = logging.getLogger(__name__)

WRITTEN = (StorePhase.IN_SYNC, StorePhase.JOINING)
"""The phases in which a store is given every frame."""


def add_stores(plane: ControlPlane, stores: Mapping[int, Store]) -> None:
    """Make the stores known that the frames to come speak of, before they are replayed.

    A log that has begun learns of a new store by a frame, so that a replay knows from where on to look for frames on
    it. One that has frames is none: it was known once, be it that the frame is yet to come, or that there was none.
    """
    has_begun = plane.find_applied() > 0
    known = {state.store for state in plane.list_stores()}
    for number, store in stores.items():
        if number not in known and not (has_begun and _is_new(store)):
            plane.add_store(number)


def _is_new(store: Store) -> bool:
    try:
        return not store.list_journals()
    except StoreFailed:
        # It cannot be opened: nobody knows.
        return False


class Recovery:
    """One replay of all stores that are given frames."""

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
        self._in_sync: frozenset[int] = frozenset()

    def run(self) -> int:
        """Apply what the control plane has not seen, and return how many frames that were.

        StoreFailed if no store is left that has everything.
        """
        applied = self._plane.find_applied()
        self._in_sync = self._plane.find_in_sync()
        for store, state in self._find_written().items():
            # A store that is joining may have a gap before the frames that are wanted.
            first = applied + 1 if applied else None
            self._follow(state, self._plane.find_checkpoint(store), first)
        replayed = 0
        while (number := self._find_next()) is not None:
            frames = [frame for stream in self._streams.values() if (frame := stream.take(number))]
            if not any(self._is_promised(frame) for frame in frames):
                self._refuse(frames)
                continue
            self._apply(frames)
            self._on_frame(number)
            replayed += 1
        self._drop_failed()
        return replayed

    def _find_written(self) -> dict[int, StoreState]:
        """The stores that are given every frame, of those that are here."""
        return {
            state.store: state
            for state in self._plane.list_stores()
            if state.phase in WRITTEN and state.store in self._stores
        }

    def _follow(self, state: StoreState, after: Checkpoint | None, first: int | None) -> None:
        frames = _replay(self._stores[state.store], state.incarnation, after, first)
        self._streams[state.store] = Stream(state.store, frames)

    def _is_promised(self, frame: StoredFrame) -> bool:
        """Whether somebody may have been told of it, by what its store tells.

        A frame that no store in sync took was promised to nobody, and the next one has its number: where a store that
        is joining took it, nothing follows it. If something does, stores in sync have had it, and have lost it since.
        """
        return frame.store in self._in_sync or self._streams[frame.store].frame is not None

    def _refuse(self, frames: Sequence[StoredFrame]) -> None:
        for frame in frames:
            self._streams[frame.store].fail(
                StoreFailed(f"frame {frame.number} of store {frame.store} is on no store in sync")
            )

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
        lacking = [
            stream for stream in self._streams.values() if stream.store not in having and stream.is_at_end
        ]
        if lacking:
            leaving = self._find_leaving(number, changes)
            healed = [
                self._heal(stream, frames, changes) for stream in lacking if stream.store not in leaving
            ]
            frames += filter(None, healed)
        # A refusal now was a refusal when the frame was new, and nobody was told otherwise.
        with suppress(CommitRefused):
            self._plane.apply(sorted(frames, key=lambda frame: frame.store), changes)
        if any(isinstance(change, ReplicaChange) for change in changes):
            self._turn_to_others(number, changes)

    def _find_leaving(self, number: int, changes: Sequence[Change]) -> set[int]:
        """The stores that this frame or the next one says have left: those failed to take it when it was new."""
        following = [stream.frame for stream in self._streams.values() if stream.frame is not None]
        said = [*changes]
        for frame in following:
            if frame.number == number + 1:
                said += footer.decode(frame.footer)
        return {change.store for change in said if isinstance(change, StoreLeft)}

    def _turn_to_others(self, number: int, changes: Sequence[Change]) -> None:
        """After a frame that may say who comes and who leaves."""
        self._in_sync = self._plane.find_in_sync()
        written = self._find_written()
        self._streams = {store: stream for store, stream in self._streams.items() if store in written}
        for change in changes:
            if isinstance(change, StoreJoining | StoreRebuilt | StoreAdded) and change.store in written:
                # Whatever it had before, and whatever was wrong with it: it is given the frames after this one.
                self._follow(written[change.store], None, number + 1)

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
        """Stores that could not be replayed lack what others have; if none is left that has all, that is the end."""
        sound = {store for store, stream in self._streams.items() if stream.failure is None}
        if not self._plane.find_in_sync() & sound:
            failures = [stream.failure for stream in self._streams.values() if stream.failure is not None]
            raise failures[0] if failures else StoreFailed("no store is in sync that could be replayed")
        written = (state.store for state in self._plane.list_stores() if state.phase in WRITTEN)
        if lacking := sorted(set(written) - sound):
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
            self.fail(StoreFailed(f"store {self.store} lacks frames {number} to {frame.number - 1}"))
            return None
        self._advance()
        return frame

    def _advance(self) -> None:
        try:
            self.frame = next(self._frames, None)
        except StoreFailed as failure:
            self.fail(failure)

    def fail(self, failure: StoreFailed) -> None:
        """Nothing more comes from this store."""
        logger.error("store %d cannot be replayed: %s", self.store, failure)
        self.failure = failure
        self.frame = None


def _replay(
    store: Store, incarnation: int, after: Checkpoint | None, first: int | None
) -> Iterator[StoredFrame]:
    """Asked for the first frame, and not before: a store that is not even open fails then, like any other."""
    if store.incarnation != incarnation:
        raise StoreFailed(f"store {store.number} is in its life {store.incarnation}, not {incarnation}")
    yield from store.replay(after, first=first)

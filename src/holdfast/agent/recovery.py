"""Bringing the control plane up to date: the stores' frames are replayed side by side.

All stores in sync hold the same frames. After a crash the last one may lie on some of them only: nobody was told
about it, so it may stay, and the others are given it. A store that cannot be brought along is in sync no longer.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import merge
from itertools import groupby

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused, StoreFailed
from holdfast.store import footer
from holdfast.store.footer import Change, ExtentAppended
from holdfast.store.journal import Buffer
from holdfast.store.store import Place, Store, StoredFrame

logger = logging.getLogger(__name__)


class Recovery:
    """One replay of all stores that are in sync."""

    def __init__(
        self,
        plane: ControlPlane,
        stores: dict[int, Store],
        *,
        on_frame: Callable[[int], None] = lambda number: None,
    ) -> None:
        self._plane = plane
        self._on_frame = on_frame
        self._stores = {number: stores[number] for number in sorted(plane.find_in_sync() & stores.keys())}
        self._failed: dict[int, StoreFailed] = {}

    def run(self) -> int:
        """Apply what the control plane has not seen, and return how many frames that were.

        StoreFailed if no store is left that has everything.
        """
        replays = [self._replay(number) for number in self._stores]
        replayed = 0
        for _, group in groupby(merge(*replays, key=_number), key=_number):
            frames = list(group)
            self._apply(frames)
            self._on_frame(frames[0].number)
            replayed += 1
        self._drop_failed()
        return replayed

    def _replay(self, store: int) -> Iterator[StoredFrame]:
        try:
            yield from self._stores[store].replay(self._plane.find_checkpoint(store))
        except StoreFailed as failure:
            logger.error("store %d cannot be replayed: %s", store, failure)
            self._failed[store] = failure

    def _apply(self, frames: list[StoredFrame]) -> None:
        if len({frame.footer for frame in frames}) > 1:
            names = ", ".join(str(frame.store) for frame in frames)
            raise StoreFailed(f"stores {names} disagree about frame {frames[0].number}: restore one of them")
        changes = footer.decode(frames[0].footer)
        lacking = self._stores.keys() - self._failed.keys() - {frame.store for frame in frames}
        frames += [healed for store in sorted(lacking) if (healed := self._heal(store, frames, changes))]
        # A refusal now was a refusal when the frame was new, and nobody was told otherwise.
        with suppress(CommitRefused):
            self._plane.apply(frames, changes)

    def _heal(self, store: int, frames: list[StoredFrame], changes: list[Change]) -> StoredFrame | None:
        """Give a store the frame that it lacks, its body put together from the others'."""
        try:
            body: list[Buffer] = [
                self._read_extent(extent, frames, changes) for _, extent in footer.extents_on(changes, store)
            ]
            return self._stores[store].append(frames[0].number, body, frames[0].footer)
        except StoreFailed as failure:
            logger.error("store %d cannot be given frame %d: %s", store, frames[0].number, failure)
            self._failed[store] = failure
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
        if not self._failed:
            return
        if len(self._failed) == len(self._stores):
            raise next(iter(self._failed.values()))
        self._plane.drop_stores(list(self._failed))


def _number(frame: StoredFrame) -> int:
    return frame.number

"""What takes space on the stores, and who needs it: the part of the desk that keepers ask before they collect.

It reads the control plane and the disk, and decides nothing (`keeper/collect.py` does). Journals and snapshots are
this process's own files, so it is here that they are deleted and written, when a keeper says that it is worth it.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.agent.catalog import Catalog
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.pins import Pins
from holdfast.control.plane import ControlPlane, Extent
from holdfast.control.replicas import StorePhase, StoreState
from holdfast.errors import CommitRefused, StoreFailed, UnknownTopicOrPartition
from holdfast.keeper import messages
from holdfast.keeper.catch_up import CARRIED_BYTES_MAX, CarriedPiece
from holdfast.keeper.collect import (
    JournalFile,
    SnapshotFile,
    StoreFiles,
    UnusedCarried,
    UnusedSegment,
    collect,
    find_journals_end,
)
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.messages import Extents, ExtentsWanted, FilesWanted, Freed, StoreNamed
from holdfast.store.carried import batches_path, list_carried
from holdfast.store.journals import measure_journals
from holdfast.store.segments import scan_segments
from holdfast.store.snapshots import covered_to
from holdfast.store.store import CARRIED, Place, Store

FILES_MAX = 20_000
"""As many of a kind one answer names, those first that have been unused for longest; the next round has the others."""
EXTENTS_MAX = 2000
"""As many extents go into one carried file: they are published in one frame."""
SNAPSHOTS_KEPT = 2
PAGE_BYTES_MAX = 1 << 62

Answer = Callable[[dict[str, Any]], Awaitable[object]]
Unused = str | int
"""A segment by its name, or a journal or carried file by its number."""


class Space:
    """Answers keepers who collect. `questions` are its answers by name."""

    def __init__(
        self,
        plane: ControlPlane,
        catalog: Catalog,
        *,
        stores: Mapping[int, Store],
        directories: Mapping[int, str],
        pins: Pins,
        limits: KeeperLimits,
        is_leased: Callable[[int], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plane = plane
        self._catalog = catalog
        self._stores = stores
        self._directories = directories
        self._pins = pins
        self._limits = limits
        self._is_leased = is_leased
        self._now = now
        # Since when each file has been known to be unused, by store. It need not outlive the process: neither do
        # those who may have planned to read one of them.
        self._since: dict[int, dict[Unused, float]] = {}
        # (when, what) was found on a store last: to look is not free, and whether to collect is asked often.
        self._found: dict[int, tuple[float, StoreFiles]] = {}
        self._looking = threading.Lock()
        self.questions: Mapping[str, Answer] = {
            "files": self._find_files,
            "extents": self._list_extents,
            "roll": self._roll,
            "snapshot": self._snapshot,
            "journals": self._delete_journals,
        }

    def is_anything_due(self, state: StoreState) -> bool:
        """Whether there is something to collect on a store. Looks at the disk now and then only."""
        try:
            return self._can_be_collected(state) and bool(collect(self._hint(state), self._limits))
        except StoreFailed:
            # Frames that it does not take say so loudly enough.
            return False

    def save_snapshot(self, store: int) -> None:
        """Have a store keep the control plane as of now, and the one before that."""
        self._stores[store].save_snapshot(self._plane.snapshot)
        self._stores[store].keep_snapshots(SNAPSHOTS_KEPT)

    async def _find_files(self, document: dict[str, Any]) -> StoreFiles:
        wanted = messages.convert(document, FilesWanted)
        state = self._state(wanted.store)
        if wanted.lease is None:
            return await asyncio.to_thread(self._hint, state)
        # What the rule is applied to must have been seen under the lease: a file of the lease before may have been
        # published since, up to the moment when this one was given.
        if wanted.lease != state.lease:
            raise CommitRefused(f"the lease of store {wanted.store} is {state.lease}, not {wanted.lease}")
        return await asyncio.to_thread(self._look, state, wanted.lease)

    async def _list_extents(self, document: dict[str, Any]) -> Extents:
        wanted = messages.convert(document, ExtentsWanted)
        self._state(wanted.store)
        return await asyncio.to_thread(self._read_extents, wanted)

    async def _roll(self, document: dict[str, Any]) -> dict[str, object]:
        state = self._state(messages.convert(document, StoreNamed).store)
        self._stores[state.store].roll()
        return {}

    async def _snapshot(self, document: dict[str, Any]) -> dict[str, object]:
        state = self._state(messages.convert(document, StoreNamed).store)
        await asyncio.to_thread(self.save_snapshot, state.store)
        return {}

    async def _delete_journals(self, document: dict[str, Any]) -> Freed:
        state = self._state(messages.convert(document, StoreNamed).store)
        return await asyncio.to_thread(self._delete_unused_journals, state)

    def _delete_unused_journals(self, state: StoreState) -> Freed:
        """Looked at anew, whatever the keeper has been told: what is in use is known here.

        Nothing comes into use again: extents are appended to the last journal, and carried out of the others.
        """
        end = find_journals_end(self._look(state, state.lease), self._limits)
        if state.phase is not StorePhase.IN_SYNC:
            return Freed(freed_bytes=0)
        return Freed(freed_bytes=self._stores[state.store].delete_journals(end))

    def _state(self, store: int) -> StoreState:
        found = next((state for state in self._plane.list_stores() if state.store == store), None)
        if found is None or not self._can_be_collected(found):
            raise CommitRefused(f"store {store} is not here: nothing can be collected on it")
        return found

    def _can_be_collected(self, state: StoreState) -> bool:
        """What is away may come back as it was; what is fenced is emptied as a whole."""
        return state.store in self._directories and state.phase in (StorePhase.IN_SYNC, StorePhase.JOINING)

    def _hint(self, state: StoreState) -> StoreFiles:
        found = self._found.get(state.store)
        # Half of the grace, so that it is kept by half of it at worst.
        if found is not None and self._now() - found[0] < self._limits.collect_seconds / 2:
            return found[1]
        # A keeper that holds the store may be about to publish what it has written; otherwise nobody can any more,
        # once the next lease is taken.
        return self._look(state, state.lease + (not self._is_leased(state.store)))

    def _look(self, state: StoreState, lease: int) -> StoreFiles:
        directory = Path(self._directories[state.store])
        # Those that a keeper has deleted take space as long as they are open here.
        self._stores[state.store].forget_deleted()
        # The disk before the control plane: what is published in between is seen to be named.
        scanned = scan_segments(directory)
        carried = list_carried(directory)
        sizes = measure_journals(directory)
        # What readers have been promised is in use, whatever has taken its place.
        with self._pins.lock:
            held = self._pins.find(state.store)
            unnamed = scanned.files - self._plane.list_files(state.store) - held.segments
            in_use = self._plane.find_carried(state.store) if carried else set()
            unused_carried = set(carried) - in_use - held.journals
            # With one journal alone there is nothing to find out: the last one stays.
            oldest = self._plane.find_oldest_journal(state.store) if len(sizes) > 1 else 0
            unused_journals = [
                number
                for number, successor in pairwise(sizes)
                if (oldest is None or successor <= oldest) and number not in held.journals
            ]
        live = self._count_live(state.store, oldest, max(sizes, default=0))
        unsettled_bytes = self._count_unsettled(state.store, list(sizes.values()))
        snapshots = self._stores[state.store].list_snapshots()
        with self._looking:
            now = self._now()
            since = self._remember(state.store, now, [*unnamed, *unused_carried, *unused_journals])
            files = StoreFiles(
                store=state.store,
                directory=str(directory),
                incarnation=state.incarnation,
                phase=state.phase,
                lease=lease,
                segments=[
                    UnusedSegment(file=file, seconds=now - since[file])
                    for file in sorted(unnamed, key=lambda file: since[file])[:FILES_MAX]
                ],
                carried=[
                    UnusedCarried(number=number, seconds=now - since[number])
                    for number in sorted(unused_carried, key=lambda number: since[number])[:FILES_MAX]
                ],
                empty_folders=scanned.empty_folders[:FILES_MAX],
                journals=[
                    JournalFile(
                        number=number,
                        size_bytes=size_bytes,
                        live_bytes=live[number],
                        unused_seconds=now - since[number] if number in since else None,
                    )
                    for number, size_bytes in sizes.items()
                ],
                unsettled_bytes=unsettled_bytes,
                covered_to=covered_to(snapshots),
                snapshot=self._measure_snapshot(state.store, snapshots),
            )
            self._found[state.store] = (now, files)
        return files

    def _remember(self, store: int, now: float, unused: Iterable[Unused]) -> dict[Unused, float]:
        before = self._since.get(store, {})
        self._since[store] = {each: before.get(each, now) for each in unused}
        return self._since[store]

    def _count_live(self, store: int, oldest: int | None, last: int) -> Counter[int]:
        """Bytes of extents in use in each journal but the last; most often there are none, which is quick to see.

        For who weighs what it would cost to carry them. What may be deleted, the control plane says.
        """
        live: Counter[int] = Counter()
        if oldest is not None and oldest < last:
            for _, extent, place in self._live(store, last):
                live[place.journal] += extent.length_bytes
        return live

    def _live(self, store: int, below: int) -> Iterator[tuple[PartitionKey, Extent, Place]]:
        """The extents in use in a store's journals below one. Journals follow each other as offsets do."""
        for key in self._partitions_on(store):
            for extent in self._unsettled(key, store):
                place = extent.places.get(store)
                if place is None or place.journal >= CARRIED:
                    continue
                if place.journal >= below:
                    break
                yield key, extent, place

    def _unsettled(self, key: PartitionKey, store: int) -> Iterator[Extent]:
        """The first alone, because most often it tells that the others do not matter."""
        try:
            replicas = self._plane.find_removal(*key).replicas
            bounds = self._plane.find_bounds(*key)
            settled_to = next((each.settled_to for each in replicas if each.store == store), bounds.end)
            offset, bytes_max = max(settled_to, bounds.start), 0
            while offset < bounds.end:
                _, extents = self._plane.find_extents(*key, offset, bytes_max)
                if not extents:
                    return
                yield from extents
                offset, bytes_max = extents[-1].end, PAGE_BYTES_MAX
        except UnknownTopicOrPartition:
            # It was deleted meanwhile.
            return

    def _read_extents(self, wanted: ExtentsWanted) -> Extents:
        pieces: list[CarriedPiece] = []
        directory = self._directories[wanted.store]
        size_bytes = 0
        for key, extent, place in self._live(wanted.store, wanted.below):
            size_bytes += extent.length_bytes
            if pieces and (size_bytes > CARRIED_BYTES_MAX or len(pieces) == EXTENTS_MAX):
                break
            pieces.append(
                CarriedPiece(
                    topic_id=key.topic_id.hex,
                    partition=key.partition,
                    last=extent.last,
                    path=batches_path(directory, place.journal),
                    position=place.position,
                    length_bytes=extent.length_bytes,
                )
            )
        return Extents(pieces=pieces)

    def _count_unsettled(self, store: int, journal_sizes: list[int]) -> int:
        if not journal_sizes or journal_sizes[-1] < self._limits.collect_bytes_min:
            return 0
        unsettled_bytes = 0
        for key in self._partitions_on(store):
            try:
                start = self._plane.find_bounds(*key).start
            except UnknownTopicOrPartition:
                continue
            segments = self._plane.find_segments(*key, store, start)
            in_segments = sum(segment.length_bytes for segment in segments)
            unsettled_bytes += max(self._plane.find_size(*key, store) - in_segments, 0)
        return unsettled_bytes

    def _partitions_on(self, store: int) -> Iterator[PartitionKey]:
        for topic in self._catalog.all():
            for number, partition in enumerate(topic.partitions):
                if store in partition.replicas:
                    yield PartitionKey(topic.topic_id, number)

    def _measure_snapshot(self, store: int, frames: list[int]) -> SnapshotFile | None:
        if not frames:
            return None
        path = self._stores[store].snapshot_path(frames[0])
        try:
            found = path.stat()
        except OSError as failure:
            raise StoreFailed(f"cannot look at {path}: {failure.strerror}") from failure
        return SnapshotFile(size_bytes=found.st_size, age_seconds=max(time.time() - found.st_mtime, 0.0))

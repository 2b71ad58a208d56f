"""A data directory with a history of frames on real stores, made without a server; snapshots and losses on demand."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.recovery import WRITTEN
from holdfast.control.replicas import StorePhase
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.control.sqlite_log import PLACE
from holdfast.errors import CommitRefused
from holdfast.records.build import Record, build_batch
from holdfast.store import footer
from holdfast.store.carried import carried_number
from holdfast.store.footer import Change, ExtentAppended
from holdfast.store.identity import StoreIdentity, wipe
from holdfast.store.local import LocalStore
from holdfast.store.replica_changes import (
    CarriedExtent,
    ExtentsCarried,
    KeeperLeased,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)

JOURNAL_BYTES_MAX = 2000
"""A few frames to a journal, so that there are many."""


class History:
    """Frames that are appended and applied as a commit does it; `close` ends the process."""

    def __init__(self, data: Path, *, nodes: int) -> None:
        self.data = data
        self._directory = DataDirectory(data, nodes=nodes)
        self.plane = SqliteControlPlane(self._directory.control_db)
        self.stores = {number: self._open(number) for number in self._directory.nodes}
        for number in self.stores:
            self.plane.add_store(number)

    def _open(self, number: int) -> LocalStore:
        return LocalStore(
            self._directory.store(number),
            store=number,
            cluster_id=self._directory.cluster_id,
            journal_bytes_max=JOURNAL_BYTES_MAX,
        )

    @property
    def written(self) -> list[int]:
        """The stores that are given every frame."""
        return [state.store for state in self.plane.list_stores() if state.phase in WRITTEN]

    def phase(self, store: int) -> StorePhase:
        """Where a store stands."""
        return next(state.phase for state in self.plane.list_stores() if state.store == store)

    def commit(self, changes: Sequence[Change], *, lost: Sequence[int] = ()) -> int:
        """One frame on all stores that are given it but the lost ones, its extents filled with batches; its number."""
        filled, batches = zip(*map(_filled, changes), strict=True) if changes else ((), ())
        number = self.plane.find_applied() + 1
        frames = []
        for store in self.written:
            if store in lost:
                continue
            body = [
                batch
                for change, batch in zip(filled, batches, strict=True)
                if isinstance(change, ExtentAppended) and store in change.stores
            ]
            frames.append(self.stores[store].append(number, body, footer.encode(filled)))
        with suppress(CommitRefused):
            self.plane.apply(frames, filled, lost=lost)
        return number

    def append(self, topic_id: UUID, count: int, *, lost: Sequence[int] = ()) -> None:
        """Batches of one record, a frame each."""
        for _ in range(count):
            end = self.plane.find_bounds(topic_id, 0).end
            self.commit([ExtentAppended(topic_id, 0, end, end, self.written, 0, 5, 0)], lost=lost)

    def lose(self, topic_id: UUID, store: int) -> None:
        """A store fails to take a frame, and the next one says that it has left."""
        self.append(topic_id, 1, lost=[store])
        self.commit([StoreLeft(store, tuple(self.plane.list_behind(store)))])

    def come_back(self, store: int) -> None:
        """It is cut to what is recorded of it, and given every frame from the next one on."""
        self.stores[store].truncate_to(self.plane.find_checkpoint(store))
        self.commit([StoreJoining(store, self.stores[store].incarnation)])

    def rebuild(self, store: int) -> None:
        """It is emptied, and given every frame from the next one on."""
        life = self.stores[store].incarnation + 1
        self.stores[store].close()
        identity = StoreIdentity(cluster_id=self._directory.cluster_id, store=store, incarnation=life)
        wipe(self._directory.store(store), identity)
        self.stores[store] = self._open(store)
        self.commit([StoreRebuilt(store, life)])

    def join(self, topic_id: UUID, store: int) -> None:
        """What it lacks is copied, and it is in sync."""
        state = next(state for state in self.plane.list_stores() if state.store == store)
        held, lease = self.plane.find_held(topic_id, 0, store), state.lease + 1
        _, extents = self.plane.find_extents(topic_id, 0, held, 1 << 40)
        self.commit([KeeperLeased(store, lease)])
        carried = tuple(
            CarriedExtent(topic_id, 0, extent.last, 44 + position) for position, extent in enumerate(extents)
        )
        number = carried_number(lease, 1)
        self.commit([ExtentsCarried(store, state.incarnation, lease, number, carried)])
        self.commit([StoreJoined(store)])
        assert self.phase(store) is StorePhase.IN_SYNC

    def snapshot(self, stores: Sequence[int] | None = None) -> None:
        """On these stores, or on all that are given frames; what is needed no longer goes."""
        for store in stores or self.written:
            self.stores[store].save_snapshot(self.plane.snapshot)
            self.stores[store].keep_snapshots(2)
            self.stores[store].delete_journals(1 << 60)

    def reopen(self) -> "History":
        """As the next process finds it."""
        self.close()
        again = History(self.data, nodes=len(self.stores))
        for store in again.written:
            assert not list(again.stores[store].replay(again.plane.find_checkpoint(store)))
        return again

    def close(self) -> None:
        """Let go of everything, as a process that ends."""
        self.plane.close()
        for store in self.stores.values():
            store.close()
        self._directory.close()


def _filled(change: Change) -> tuple[Change, bytes]:
    """An extent of the length of the batch that it is given."""
    if not isinstance(change, ExtentAppended):
        return change, b""
    batch = build_batch(
        [Record(value=bytes(60), timestamp_ms=change.max_timestamp)],
        base_offset=change.first,
        last_offset=change.last,
        leader_epoch=change.leader_epoch,
    )
    return replace(change, length_bytes=len(batch)), batch


def lose_control_plane(data: Path) -> None:
    """As if it had never been there."""
    for file in data.glob("control.db*"):
        file.unlink()


def snapshots(data: Path) -> list[Path]:
    """All snapshots on all stores, newest first."""
    return sorted(data.glob("stores/*/snapshot/*.db"), key=lambda path: path.name, reverse=True)


def _places(column: bytes, stores: set[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(place for place in PLACE.iter_unpack(column) if place[0] in stores)


def rows(data: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that is in the control plane, by table."""
    with closing(sqlite3.connect(data / "control.db")) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in tables}
        in_sync = {store for (store,) in connection.execute("SELECT store FROM stores WHERE phase = 0")}
        # A row keeps places of stores that count there no longer, such as those of an earlier life: nobody is told.
        found["extents"] = [
            tuple(_places(cell, in_sync) if isinstance(cell, bytes) else cell for cell in row)
            for row in found["extents"]
        ]
        return found

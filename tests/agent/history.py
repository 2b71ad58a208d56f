"""A data directory with a history of frames on real stores, made without a server; snapshots and losses on demand."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from holdfast.agent.data_directory import DataDirectory
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import CommitRefused
from holdfast.records.build import Record, build_batch
from holdfast.store import footer
from holdfast.store.footer import Change, ExtentAppended
from holdfast.store.local import LocalStore

JOURNAL_BYTES_MAX = 2000
"""A few frames to a journal, so that there are many."""


class History:
    """Frames that are appended and applied as a commit does it; `close` ends the process."""

    def __init__(self, data: Path, *, nodes: int) -> None:
        self.data = data
        self._directory = DataDirectory(data, nodes=nodes)
        self.plane = SqliteControlPlane(self._directory.control_db)
        self.stores = {
            number: LocalStore(
                self._directory.store(number),
                store=number,
                cluster_id=self._directory.cluster_id,
                journal_bytes_max=JOURNAL_BYTES_MAX,
            )
            for number in self._directory.nodes
        }
        for number in self.stores:
            self.plane.add_store(number)

    def commit(self, changes: Sequence[Change]) -> int:
        """One frame on all stores in sync, its extents filled with batches; its number."""
        filled, batches = zip(*map(_filled, changes), strict=True) if changes else ((), ())
        number = self.plane.find_applied() + 1
        frames = []
        for store in sorted(self.plane.find_in_sync() & self.stores.keys()):
            body = [
                batch
                for change, batch in zip(filled, batches, strict=True)
                if isinstance(change, ExtentAppended) and store in change.stores
            ]
            frames.append(self.stores[store].append(number, body, footer.encode(filled)))
        with suppress(CommitRefused):
            self.plane.apply(frames, filled)
        return number

    def snapshot(self, stores: Sequence[int] | None = None) -> None:
        """On these stores or on all that are in sync; what is needed no longer goes."""
        for store in stores or sorted(self.plane.find_in_sync()):
            self.stores[store].save_snapshot(self._write_snapshot)
            self.stores[store].keep_snapshots(2)
            self.stores[store].delete_journals(1 << 60)

    def _write_snapshot(self, path: Path) -> int:
        with closing(sqlite3.connect(self._directory.control_db)) as connection:
            connection.execute("VACUUM INTO ?", (str(path),))
        return self.plane.find_applied()

    def reopen(self) -> "History":
        """As the next process finds it."""
        self.close()
        again = History(self.data, nodes=len(self.stores))
        for store in again.stores:
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


def rows(data: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that is in the control plane, by table."""
    with closing(sqlite3.connect(data / "control.db")) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in tables}

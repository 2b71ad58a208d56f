"""What tests of collecting need: what lies on disk, transactions in the engine, reads under both isolation levels."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import cluster as clusters
from holdfast.agent.fetch_plan import PartitionReader
from holdfast.agent.group_commit import resolve
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.transactions.plan import Membership
from holdfast.agent.writes import AppendBatch
from holdfast.keeper.limits import KeeperLimits
from holdfast.records.walk import walk_valid
from holdfast.store.local import LocalStore
from tests.agent.batches import batch, view
from tests.keeper.engine import Engine

GRACE_SECONDS = 60.0

QUICK = KeeperLimits(
    settle_ms_max=0, collect_seconds=0.0, collect_bytes_min=4096, snapshot_seconds=0.0, round_seconds=0.0
)
"""Everything is due at once, save what frees less than a few frames."""

JOURNAL_BYTES = 8192
ROUNDS_MAX = 12


def small_journals(monkeypatch: pytest.MonkeyPatch, size_bytes: int = JOURNAL_BYTES) -> None:
    """Engines that are opened from now on have journals of about this size."""
    monkeypatch.setattr(clusters, "LocalStore", partial(LocalStore, journal_bytes_max=size_bytes))


class Clock:
    """The time that the desk goes by when it gives readers their time."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        monkeypatch.setattr(engine.cluster.desk._space, "_now", lambda: self.seconds)


def lose_control_plane(engine: Engine) -> None:
    """Begin again without it."""
    engine.close()
    for path in engine.data.glob("control.db*"):
        path.unlink()
    engine.open()


def rest(engine: Engine) -> int:
    """Rounds until nothing more happens; how many that took. Nobody writes meanwhile."""
    for number in range(1, ROUNDS_MAX + 1):
        before = engine.cluster.commits.last_frame
        engine.round()
        if engine.cluster.commits.last_frame == before:
            return number
    raise AssertionError(f"there is always more to do: {engine.gateway.find_files(1)}")


def files(engine: Engine, store: int, folder: str) -> dict[str, int]:
    """Sizes of all files in a folder of a store, by their names in it."""
    root = engine.data / "stores" / str(store) / folder
    return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def segments_on_disk(engine: Engine, store: int) -> set[str]:
    """Their names, without indexes."""
    return {name for name in files(engine, store, "segments") if name.endswith(".log")}


def usage(data: Path) -> dict[str, int]:
    """Bytes below each folder of all stores together."""
    return {
        folder: sum(path.stat().st_size for path in data.glob(f"stores/*/{folder}/**/*") if path.is_file())
        for folder in ("journal", "carried", "segments", "snapshot")
    }


def fill(
    engine: Engine, key: PartitionKey, batches: int, *, value_bytes: int = 1000, keys: int = 1 << 30
) -> None:
    """So many batches of one record each."""
    for number in range(batches):
        engine.append(key, (b"%06d" % (number % keys), bytes(value_bytes)))


def read(engine: Engine, key: PartitionKey, store: int, *, committed: bool) -> list[tuple[int, bytes]]:
    """(offset, bytes from the attributes on) of every batch with data that a consumer finds, from the log start on."""
    reader = PartitionReader(engine.cluster.plane, engine.cluster.stores.by_number[store])
    bounds = engine.cluster.plane.find_bounds(*key)
    rows: list[tuple[int, bytes]] = []
    offset = bounds.start
    while True:
        data = reader.read(key, offset, bytes_max=1 << 20, at_least_one=True, committed_only=committed)
        if not data.chunks:
            return rows
        for found in (found for chunk in data.chunks for found in walk_valid(chunk)):
            if not found.is_control:
                records = bytes(found.records)
                rows.append((found.base_offset, records))
            offset = found.next_offset


class Transaction:
    """A transactional producer in the engine, in the newer generation of the protocol."""

    def __init__(self, engine: Engine, name: str = "tx") -> None:
        self._engine = engine
        self._name = name
        self._state: Any = engine.call(lambda: engine.cluster.transactions.initialise(name, None, 600_000))
        self._sequences: dict[PartitionKey, int] = {}

    @classmethod
    def resumed(cls, engine: Engine, before: "Transaction") -> "Transaction":
        """The same producer, after the engine was opened anew."""
        again = cls.__new__(cls)
        again._engine, again._name = engine, before._name
        again._state, again._sequences = before._state, before._sequences
        return again

    def append(self, key: PartitionKey, *values: bytes) -> int:
        """One batch; its first offset."""
        sequence = self._sequences.get(key, 0)
        data = batch(
            *values,
            key=b"in-transaction",
            producer_id=self._state.producer_id,
            producer_epoch=self._state.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        self._sequences[key] = sequence + len(values)
        leader = self._engine.cluster.plane.find_partition(*key).leader
        write = AppendBatch(key, view(data), leader, in_sync_min=1, membership=Membership(self._name, None))
        stored: Any = self._engine.call(lambda: self._engine.cluster.commits.submit(write))
        return int(stored.first_offset)

    def end(self, *, commit: bool) -> None:
        """Decide it."""

        def end() -> "asyncio.Future[Any]":
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._engine.cluster.transactions.end(
                self._name,
                self._state.producer_id,
                self._state.epoch,
                commit=commit,
                bump=True,
                session=1,
                deliver=partial(resolve, answer),
            )
            return answer

        self._state = self._engine.call(end)
        self._sequences.clear()

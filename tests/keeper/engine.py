"""The whole engine inside a test: cluster, stores on disk, desk and keeper, without sockets between them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.agent import cluster as clusters
from holdfast.agent.cluster import Cluster
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.fetch_plan import PartitionReader
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.settings import Settings
from holdfast.agent.writes import AppendBatch, MoveLeader
from holdfast.control.plane import Topic
from holdfast.control.replicas import PartitionRemoval, StorePhase
from holdfast.keeper import messages
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.round import Round, RoundReport
from holdfast.keeper.runner import InProcessRunner
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.walk import walk_valid
from tests.agent.batches import view

Answer = TypeVar("Answer")

BYTES_MAX = 1 << 20
WAIT_SECONDS_MAX = 20.0

Row = tuple[int, bytes | None, bytes | None]
"""Offset, key and value."""


class Engine:
    """A cluster of stores below one directory, and a keeper for it."""

    def __init__(self, data: Path, *, nodes: int = 3, limits: KeeperLimits | None = None) -> None:
        self.data = data
        self._nodes = nodes
        self._limits = limits or KeeperLimits(settle_ms_max=0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.open()

    def open(self) -> None:
        """Begin, or begin again after `close`."""
        self._directory = DataDirectory(self.data, nodes=self._nodes)
        settings = Settings(data=self.data, keeper=self._limits, return_seconds=3600.0, expire_seconds=3600.0)

        async def make() -> Cluster:
            return Cluster(settings, self._directory)

        self.cluster = self.wait_for(make())
        self.gateway = Gateway(self._ask, holder="test")

    def close(self) -> None:
        """Stop as `holdfast up` does."""
        self.wait_for(self.cluster.close())
        self._directory.close()

    def add_store(self) -> int:
        """Begin again with one store more, as after `holdfast store add`; its number."""
        self.close()
        directory = DataDirectory(self.data)
        self._nodes = directory.add_node()
        directory.close()
        self.open()
        return self._nodes

    def end(self) -> None:
        """Close for good."""
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait_for(self, coroutine: Awaitable[Answer]) -> Answer:
        """Run something in the engine's event loop."""

        async def awaited() -> Answer:
            return await coroutine

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(WAIT_SECONDS_MAX)

    def call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """The same for what must be called there."""

        async def called() -> Answer:
            return await work()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(WAIT_SECONDS_MAX)

    def create(self, name: str, partitions: int = 1, replicas: int = -1, **configs: str) -> PartitionKey:
        """A compacted topic unless told otherwise; its first partition."""
        wanted: dict[str, str | None] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
        wanted |= {key.replace("_", "."): value for key, value in configs.items()}
        created = self.cluster.create_topic(name, partitions, wanted, replication_factor=replicas)
        topic: Topic = self.wait_for(created)
        return PartitionKey(topic.topic_id, 0)

    def append(self, key: PartitionKey, *records: tuple[bytes | None, bytes | None]) -> int:
        """One batch; its first offset."""
        data = build_batch([Record(key=name, value=value, timestamp_ms=1_000) for name, value in records])
        leader = self.cluster.plane.find_partition(*key).leader
        write = AppendBatch(key, view(data), leader, in_sync_min=1)
        stored: Any = self.call(lambda: self.cluster.commits.submit(write))
        return int(stored.first_offset)

    def round(self) -> RoundReport:
        """One round of the keeper."""
        return Round(self.gateway, lambda size_bytes: InProcessRunner()).run()

    def look(self) -> None:
        """Let stores that are away and well come back."""
        self.call(self.cluster.returning.look)

    def read(self, key: PartitionKey, store: int, offset: int = 0) -> list[Row]:
        """What a consumer of one node finds, every batch checked."""
        reader = PartitionReader(self.cluster.plane, self.cluster.stores.by_number[store])
        rows: list[Row] = []
        while True:
            data = reader.read(key, offset, bytes_max=BYTES_MAX, at_least_one=True, committed_only=True)
            if not data.chunks:
                return rows
            for batch in (batch for chunk in data.chunks for batch in walk_valid(chunk)):
                if not batch.is_control:
                    rows += [
                        (record.offset or 0, record.key, record.value)
                        for record in read_records(batch)
                        if (record.offset or 0) >= offset
                    ]
                offset = batch.next_offset

    def table(self, key: PartitionKey, store: int) -> dict[bytes | None, bytes]:
        """The newest value of each key through one store; deleted keys are left out."""
        newest = {name: value for _, name, value in self.read(key, store)}
        return {name: value for name, value in newest.items() if value is not None}

    def lead(self, key: PartitionKey, store: int) -> None:
        """Let the store's node lead."""
        self.call(lambda: self.cluster.commits.submit(MoveLeader(key, store)))

    def removal(self, key: PartitionKey) -> PartitionRemoval:
        """What coordination knows of a partition."""
        return self.cluster.plane.find_removal(*key)

    def phase(self, store: int) -> StorePhase:
        """Where a store stands."""
        return next(state.phase for state in self.cluster.plane.list_stores() if state.store == store)

    @contextmanager
    def away(self, store: int) -> Iterator[None]:
        """Take a store's directory away while the engine runs, and bring it back at the end."""
        path = self._directory.store(store)
        gone = path.with_name(f"{store}.gone")
        self.cluster.stores.by_number[store].close()
        path.rename(gone)
        try:
            yield
        finally:
            gone.rename(path)

    def _ask(self, question: str, about: dict[str, Any]) -> Any:
        return messages.plain(self.wait_for(self.cluster.desk.questions[question](about)))


def pass_time(engine: Engine, monkeypatch: Any, milliseconds: int) -> None:
    """Let the clocks of the engine run ahead."""
    wall, monotonic = clusters.wall_clock_ms, clusters.monotonic_ms
    monkeypatch.setattr(engine.cluster.grace, "_wall_ms", lambda: wall() + milliseconds)
    monkeypatch.setattr(engine.cluster.grace, "_monotonic_ms", lambda: monotonic() + milliseconds)

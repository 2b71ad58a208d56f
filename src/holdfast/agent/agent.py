"""The agent: the parts put together, and what the handlers share."""

import asyncio
import time
from collections.abc import Callable
from uuid import uuid4

from holdfast.agent.catalog import Catalog, check_name
from holdfast.agent.committer import Committer
from holdfast.agent.connection import Connection
from holdfast.agent.counters import Counters
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.fetch_plan import PartitionReader
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.groups.coordinator import Coordinator
from holdfast.agent.producer_ids import ProducerIds
from holdfast.agent.settings import Settings
from holdfast.agent.topic_config import check_configs
from holdfast.agent.waiters import Waiters
from holdfast.agent.writes import CreateTopic
from holdfast.control.plane import Topic
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import InvalidPartitions, PolicyViolation
from holdfast.store.footer import TopicCreated
from holdfast.store.local import LocalStore

NODE_ID = 1
STORE = 1
PARTITIONS_MAX = 10_000
GOODBYE_SECONDS_MAX = 0.5
"""How long a stop waits for clients to see the end of their streams and leave."""


class Agent:
    """One node: control plane, store, group commit and what connections need of them.

    Must be made inside a running event loop. Opening replays what the control plane has not seen.
    """

    def __init__(self, settings: Settings, directory: DataDirectory) -> None:
        self.settings = settings
        self.cluster_id = directory.cluster_id
        self.host = settings.host
        self.port = settings.port
        self.plane = SqliteControlPlane(directory.control_db)
        self.store = LocalStore(directory.store(STORE), store=STORE, cluster_id=directory.cluster_id)
        committer = Committer(plane=self.plane, store=self.store, now_ms=wall_clock_ms)
        committer.recover()
        self.catalog = Catalog(self.plane)
        self.reader = PartitionReader(self.plane, self.store)
        self.waiters = Waiters()
        self.connections: set[Connection] = set()
        self.counters = Counters()
        self.commits = GroupCommit(
            committer,
            queue_bytes_max=settings.commit_queue_bytes_max,
            on_appended=self.waiters.wake,
            counters=self.counters,
        )
        self.producer_ids = ProducerIds(self.plane, self.commits)
        self.groups = Coordinator(
            self.plane,
            self.commits,
            limits=settings.groups,
            now_ms=monotonic_ms,
            wall_ms=wall_clock_ms,
        )
        self.commits.start()

    async def create_topic(
        self, name: str, partitions: int = -1, configs: dict[str, str | None] | None = None
    ) -> Topic:
        """Create a topic durably; `partitions` -1 means the default number."""
        change = self.plan_topic(name, partitions, configs or {})
        await self.commits.submit(CreateTopic(change))
        self.catalog.refresh()
        return self.catalog.get(name)

    def plan_topic(self, name: str, partitions: int, configs: dict[str, str | None]) -> TopicCreated:
        """The topic as it would be created; raises the refusal that a client expects."""
        check_name(name)
        if partitions == -1:
            partitions = self.settings.default_partitions
        if partitions <= 0:
            raise InvalidPartitions(f"{partitions} partitions: a topic has at least one")
        if partitions > PARTITIONS_MAX:
            raise PolicyViolation(f"{partitions} partitions: {PARTITIONS_MAX} at most, as in Kafka")
        return TopicCreated(name, uuid4(), partitions, check_configs(configs))

    async def stop(self) -> None:
        """Answer what is under way, within a limit, then close everything."""
        self.waiters.wake_all()
        self.groups.stop()
        for connection in self.connections:
            connection.drain()
        await _wait_until(
            lambda: all(connection.is_idle for connection in self.connections),
            seconds_max=self.settings.stop_seconds_max,
        )
        for connection in self.connections:
            connection.end()
        await _wait_until(lambda: not self.connections, seconds_max=GOODBYE_SECONDS_MAX)
        for connection in list(self.connections):
            connection.close()
        await self.commits.stop()
        self.store.close()
        self.plane.close()


async def _wait_until(condition: Callable[[], bool], *, seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline and not condition():
        await asyncio.sleep(0.01)


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as record timestamps are."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds that only ever go forward, for deadlines."""
    return time.monotonic_ns() // 1_000_000

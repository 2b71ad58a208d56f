"""A whole log for the lab: stores in a temporary directory, nodes that listen on loopback, in a thread of its own.

It is the cluster of `holdfast up`; what is different is what time it is, and under the policy `kafka` whom removal
waits for.
"""

import asyncio
import logging
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.agent import agent as nodes
from holdfast.agent.agent import Agent
from holdfast.agent.cluster import Cluster, UpkeepClocks
from holdfast.agent.connection import SCRATCH_BYTES
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.server import open_listener
from holdfast.agent.settings import Settings
from holdfast.control.coordination import Coordination
from holdfast.keeper import messages
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.limits import KeeperLimits

TOPIC = "lab"
SECONDS_MAX = 60.0
"""How long one step may take, in real time."""
NEVER_SECONDS = 1e9
"""Nothing happens by itself: the scenario says when."""

Answer = TypeVar("Answer")


class LabCluster:
    """A cluster that others are shown through its sockets, and that the lab can do things to."""

    def __init__(self, data: Path, *, stores: int, clocks: UpkeepClocks, coordination: Coordination) -> None:
        self._directory = DataDirectory(data, nodes=stores)
        self._settings = Settings(
            data=data,
            port=0,
            keeper=KeeperLimits(settle_ms_max=0),
            return_seconds=NEVER_SECONDS,
            expire_seconds=NEVER_SECONDS,
        )
        self._clocks = clocks
        self._coordination = coordination
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lab", daemon=True)
        self._agents: list[Agent] = []
        self._servers: list[asyncio.Server] = []
        self.gateway = Gateway(self._ask, holder="lab")

    def open(self, replicas: int, configs: dict[str, str | None]) -> None:
        """Begin to listen, and create the topic on the first stores."""
        self._thread.start()
        self.cluster = self.call(self._make)
        assignment = [list(range(1, replicas + 1))]
        topic = self.call(lambda: self.cluster.create_topic(TOPIC, configs=configs, assignment=assignment))
        self.key = PartitionKey(topic.topic_id, 0)

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return ",".join(agent.address for agent in self._agents)

    def close(self) -> None:
        """Stop as `holdfast up` does, as far as it has come."""
        if self._thread.is_alive():
            self.call(self._stop)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        self._directory.close()

    def call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Have something done in the event loop of the cluster."""

        async def called() -> Answer:
            return await work()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(SECONDS_MAX)

    def take_away(self, store: int) -> None:
        """A store's directory is gone, and with it all open files."""
        self.cluster.stores.by_number[store].close()
        self._directory.store(store).rename(self._gone(store))

    def bring_back(self, store: int) -> None:
        """The directory is there again; whether the store is well is for the cluster to see."""
        self._gone(store).rename(self._directory.store(store))
        self.call(self.cluster.returning.look)

    def _gone(self, store: int) -> Path:
        return self._directory.store(store).with_name(f"{store}.gone")

    def _ask(self, question: str, about: dict[str, Any]) -> Any:
        return messages.plain(self.call(lambda: self.cluster.desk.questions[question](about)))

    async def _make(self) -> Cluster:
        cluster = Cluster(
            self._settings, self._directory, clocks=self._clocks, coordination=self._coordination
        )
        scratch = bytearray(SCRATCH_BYTES)
        self._agents += [Agent(cluster, node, self._agents) for node in self._directory.nodes]
        self._servers += [await open_listener(agent, scratch) for agent in self._agents]
        return cluster

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        await nodes.stop(self._agents)
        if self._agents:
            await self._agents[0].cluster.close()


@contextmanager
def lab_cluster(
    *,
    stores: int,
    replicas: int,
    configs: dict[str, str | None],
    clocks: UpkeepClocks,
    coordination: Coordination,
) -> Iterator[LabCluster]:
    """A cluster in a directory that is gone afterwards, however that comes about."""
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-lab-")))
        stack.enter_context(_silence())
        cluster = LabCluster(data, stores=stores, clocks=clocks, coordination=coordination)
        stack.callback(cluster.close)
        cluster.open(replicas, configs)
        yield cluster


@contextmanager
def _silence() -> Iterator[None]:
    """The log warns of stores that are gone. Here that is the story, and told by the account."""
    logger = logging.getLogger("holdfast")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)

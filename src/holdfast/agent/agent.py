"""The agent: one node with its listener and its home store, and what the handlers ask of it."""

import asyncio
import time
import zlib
from collections.abc import Callable, Sequence

from holdfast.agent.catalog import check_partition
from holdfast.agent.cluster import Cluster
from holdfast.agent.connection import Connection
from holdfast.agent.fetch_plan import PartitionReader
from holdfast.control.plane import Partition, Topic
from holdfast.errors import NotLeaderOrFollower

GOODBYE_SECONDS_MAX = 0.5
"""How long a stop waits for clients to see the end of their streams and leave."""


class Agent:
    """A node: it leads some partitions, and serves reads of those that its home store holds.

    `peers` are all nodes of the cluster, this one included; the list is complete once all of them listen.
    """

    def __init__(self, cluster: Cluster, node_id: int, peers: "list[Agent]") -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.peers = peers
        self.host = cluster.settings.host
        self.port = 0
        self.settings = cluster.settings
        self.cluster_id = cluster.cluster_id
        self.plane = cluster.plane
        self.catalog = cluster.catalog
        self.waiters = cluster.waiters
        self.commits = cluster.commits
        self.producer_ids = cluster.producer_ids
        self.store = cluster.stores.by_number[node_id]
        self.reader = PartitionReader(self.plane, self.store)
        self.connections: set[Connection] = set()
        self.counters = cluster.counters
        self.groups = cluster.groups
        self.transactions = cluster.transactions

    @property
    def address(self) -> str:
        """Where it listens, as clients want it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def coordinator_of(self, key: str) -> "Agent":
        """The node that clients are sent to with a group or a transactional id.

        All nodes know all groups; but a tool that asks every node for its groups must hear of each one once.
        """
        return self.peers[zlib.crc32(key.encode()) % len(self.peers)]

    def check_leads(self, topic: Topic, partition: int) -> Partition:
        """The partition, if this node leads it."""
        found = check_partition(topic, partition)
        if found.leader != self.node_id:
            raise NotLeaderOrFollower(f"node {found.leader} leads partition {partition} of {topic.name!r}")
        return found

    def check_holds(self, topic: Topic, partition: int) -> Partition:
        """The partition, if the home store holds all of it."""
        found = check_partition(topic, partition)
        if not self.catalog.has_all(found, self.node_id):
            raise NotLeaderOrFollower(f"node {self.node_id} has no replica in sync of {topic.name!r}")
        return found


async def stop(agents: Sequence[Agent]) -> None:
    """Answer what is under way, within a limit, then let all clients go."""
    if not agents:
        return
    agents[0].waiters.wake_all()
    agents[0].groups.stop()
    agents[0].transactions.stop()
    connections = [connection for agent in agents for connection in agent.connections]
    for connection in connections:
        connection.drain()
    await _wait_until(
        lambda: all(connection.is_idle for connection in connections),
        seconds_max=agents[0].settings.stop_seconds_max,
    )
    for connection in connections:
        connection.end()
    await _wait_until(lambda: not any(agent.connections for agent in agents), seconds_max=GOODBYE_SECONDS_MAX)
    for agent in agents:
        for connection in list(agent.connections):
            connection.close()


async def _wait_until(condition: Callable[[], bool], *, seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline and not condition():
        await asyncio.sleep(0.01)

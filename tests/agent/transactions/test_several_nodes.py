"""Three nodes: one transaction over partitions of different leaders, and a store that is lost in the middle of it."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.agent import requests
from tests.agent.serving import AsyncRawClient
from tests.agent.transactions.driving import GENERATIONS, TOPIC, Producer, Versions, read
from tests.process import HoldfastProcess

NOT_LEADER = 6


class Cluster:
    """A connection to each node, by its number."""

    def __init__(self, clients: dict[int, AsyncRawClient], leaders: dict[int, int]) -> None:
        self.clients = clients
        self.leaders = leaders

    @classmethod
    async def connect(cls, port: int) -> "Cluster":
        """Find nodes and leaders."""
        first = await AsyncRawClient.connect(port)
        answer = await first.call(requests.metadata(TOPIC))
        clients = {broker.node_id: await AsyncRawClient.connect(broker.port) for broker in answer.brokers}
        await first.close()
        return cls(clients, {part.partition_index: part.leader_id for part in answer.topics[0].partitions})

    async def write(self, producer: Producer, value: bytes, partition: int) -> int:
        """By way of the partition's leader, announced to the producer's coordinator."""
        if producer.versions.announces:
            assert await producer.add(partition) == [0]
        coordinator, producer.client = producer.client, self.clients[self.leaders[partition]]
        code, _ = await producer.produce(value, partition=partition)
        producer.client = coordinator
        return code

    async def read(self, partition: int, *, node: int = 0) -> list[bytes | None]:
        """Committed records of a partition, from its leader or any node."""
        client = self.clients[node or self.leaders[partition]]
        return (await read(client, committed=True, partition=partition)).values

    async def close(self) -> None:
        for client in self.clients.values():
            await client.close()


async def start(process: HoldfastProcess, versions: Versions) -> tuple[Cluster, Producer]:
    """A topic of three partitions with a leader each, two replicas in sync needed, and a producer."""
    first = await AsyncRawClient.connect(process.port)
    topic = requests.create_topic(
        TOPIC,
        assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]},
        configs={"min.insync.replicas": "2"},
    )
    assert (await first.call(topic)).topics[0].error_code == 0
    await first.close()
    cluster = await Cluster.connect(process.port)
    producer = Producer(cluster.clients[2], versions=versions)
    assert await producer.init() == 0
    return cluster, producer


@pytest.mark.parametrize("versions", GENERATIONS)
def test_one_outcome_for_all_leaders(tmp_path: Path, versions: Versions) -> None:
    """Visible everywhere at once, on every replica, or nowhere; only leaders take batches."""

    async def main(process: HoldfastProcess) -> None:
        cluster, producer = await start(process, versions)
        assert set(cluster.leaders.values()) == {1, 2, 3}
        for commit in (True, False):
            for partition in range(3):
                assert await cluster.write(producer, b"%d" % commit, partition) == 0
                assert await cluster.read(partition) == ([] if commit else [b"1"])
            assert await producer.end(commit=commit) == 0
        for partition in range(3):
            for node in (1, 2, 3):
                assert await cluster.read(partition, node=node) == [b"1"]
        if producer.versions.announces:
            assert await producer.add(0) == [0]
        assert await producer.produce(b"x", partition=0) == (NOT_LEADER, -1)
        await cluster.close()

    with HoldfastProcess(tmp_path / "data", "--nodes", "3") as process:
        asyncio.run(main(process))


@pytest.mark.parametrize("versions", GENERATIONS)
def test_a_store_lost_in_mid_transaction(tmp_path: Path, versions: Versions) -> None:
    """Killed, started without one store, and finished: all of it is there, from the stores that are left."""

    async def begin(process: HoldfastProcess) -> Producer:
        cluster, producer = await start(process, versions)
        for partition in range(3):
            assert await cluster.write(producer, b"before", partition) == 0
        await cluster.close()
        return producer

    async def finish(process: HoldfastProcess, producer: Producer) -> None:
        cluster = await Cluster.connect(process.port)
        assert 3 not in cluster.leaders.values()
        producer.client = cluster.clients[1]
        for partition in range(3):
            assert await cluster.read(partition) == []
            assert await cluster.write(producer, b"after", partition) == 0
        assert await producer.end(commit=True) == 0
        for partition in range(3):
            for node in (1, 2):
                assert await cluster.read(partition, node=node) == [b"before", b"after"]
        await cluster.close()

    with HoldfastProcess(tmp_path / "data", "--nodes", "3") as process:
        producer = asyncio.run(begin(process))
        process.kill()
        shutil.rmtree(process.data / "stores" / "3" / "journal")
        process.start()
        asyncio.run(finish(process, producer))

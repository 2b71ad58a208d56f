"""Transactional producers and readers of raw requests: each step is one request, and nothing is tried again."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.agent.agent import Agent
from holdfast.client import transactions
from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity
from holdfast.records.build import read_records
from holdfast.records.walk import walk_valid
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.faults import faulty, find_faulty
from tests.agent.raw import DescribeTransactionsRequest, WriteTxnMarkersRequest
from tests.agent.serving import AsyncRawClient, serving

TOPIC = "t"
SECONDS_MAX = 20.0


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What a producer speaks."""

    init: int
    produce: int
    stage: int
    end: int
    add: int = 3

    @property
    def announces(self) -> bool:
        """Whether it has to say what it is about to write to (TV1)."""
        return self.end < 5


TV1 = Versions(init=4, produce=10, stage=3, end=4)
TV2 = Versions(init=5, produce=12, stage=5, end=5)
GENERATIONS = [pytest.param(TV1, id="TV1"), pytest.param(TV2, id="TV2")]


class Producer:
    """One transactional producer on one connection; its answers are error codes."""

    def __init__(self, client: AsyncRawClient, name: str = "tx", versions: Versions = TV1) -> None:
        self.client = client
        self.versions = versions
        self.who = Identity(transactional_id=name)
        self.sequences: dict[int, int] = defaultdict(int)

    async def ask(self, request: Any, version: int) -> Any:
        """One exchange."""
        request.API_VERSION = version
        return await self.client.call(request)

    async def init(self, *, timeout_ms: int = 60_000, resume: bool = False, version: int = -1) -> int:
        """Take the id over, or go on with what the producer has."""
        claimed = self.who if resume else Identity(transactional_id=self.who.transactional_id)
        request = transactions.init_producer_id(claimed, timeout_ms=timeout_ms)
        answer = await self.ask(request, self.versions.init if version < 0 else version)
        if answer.error_code == 0:
            self.become(answer)
        return int(answer.error_code)

    def become(self, answer: Any) -> None:
        """Be whom an answer says."""
        told = (answer.producer_id, answer.producer_epoch)
        if told != (self.who.producer_id, self.who.producer_epoch):
            self.sequences.clear()
        self.who = replace(self.who, producer_id=told[0], producer_epoch=told[1])

    async def add(self, *partitions: int, topic: str = TOPIC) -> list[int]:
        """Announce partitions."""
        places = [TopicPartition(topic, partition) for partition in partitions]
        answer = await self.ask(transactions.add_partitions(self.who, places), self.versions.add)
        return [verdict.code for verdict in transactions.verdicts(answer) if verdict.place]

    async def produce(
        self, *values: bytes, partition: int = 0, topic: str = TOPIC, version: int = -1
    ) -> tuple[int, int]:
        """A batch; its error code and its first offset."""
        request = self.produce_request(*values, partition=partition, topic=topic)
        answer = await self.ask(request, self.versions.produce if version < 0 else version)
        part = answer.responses[0].partition_responses[0]
        if part.error_code == 0:
            self.sequences[partition] += len(values)
        return part.error_code, part.base_offset

    def produce_request(self, *values: bytes, partition: int = 0, topic: str = TOPIC) -> Any:
        """The batch that comes next."""
        data = batch(
            *values,
            producer_id=self.who.producer_id,
            producer_epoch=self.who.producer_epoch,
            base_sequence=self.sequences[partition],
            transactional=True,
        )
        return transactions.produce(self.who.transactional_id, {TopicPartition(topic, partition): data})

    async def write(self, *values: bytes, partition: int = 0) -> int:
        """Announce if need be, and produce; the offset."""
        if self.versions.announces:
            assert await self.add(partition) == [0]
        code, offset = await self.produce(*values, partition=partition)
        assert code == 0, code
        return offset

    async def end(self, *, commit: bool, version: int = -1) -> int:
        """Commit or abort."""
        version = self.versions.end if version < 0 else version
        answer = await self.ask(transactions.end_txn(self.who, committed=commit), version)
        if answer.error_code == 0 and version >= 5:
            self.become(answer)
        return int(answer.error_code)

    async def stage(self, group: str, offset: int, *, partition: int = 0) -> int:
        """A position of a group, announced if need be."""
        if self.versions.announces:
            added = await self.ask(transactions.add_offsets(self.who, group), self.versions.add)
            if added.error_code:
                return int(added.error_code)
        place = TopicPartition(TOPIC, partition)
        request = transactions.txn_offset_commit(self.who, group, {place: offset})
        answer = await self.ask(request, self.versions.stage)
        return int(answer.topics[0].partitions[0].error_code)

    async def abort_by_hand(self, *partitions: int) -> list[int]:
        """WriteTxnMarkers, as an operator sends it."""
        marker: Any = WriteTxnMarkersRequest.WritableTxnMarker
        topics = [marker.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=list(partitions))]
        one = marker(
            producer_id=self.who.producer_id,
            producer_epoch=self.who.producer_epoch,
            transaction_result=False,
            topics=topics,
            coordinator_epoch=-1,
        )
        answer = await self.ask(WriteTxnMarkersRequest(markers=[one]), 1)
        return [part.error_code for part in answer.markers[0].topics[0].partitions]


class Described(NamedTuple):
    """What DescribeTransactions says of an id."""

    phase: str
    producer_id: int
    epoch: int
    partitions: list[int]
    timeout_ms: int
    code: int


async def describe(client: AsyncRawClient, name: str = "tx") -> Described:
    """Where an id stands."""
    request = DescribeTransactionsRequest(transactional_ids=[name])
    request.API_VERSION = 0
    state = (await client.call(request)).transaction_states[0]
    return Described(
        phase=state.transaction_state,
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        partitions=[partition for topic in state.topics for partition in topic.partitions],
        timeout_ms=state.transaction_timeout_ms,
        code=state.error_code,
    )


class Log(NamedTuple):
    """A partition as one kind of reader sees it."""

    records: list[tuple[int, bytes | None]]
    stable: int
    end: int

    @property
    def values(self) -> list[bytes | None]:
        """Without offsets."""
        return [value for _, value in self.records]


async def read(
    client: AsyncRawClient, *, partition: int = 0, committed: bool, topic: str = TOPIC, offset: int = 0
) -> Log:
    """All records that a reader is given, by as many fetches as it takes."""
    records: list[tuple[int, bytes | None]] = []
    while True:
        request = requests.fetch(topic, {partition: offset}, committed=committed)
        part = (await client.call(request)).responses[0].partitions[0]
        assert part.error_code == 0, part.error_code
        batches = list(walk_valid(bytes(part.records or b"")))
        if not batches:
            return Log(records, part.last_stable_offset, part.high_watermark)
        for one in batches:
            if not one.is_control:
                records += [
                    (record.offset or 0, record.value)
                    for record in read_records(one)
                    if (record.offset or 0) >= offset
                ]
        assert batches[-1].next_offset > offset
        offset = batches[-1].next_offset


async def until(condition: Callable[[], Awaitable[bool]] | Callable[[], bool]) -> None:
    """Wait for something that must come."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.002)


class Desk:
    """An agent in this event loop, a topic, and connections."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.gate = Gate(agent)
        self.clients: list[AsyncRawClient] = []

    @property
    def client(self) -> AsyncRawClient:
        """The first connection."""
        return self.clients[0]

    async def connect(self) -> AsyncRawClient:
        """One more connection, newer than all before."""
        self.clients.append(await AsyncRawClient.connect(self.agent.port))
        return self.clients[-1]

    async def producer(
        self, name: str = "tx", versions: Versions = TV1, *, timeout_ms: int = 60_000
    ) -> Producer:
        """One that has its id, on a connection of its own."""
        producer = Producer(await self.connect(), name, versions)
        assert await producer.init(timeout_ms=timeout_ms) == 0
        return producer

    async def read(self, *, committed: bool, partition: int = 0, offset: int = 0) -> Log:
        """See `read`."""
        return await read(self.client, committed=committed, partition=partition, offset=offset)

    def stable(self, partition: int = 0) -> int:
        """The last stable offset."""
        topic = self.agent.catalog.get(TOPIC)
        return self.agent.plane.find_bounds(topic.topic_id, partition).last_stable


@asynccontextmanager
async def desk_of(data: Path, *, partitions: int = 2, **settings: Any) -> AsyncIterator[Desk]:
    """A desk on a data directory, which may be opened again."""
    async with serving(data, **settings) as (agent, _):
        desk = Desk(agent)
        if agent.catalog.find(TOPIC) is None:
            await agent.cluster.create_topic(TOPIC, partitions)
        await desk.connect()
        try:
            yield desk
        finally:
            desk.gate.open()
            for client in desk.clients:
                await client.close()


def run(data: Path, scenario: Callable[[Desk], Awaitable[None]], **settings: Any) -> None:
    """A scenario on a fresh desk."""

    async def main() -> None:
        async with desk_of(data, **settings) as desk:
            await scenario(desk)

    asyncio.run(main())


class Gate:
    """Holds the commit thread at the store, so that what follows waits in a queue, in its order.

    Needs `gated_stores`.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def close(self, client: AsyncRawClient) -> "asyncio.Task[Any]":
        """Shut it, with a plain record in front."""
        store = faulty(self._agent.store)
        store.waits.clear()
        store.hang()
        plain = asyncio.create_task(client.call(requests.produce(TOPIC, {1: batch(b"plain")})))
        await until(store.waits.is_set)
        return plain

    async def queued(self, count: int) -> None:
        """Wait until as many writes stand behind it."""
        await until(lambda: self._agent.commits.queued_writes >= count)

    def open(self) -> None:
        """Let everything through."""
        if (store := find_faulty(self._agent.store)) is not None:
            store.release()

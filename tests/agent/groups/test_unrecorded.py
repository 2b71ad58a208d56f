"""Requests of groups whose commit fails after it is durable: every client is told to ask again, and may."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from holdfast.agent.agent import Agent
from tests.agent import requests
from tests.agent.faults import FaultyPlane
from tests.agent.raw import DeleteGroupsRequest, OffsetDeleteRequest
from tests.agent.serving import AsyncRawClient, serving

pytestmark = pytest.mark.usefixtures("faulty_planes")

TOPIC = "t"
ASK_AGAIN, NOT_FOUND = 15, 69


def run(data: Path, scenario: Callable[[Agent, AsyncRawClient], Awaitable[None]]) -> None:
    """On a topic in which the group g has a position."""

    async def main() -> None:
        async with serving(data) as (agent, port):
            await agent.cluster.create_topic(TOPIC, 1)
            client = await AsyncRawClient.connect(port)
            await client.call(requests.commit_offset("g", TOPIC, 3))
            try:
                await scenario(agent, client)
            finally:
                await client.close()

    asyncio.run(main())


def fail(agent: Agent, times: int = 1) -> None:
    """So many of the next commits are durable and not recorded."""
    assert isinstance(agent.plane, FaultyPlane)
    agent.plane.fail_applies = times


def positions(agent: Agent) -> list[int]:
    return [position.offset for position in agent.plane.find_group_offsets("g")]


def test_offset_commit(tmp_path: Path) -> None:
    """A retry stores the position, once more or at last."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        fail(agent)
        request = requests.commit_offset("g", TOPIC, 7)
        codes = [(await client.call(request)).topics[0].partitions[0].error_code for _ in range(2)]
        assert codes == [ASK_AGAIN, 0]
        assert positions(agent) == [7]

    run(tmp_path, scenario)


def test_offset_delete(tmp_path: Path) -> None:
    """A retry finds it done, or does it."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        fail(agent)
        wanted: Any = OffsetDeleteRequest.OffsetDeleteRequestTopic
        part = wanted.OffsetDeleteRequestPartition(partition_index=0)
        request = OffsetDeleteRequest(group_id="g", topics=[wanted(name=TOPIC, partitions=[part])], version=0)
        assert (await client.call(request)).error_code == ASK_AGAIN
        await client.call(requests.commit_offset("other", TOPIC, 1))
        assert positions(agent) == []
        assert (await client.call(request)).error_code == NOT_FOUND

    run(tmp_path, scenario)


def test_delete_groups(tmp_path: Path) -> None:
    """A retry finds it done, or does it."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        fail(agent)
        request = DeleteGroupsRequest(groups_names=["g"], version=2)
        assert (await client.call(request)).results[0].error_code == ASK_AGAIN
        await client.call(requests.commit_offset("other", TOPIC, 1))
        assert positions(agent) == []
        assert (await client.call(request)).results[0].error_code == NOT_FOUND

    run(tmp_path, scenario)


def test_librdkafka_does_not_give_up(tmp_path: Path) -> None:
    """Upon KAFKA_STORAGE_ERROR it would try twice more, within 0.3 s, and no further."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": f"127.0.0.1:{agent.port}", "group.id": "g", "enable.auto.commit": False}
        )

        async def commit(offset: int) -> None:
            place = confluent_kafka.TopicPartition(TOPIC, 0, offset)
            await asyncio.to_thread(consumer.commit, offsets=[place], asynchronous=False)

        try:
            await commit(5)
            fail(agent, times=3)
            await commit(7)
        finally:
            await asyncio.to_thread(consumer.close)
        assert positions(agent) == [7]

    run(tmp_path, scenario)

"""What readers see of topics that change under them, over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.agent import Agent
from holdfast.keeper import messages
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.round import Round
from holdfast.keeper.runner import InProcessRunner
from holdfast.records.build import Record, build_batch
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.serving import AsyncRawClient, serving

TOPIC = 2
SET = 0


@asynccontextmanager
async def talking(data: Path, **settings: Any) -> AsyncIterator[tuple[Agent, AsyncRawClient, AsyncRawClient]]:
    """An agent and two clients of it."""
    async with serving(data, **settings) as (agent, port):
        first, second = [await AsyncRawClient.connect(port) for _ in range(2)]
        yield agent, first, second
        await first.close()
        await second.close()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(limited())


async def found_at(client: AsyncRawClient, name: str, time: int) -> tuple[int, int]:
    answer = await client.call(requests.list_offsets(name, {0: time}))
    part = answer.topics[0].partitions[0]
    return part.timestamp, part.offset


def test_times_are_those_of_what_is_left(tmp_path: Path) -> None:
    """Records below the log start are hidden from every question of time."""

    async def main() -> None:
        async with talking(tmp_path) as (_, client, _):
            await client.call(requests.create_topic("t"))
            for time in (90, 20, 30, 10, 60, 50):
                await client.call(requests.produce("t", {0: batch(b"x", timestamp_ms=time)}))
            assert await found_at(client, "t", -3) == (90, 0)
            await client.call(requests.delete_records("t", {0: 1}))
            assert await found_at(client, "t", -3) == (60, 4)
            assert await found_at(client, "t", 25) == (30, 2)
            await client.call(requests.delete_records("t", {0: 5}))
            assert await found_at(client, "t", 0) == (50, 5)
            assert await found_at(client, "t", 55) == (-1, -1)
            await client.call(requests.delete_records("t", {0: -1}))
            assert await found_at(client, "t", -3) == (-1, -1)

    run(main)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_times_within_a_batch_that_the_log_start_cuts(tmp_path: Path, kind: str) -> None:
    """Records of the batch before the log start are neither found by time nor counted as the latest."""

    async def main() -> None:
        async with talking(tmp_path) as (_, client, _):
            await client.call(requests.create_topic("t", configs={"message.timestamp.type": kind}))
            await client.call(requests.produce("t", {0: batch(b"a", b"b", b"c", timestamp_ms=70)}))
            await client.call(requests.produce("t", {0: batch(b"d", timestamp_ms=90)}))
            await client.call(requests.delete_records("t", {0: 2}))
            assert (await found_at(client, "t", 1))[1] == 2
            assert (await found_at(client, "t", -3))[1] == 3
            await client.call(requests.delete_records("t", {0: 3}))
            assert (await found_at(client, "t", 1))[1] == 3

    run(main)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_times_within_a_batch_that_compaction_has_thinned(tmp_path: Path, kind: str) -> None:
    """A record that is gone is not named, though its batch has the time: the first that is left is."""

    async def main() -> None:
        limits = KeeperLimits(settle_ms_max=0)
        async with talking(tmp_path, keeper=limits) as (agent, client, _):
            configs = {
                "message.timestamp.type": kind,
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0",
            }
            await client.call(requests.create_topic("t", configs=configs))
            records = [Record(key=key, value=b"x", timestamp_ms=70) for key in (b"a", b"b", b"a", b"c")]
            await client.call(requests.produce("t", {0: build_batch(records)}))
            assert (await found_at(client, "t", 1))[1] == 0
            await asyncio.to_thread(keep, agent, asyncio.get_running_loop())
            assert (await found_at(client, "t", 1))[1] == 1
            assert (await found_at(client, "t", -3))[1] == 1

    run(main)


def keep(agent: Agent, loop: asyncio.AbstractEventLoop) -> None:
    """One round of the keeper, in another thread than the agent's."""

    def ask(question: str, about: dict[str, Any]) -> Any:
        answer = agent.cluster.desk.questions[question](about)

        async def answered() -> object:
            return await answer

        return messages.plain(asyncio.run_coroutine_threadsafe(answered(), loop).result(20))

    Round(Gateway(ask, holder="test"), lambda size_bytes: InProcessRunner()).run()


def test_times_beyond_an_extent_that_the_log_start_cuts(tmp_path: Path) -> None:
    """What the extent has of a time lies below the log start: the search goes on, and so does that for the latest."""

    async def main() -> None:
        async with talking(tmp_path) as (_, client, _):
            await client.call(requests.create_topic("t"))
            for times in ((90, 20), (10, 60), (60, 50)):
                data = build_batch([Record(value=b"x", timestamp_ms=time) for time in times])
                await client.call(requests.produce("t", {0: data}))
            await client.call(requests.delete_records("t", {0: 1}))
            assert await found_at(client, "t", 15) == (20, 1)
            assert await found_at(client, "t", 40) == (60, 3)
            assert await found_at(client, "t", 70) == (-1, -1)
            assert await found_at(client, "t", -3) == (60, 3)
            await client.call(requests.delete_records("t", {0: 5}))
            assert await found_at(client, "t", -3) == (50, 5)

    run(main)


def test_waiting_fetch_is_told_that_its_topic_is_gone(tmp_path: Path) -> None:
    """At once, not when its time is over; by id it learns that the id is unknown."""

    async def main() -> None:
        async with talking(tmp_path) as (agent, reader, other):
            await other.call(requests.create_topic("t"))
            topic_id = agent.catalog.get("t").topic_id
            fetch = requests.fetch(topic_id, {0: 0}, version=13, wait_ms=60_000)
            answer = asyncio.ensure_future(reader.call(fetch))
            while not agent.waiters._by_partition:
                await asyncio.sleep(0)
            await other.call(requests.delete_topics("t"))
            assert (await answer).responses[0].partitions[0].error_code == 100
            late = await other.call(requests.produce(topic_id, {0: batch(b"x")}, version=13))
            assert late.responses[0].partition_responses[0].error_code == 100

    run(main)


def test_changes_by_two_clients_at_once_both_count(tmp_path: Path) -> None:
    """Neither works on configs that the other has changed since."""

    async def main() -> None:
        async with talking(tmp_path) as (agent, *clients):
            await clients[0].call(requests.create_topic("t"))
            names = [["retention.ms", "segment.ms"], ["retention.bytes", "segment.jitter.ms"]]
            for round_number in range(20):
                await asyncio.gather(
                    *(
                        client.call(
                            requests.change_configs(
                                (TOPIC, "t", [(name, SET, str(round_number + 1)) for name in both])
                            )
                        )
                        for client, both in zip(clients, names, strict=True)
                    )
                )
                assert agent.catalog.get("t").configs == {
                    name: str(round_number + 1) for both in names for name in both
                }

    run(main)


def test_nodes_lead_new_partitions_in_turn(tmp_path: Path) -> None:
    """A topic that grows is spread on from where it ended; each new partition has as many replicas."""

    async def main() -> None:
        from holdfast.agent.cluster import Cluster
        from holdfast.agent.data_directory import DataDirectory
        from holdfast.agent.settings import Settings

        directory = DataDirectory(tmp_path, nodes=3)
        cluster = Cluster(Settings(data=tmp_path, nodes=3), directory)
        topic = await cluster.create_topic("t", 2, replication_factor=2)
        added = cluster.assign(4, 2, first=topic.partitions[-1].replicas[0])
        leaders = [partition.replicas[0] for partition in topic.partitions] + [nodes[0] for nodes in added]
        assert leaders == [1, 2, 3, 1, 2, 3]
        assert {len(nodes) for nodes in added} == {2}
        await cluster.close()
        directory.close()

    run(main)

"""Fetch by hand-written code, against kafka-python's and aiokafka's classes, and its limits."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from aiokafka.protocol.fetch import FetchResponse_v11
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_partition
from holdfast.agent.deferred import Deferred
from holdfast.agent.fetch_plan import PartitionData
from holdfast.agent.handlers.k01_fetch import fetch
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.registry import Request
from holdfast.agent.settings import Settings
from holdfast.control.plane import LogBounds, Partition, Topic
from holdfast.errors import HoldfastError, OffsetOutOfRange, StoreFailed
from holdfast.records.walk import walk_valid
from tests.agent import raw, requests
from tests.agent.batches import batch
from tests.agent.serving import AsyncRawClient, serving

VERSIONS = st.integers(4, 18)
TOPIC_ID = UUID(int=5)
PARTITION = Partition(replicas=(1,), leader=1, leader_epoch=0)
BATCH_BYTES = len(batch(bytes(1000)))


class Desk:
    """An agent whose partitions hold what the test says."""

    def __init__(self, found: list[PartitionData | HoldfastError]) -> None:
        self.asked: list[tuple[int, int]] = []
        self.settings = Settings(data=None)  # type: ignore[arg-type]
        self.node_id = 1
        topic = Topic(topic_id=TOPIC_ID, name="t", partitions=(PARTITION,) * 100, configs={})
        self.catalog = SimpleNamespace(get=lambda name: topic)
        self.reader = SimpleNamespace(read=self._read)
        self._found = iter(found)

    def _read(self, key: PartitionKey, offset: int, **_: object) -> PartitionData:
        self.asked.append((key.partition, offset))
        found = next(self._found)
        if isinstance(found, HoldfastError):
            raise found
        return found

    def check_leads(self, topic: Topic, partition: int) -> Partition:
        """It leads and holds all of them."""
        return check_partition(topic, partition)

    check_holds = check_leads


def exchange(desk: Any, message: Any) -> bytes:
    """Hand a request over as a connection would; the answer's frame, without its length."""
    encoded = raw.encode(message, 42)
    header_bytes = 4 + 8 + 2 + len("raw") + (1 if message.API_VERSION >= 12 else 0)
    request = Request(
        key=1,
        version=message.API_VERSION,
        correlation_id=42,
        client_id="raw",
        body=memoryview(encoded)[header_bytes:],
    )
    payload = fetch(desk, request)
    assert not isinstance(payload, Awaitable | Deferred)
    answer = b"".join(payload)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    return answer[4:]


bounds = st.builds(
    LogBounds,
    start=st.integers(0, 2**62),
    end=st.integers(0, 2**63 - 1),
    last_stable=st.integers(0, 2**63 - 1),
    leader_epoch=st.just(0),
)
data = st.builds(
    PartitionData, bounds=bounds, chunks=st.lists(st.binary(min_size=1, max_size=50), max_size=3)
)
refusals = st.sampled_from([OffsetOutOfRange("there is less"), StoreFailed("cannot read")])


@settings(max_examples=200)
@given(
    VERSIONS,
    st.dictionaries(
        st.integers(0, 99), st.tuples(st.integers(0, 2**63 - 1), data | refusals), min_size=1, max_size=6
    ),
)
def test_partitions_are_answered_in_the_order_of_the_request(
    version: int, wanted: dict[int, tuple[int, PartitionData | HoldfastError]]
) -> None:
    """Each with its own bytes, bounds or error, in every version."""
    desk = Desk([found for _, found in wanted.values()])
    topic = TOPIC_ID if version >= 13 else "t"
    offsets = {partition: offset for partition, (offset, _) in wanted.items()}
    message = requests.fetch(topic, offsets, version=version)
    answer = raw.decode(message, exchange(desk, message))
    assert desk.asked == list(offsets.items())
    if version >= 7:
        assert (answer.error_code, answer.session_id) == (0, 0)
    for part, (partition, (_, found)) in zip(answer.responses[0].partitions, wanted.items(), strict=True):
        assert part.partition_index == partition
        if isinstance(found, HoldfastError):
            assert (part.error_code, part.high_watermark) == (found.kafka_code, -1)
        else:
            assert (part.error_code, part.high_watermark) == (0, found.bounds.end)
            assert part.last_stable_offset == found.bounds.last_stable
            assert bytes(part.records or b"") == b"".join(found.chunks)
            assert version < 5 or part.log_start_offset == found.bounds.start


@settings(max_examples=50)
@given(st.lists(data, min_size=1, max_size=4))
def test_aiokafka_reads_the_answer_too(found: list[PartitionData]) -> None:
    """A second, independent reader of v11, the newest version that aiokafka speaks."""
    offsets = dict.fromkeys(range(len(found)), 0)
    frame = exchange(Desk(list(found)), requests.fetch("t", offsets, version=11))
    ((name, parts),) = FetchResponse_v11.decode(frame[4:]).topics
    assert name == "t"
    assert [(*part[:4], part[-1]) for part in parts] == [
        (index, 0, one.bounds.end, one.bounds.last_stable, b"".join(one.chunks))
        for index, one in enumerate(found)
    ]


def run(path: Path, scenario: Callable[[Agent, AsyncRawClient], Awaitable[None]], **config: Any) -> None:
    """A real agent with a topic of four partitions, each with three batches in one frame."""

    async def main() -> None:
        async with serving(path, **config) as (agent, port):
            await agent.cluster.create_topic("t", 4)
            await agent.cluster.create_topic("empty", 2)
            client = await AsyncRawClient.connect(port)
            for _ in range(3):
                parts: dict[int, bytes | None] = {number: batch(bytes(1000)) for number in range(4)}
                await client.call(requests.produce("t", parts))
            try:
                await scenario(agent, client)
            finally:
                await client.close()

    asyncio.run(main())


def counts(answer: Any) -> dict[int, int]:
    """Batches by partition, in the order of the answer."""
    return {
        part.partition_index: len(list(walk_valid(part.records or b"")))
        for part in answer.responses[0].partitions
    }


def test_limit_is_shared_and_the_first_batch_is_always_sent(tmp_path: Path) -> None:
    """Earlier partitions are filled first; a limit below one batch still brings one, once per request."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        async def ask(bytes_max: int, partition_bytes_max: int = 1 << 20) -> dict[int, int]:
            message = requests.fetch(
                "t",
                {2: 0, 0: 0, 3: 3, 1: 0},
                bytes_max=bytes_max,
                partition_bytes_max=partition_bytes_max,
            )
            answer = await client.call(message)
            assert [part.high_watermark for part in answer.responses[0].partitions] == [3] * 4
            return counts(answer)

        assert await ask(1 << 20) == {2: 3, 0: 3, 3: 0, 1: 3}
        assert await ask(4 * BATCH_BYTES) == {2: 3, 0: 1, 3: 0, 1: 0}
        assert await ask(1 << 20, 2 * BATCH_BYTES) == {2: 2, 0: 2, 3: 0, 1: 2}
        assert await ask(1) == {2: 1, 0: 0, 3: 0, 1: 0}
        assert await ask(0) == {2: 1, 0: 0, 3: 0, 1: 0}
        assert await ask(-5, -5) == {2: 1, 0: 0, 3: 0, 1: 0}

    run(tmp_path, scenario)


def test_answer_never_exceeds_the_agents_own_limit(tmp_path: Path) -> None:
    """Whatever the client asks for, and however long it would wait for it."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        message = requests.fetch(
            "t", dict.fromkeys(range(4), 0), bytes_max=1 << 30, bytes_min=1 << 30, wait_ms=600_000
        )
        assert counts(await client.call(message)) == {0: 3, 1: 2, 2: 0, 3: 0}

    run(tmp_path, scenario, fetch_bytes_max=5 * BATCH_BYTES)


def test_long_poll_ends_when_a_record_comes(tmp_path: Path) -> None:
    """The waiting fetch is answered with the record that somebody else produces, in any of its partitions."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        other = await AsyncRawClient.connect(agent.port)
        message = requests.fetch("empty", {0: 0, 1: 0}, wait_ms=600_000)
        waiting = asyncio.create_task(client.call(message))
        while not agent.waiters._by_partition:
            await asyncio.sleep(0.001)
        await other.call(requests.produce("empty", {1: batch(b"news")}))
        assert counts(await waiting) == {0: 0, 1: 1}
        assert not agent.waiters._by_partition
        await other.close()

    run(tmp_path, scenario)


def test_long_poll_waits_for_min_bytes(tmp_path: Path) -> None:
    """One record is not enough for a client that wants two batches' worth."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        other = await AsyncRawClient.connect(agent.port)
        message = requests.fetch("empty", {0: 0}, wait_ms=600_000, bytes_min=BATCH_BYTES + 1)
        waiting = asyncio.create_task(client.call(message))
        while not agent.waiters._by_partition:
            await asyncio.sleep(0.001)
        await other.call(requests.produce("empty", {0: batch(bytes(1000))}))
        assert not waiting.done()
        await other.call(requests.produce("empty", {0: batch(bytes(1000))}))
        assert counts(await waiting) == {0: 2}
        await other.close()

    run(tmp_path, scenario)


def test_long_poll_ends_empty_after_its_time(tmp_path: Path) -> None:
    """No data, no error, and the watermarks that tell the client that it is at the end."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        started = asyncio.get_running_loop().time()
        answer = await client.call(requests.fetch("t", {0: 3}, wait_ms=100))
        assert asyncio.get_running_loop().time() - started >= 0.1
        (part,) = answer.responses[0].partitions
        assert (part.error_code, part.high_watermark, part.records or b"") == (0, 3, b"")

    run(tmp_path, scenario)


@pytest.mark.parametrize(("offset", "code"), [(4, 1), (-1, 1), (3, 0)])
def test_offset_out_of_range_is_answered_at_once(tmp_path: Path, offset: int, code: int) -> None:
    """A client that waits for an offset that cannot come would wait for ever."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        answer = await client.call(requests.fetch("t", {0: offset, 1: 0}, wait_ms=600_000 if code else 0))
        assert [part.error_code for part in answer.responses[0].partitions] == [code, 0]

    run(tmp_path, scenario)

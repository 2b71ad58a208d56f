"""One connection: frames in pieces, answers in order, and bounds on all that waits."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import connection as connection_module
from holdfast.agent.agent import Agent, stop
from holdfast.store.faulty import FaultyStore
from tests.agent import raw, requests
from tests.agent.batches import batch
from tests.agent.faults import faulty, faulty_store
from tests.agent.serving import SECONDS_MAX, AsyncRawClient, serving

Scenario = Callable[[Agent, AsyncRawClient], Awaitable[None]]


@pytest.fixture(autouse=True)
def faulty_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every agent here stores through the store whose appends a test can hold up."""
    monkeypatch.setattr("holdfast.agent.cluster.LocalStore", faulty_store)


def run(data: Path, scenario: Scenario, **settings: Any) -> None:
    """Run a scenario with a connected client and a topic `t`."""

    async def main() -> None:
        async with serving(data, **settings) as (agent, port):
            await agent.cluster.create_topic("t")
            client = await AsyncRawClient.connect(port)
            try:
                await scenario(agent, client)
            finally:
                store_of(agent).release()
                await client.close()

    asyncio.run(main())


def store_of(agent: Agent) -> FaultyStore:
    return faulty(agent.store)


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until the condition holds."""
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.001)


async def hold_up_commits(agent: Agent, client: AsyncRawClient) -> None:
    """Send a batch whose commit waits at the store's closed gate: it is answered first, at offset 0."""
    store_of(agent).hang()
    client.writer.write(raw.encode(requests.produce("t", {0: batch(b"first")})))
    await until(store_of(agent).waits.is_set)


def base_offset(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].base_offset)


def test_requests_may_come_byte_by_byte(tmp_path: Path) -> None:
    """Where the network cuts the stream means nothing."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        ask = requests.metadata("t")
        produce = requests.produce("t", {0: batch(b"a")})
        for byte in raw.encode(ask, 1) + raw.encode(produce, 2):
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert (await client.receive(ask)).topics[0].name == "t"
        assert base_offset(await client.receive(produce)) == 0

    run(tmp_path, scenario)


@pytest.mark.parametrize("client_id", [b"\x7f\xffraw", b"\0\x04raw", b"\0\x03ra\xff"])
def test_client_id_is_not_believed(tmp_path: Path, client_id: bytes) -> None:
    """One that claims more bytes than the request has, or is not UTF-8, ends the connection."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        # ApiVersions v0: there is nothing behind the header.
        header = struct.pack(">hhi", 18, 0, 1) + client_id
        client.writer.write(struct.pack(">i", len(header)) + header)
        assert await client.is_closed()

    run(tmp_path, scenario)


@pytest.mark.parametrize("scratch_bytes", [64, 100, 1021, 4096])
def test_requests_may_straddle_the_scratch_buffer(tmp_path: Path, scratch_bytes: int) -> None:
    """Requests end and begin anywhere in the shared buffer, lengths cut in two included."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        asked = [requests.produce("t", {0: batch(bytes(size))}) for size in range(0, 3000, 41)]
        client.writer.write(b"".join(raw.encode(message, n) for n, message in enumerate(asked)))
        for offset, message in enumerate(asked):
            answer = await client.receive(message)
            assert (answer.header.correlation_id, base_offset(answer)) == (offset, offset)

    run(tmp_path, scenario, scratch_bytes=scratch_bytes)


def test_large_request_grows_into_its_length(tmp_path: Path) -> None:
    """A request far larger than the first buffer arrives whole."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await agent.cluster.create_topic("large", 1, {"max.message.bytes": "10000000"})
        value = bytes(range(256)) * 20_000
        assert base_offset(await client.call(requests.produce("large", {0: batch(value)}))) == 0
        found = await client.call(requests.fetch("large", {0: 0}))
        assert value in bytes(found.responses[0].partitions[0].records)

    run(tmp_path, scenario)


def test_declared_length_takes_no_memory(tmp_path: Path) -> None:
    """A client that announces 100 MB and sends ten bytes costs a first buffer, no more."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        client.writer.write((100 * 1024 * 1024).to_bytes(4, "big") + bytes(10))
        (connection,) = agent.connections
        await until(lambda: connection._body is not None)
        assert connection._body is not None
        assert len(connection._body) <= connection_module.BODY_BYTES_FIRST

    run(tmp_path, scenario)


def test_answers_keep_the_order_of_requests(tmp_path: Path) -> None:
    """A quick request behind a slow one waits for its turn."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await hold_up_commits(agent, client)
        ask = requests.metadata("t")
        client.writer.write(raw.encode(ask, 2))
        await asyncio.sleep(0.05)
        store_of(agent).release()
        first = await client.receive(requests.produce("t", {}))
        assert (first.header.correlation_id, base_offset(first)) == (1, 0)
        assert (await client.receive(ask)).header.correlation_id == 2

    run(tmp_path, scenario)


def test_refusal_waits_behind_a_batch_under_way(tmp_path: Path) -> None:
    """Produce requests overlap, and one that is refused at once is answered no sooner for it."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await hold_up_commits(agent, client)
        refused = requests.produce("nowhere", {0: batch(b"x")})
        client.writer.write(raw.encode(refused, 2))
        (connection,) = agent.connections
        await until(lambda: len(connection._answers) == 2)
        store_of(agent).release()
        assert (await client.receive(refused)).header.correlation_id == 1
        answer = await client.receive(refused)
        assert answer.header.correlation_id == 2
        assert answer.responses[0].partition_responses[0].error_code == 3

    run(tmp_path, scenario)


def test_client_that_pipelines_sees_its_own_writes(tmp_path: Path) -> None:
    """A request behind a produce starts when that is durable, as on a Kafka broker."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await hold_up_commits(agent, client)
        ask = requests.list_offsets("t", {0: -1})
        client.writer.write(raw.encode(ask, 2))
        (connection,) = agent.connections
        await until(lambda: len(connection._waiting) == 1)
        store_of(agent).release()
        await client.receive(requests.produce("t", {}))
        assert (await client.receive(ask)).topics[0].partitions[0].offset == 1

    run(tmp_path, scenario)


def test_pipelined_produce_requests_share_a_commit(tmp_path: Path) -> None:
    """What arrives while one commit is under way goes into the next one, in order."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await hold_up_commits(agent, client)
        frames = len(store_of(agent).durable)
        message = requests.produce("t", {0: batch(b"more")})
        client.writer.write(b"".join(raw.encode(message, number) for number in range(2, 12)))
        await until(lambda: agent.commits.queued_writes == 10)
        store_of(agent).release()
        answers = [await client.receive(message) for _ in range(11)]
        assert [base_offset(answer) for answer in answers] == list(range(11))
        assert len(store_of(agent).durable) == frames + 2

    run(tmp_path, scenario)


def test_fetch_sees_only_what_is_durable(tmp_path: Path) -> None:
    """While the frame is on its way, neither its offsets nor its bytes exist for anybody."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await hold_up_commits(agent, client)
        other = await AsyncRawClient.connect(agent.port)
        found = (await other.call(requests.fetch("t", {0: 0}))).responses[0].partitions[0]
        assert (found.high_watermark, found.records or b"") == (0, b"")
        store_of(agent).release()
        await client.receive(requests.produce("t", {}))
        found = (await other.call(requests.fetch("t", {0: 0}))).responses[0].partitions[0]
        assert found.high_watermark == 1
        await other.close()

    run(tmp_path, scenario)


def test_full_commit_queue_stops_the_reading_and_room_resumes_it(tmp_path: Path) -> None:
    """Back-pressure: what does not fit into the queue stays in the client's socket, then all is stored."""
    count, value_bytes = 200, 100_000

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await hold_up_commits(agent, client)
        message = requests.produce("t", {0: batch(bytes(value_bytes))})
        client.writer.write(b"".join(raw.encode(message, number) for number in range(count)))
        (connection,) = agent.connections
        await until(lambda: not connection._reading)
        assert not agent.commits.has_room
        held = agent.commits.queued_bytes + connection._waiting_bytes
        assert held < 1_000_000 + connection_module.BYTES_WAITING_MAX + 3 * value_bytes
        store_of(agent).release()
        answers = [await client.receive(message) for _ in range(count + 1)]
        assert [base_offset(answer) for answer in answers] == list(range(count + 1))
        assert connection._reading

    run(tmp_path, scenario, commit_queue_bytes_max=1_000_000)


def test_answers_that_are_due_are_bounded(tmp_path: Path) -> None:
    """Tiny requests are bounded in number, not only in bytes, and all are answered in the end."""
    count = 3 * connection_module.ANSWERS_DUE_MAX

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await hold_up_commits(agent, client)
        message = requests.produce("t", {0: batch(b"x")})
        client.writer.write(b"".join(raw.encode(message, number) for number in range(count)))
        (connection,) = agent.connections
        await until(lambda: not connection._reading)
        assert len(connection._answers) == connection_module.ANSWERS_DUE_MAX
        store_of(agent).release()
        answers = [await client.receive(message) for _ in range(count + 1)]
        assert [base_offset(answer) for answer in answers] == list(range(count + 1))

    run(tmp_path, scenario)


def test_answers_that_nobody_reads_are_not_piled_up(tmp_path: Path) -> None:
    """Pipelined fetches of a client that does not read start one by one, as their answers leave."""
    fetches, value_bytes = 30, 900_000

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        for _ in range(4):
            await client.call(requests.produce("t", {0: batch(bytes(value_bytes))}))
        message = requests.fetch("t", {0: 0}, partition_bytes_max=1 << 26)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(b"".join(raw.encode(message, number) for number in range(fetches)))
        (connection,) = agent.connections
        await until(lambda: not connection._writable)
        await asyncio.sleep(0.1)
        transport = connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 2 * 4 * (value_bytes + 1000)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(fetches):
            answer = await client.receive(message)
            assert answer.header.correlation_id == number
            assert len(answer.responses[0].partitions[0].records) > 4 * value_bytes

    run(tmp_path, scenario)


def test_lost_connection_cancels_its_wait(tmp_path: Path) -> None:
    """A client that leaves in the middle of a long poll leaves nothing behind."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        other = await AsyncRawClient.connect(agent.port)
        other.writer.write(raw.encode(requests.fetch("t", {0: 0}, wait_ms=600_000)))
        await until(lambda: bool(agent.waiters._by_partition))
        await other.close()
        await until(lambda: not agent.waiters._by_partition and len(agent.connections) == 1)

    run(tmp_path, scenario)


def test_batch_of_a_lost_connection_is_still_stored(tmp_path: Path) -> None:
    """It was queued, so it may have happened; the commit that holds others' batches goes on."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await hold_up_commits(agent, client)
        other = await AsyncRawClient.connect(agent.port)
        other.writer.write(raw.encode(requests.produce("t", {0: batch(b"lost")})))
        await until(lambda: agent.commits.queued_writes == 1)
        await other.close()
        store_of(agent).release()
        await client.receive(requests.produce("t", {}))
        assert base_offset(await client.call(requests.produce("t", {0: batch(b"next")}))) == 2

    run(tmp_path, scenario)


def test_failed_produce_without_acks_closes_the_connection(tmp_path: Path) -> None:
    """There is no answer that could carry the error; as in Kafka, the client sees the connection end."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        client.writer.write(raw.encode(requests.produce("t", {0: batch(b"a")}, acks=0)))
        client.writer.write(raw.encode(requests.produce("nowhere", {0: batch(b"a")}, acks=0)))
        assert await client.is_closed()
        other = await AsyncRawClient.connect(agent.port)
        found = (await other.call(requests.fetch("t", {0: 0}, wait_ms=10_000))).responses[0].partitions[0]
        assert found.high_watermark == 1
        await other.close()

    run(tmp_path, scenario)


def test_stop_answers_what_has_arrived_and_reads_no_more(tmp_path: Path) -> None:
    """A busy client cannot keep the agent from stopping, and gets the answers it is due."""

    async def main() -> None:
        async with serving(tmp_path) as (agent, port):
            await agent.cluster.create_topic("t")
            client = await AsyncRawClient.connect(port)
            await hold_up_commits(agent, client)
            stopping = asyncio.create_task(stop([agent]))
            await until(lambda: agent.waiters.is_closed)
            client.writer.write(raw.encode(requests.produce("t", {0: batch(b"too late")}), 2))
            store_of(agent).release()
            await stopping
            answer = await client.receive(requests.produce("t", {}))
            assert base_offset(answer) == 0
            assert await client.is_closed()
            await client.close()

    asyncio.run(main())


def test_a_client_that_resets_its_connection_as_the_agent_stops(tmp_path: Path) -> None:
    """Nothing is left to say to it: the others are let go all the same, and the stop does not fail."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await client.call(requests.metadata("t"))
        with socket.create_connection(("127.0.0.1", agent.port)) as leaving:
            await until(lambda: len(agent.connections) == 2)
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The reset is here already, and the event loop has not looked since.
        await stop([agent])
        assert await client.is_closed()

    run(tmp_path, scenario)


def test_a_fetch_whose_store_fails_to_read_can_be_repeated(tmp_path: Path) -> None:
    """KAFKA_STORAGE_ERROR, which clients try again, and the records once the store reads again."""

    async def scenario(agent: Agent, client: AsyncRawClient) -> None:
        await client.call(requests.produce("t", {0: batch(b"kept")}))
        store_of(agent).fail_reads = 2  # it is planned anew once
        failed = (await client.call(requests.fetch("t", {0: 0}))).responses[0].partitions[0]
        assert (failed.error_code, failed.records or b"") == (56, b"")
        found = (await client.call(requests.fetch("t", {0: 0}))).responses[0].partitions[0]
        assert found.error_code == 0
        assert b"kept" in bytes(found.records)

    run(tmp_path, scenario)

"""Requests that cross each other: the commit is held back at that very moment, and what waits behind it is refused."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast.client import transactions
from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity
from tests.agent.transactions.driving import (
    GENERATIONS,
    TOPIC,
    TV1,
    TV2,
    Desk,
    Producer,
    Versions,
    describe,
    run,
    until,
)

pytestmark = pytest.mark.usefixtures("gated_stores")

OLD_EPOCH, ENDED, OUT_OF_ORDER, FENCED, BUSY = 47, 48, 45, 90, 51

Ending = Callable[[Desk, Producer], Coroutine[Any, Any, Any]]


async def by_takeover(desk: Desk, producer: Producer) -> Any:
    """Another process takes the transactional id."""
    taker = Identity(transactional_id=producer.who.transactional_id)
    request = transactions.init_producer_id(taker, timeout_ms=60_000)
    return await Producer(await desk.connect()).ask(request, 4)


async def by_hand(desk: Desk, producer: Producer) -> Any:
    """An operator aborts it."""
    operator = Producer(await desk.connect())
    operator.who = producer.who
    return await operator.abort_by_hand(0)


async def by_time(desk: Desk, producer: Producer) -> Any:
    """It takes too long."""


async def by_its_producer(desk: Desk, producer: Producer) -> Any:
    """Its own producer aborts it, on another connection."""
    request = transactions.end_txn(producer.who, committed=False)
    return await Producer(await desk.connect()).ask(request, producer.versions.end)


@pytest.mark.parametrize("versions", GENERATIONS)
@pytest.mark.parametrize(
    ("ending", "timeout_ms"),
    [(by_takeover, 60_000), (by_hand, 60_000), (by_time, 1000), (by_its_producer, 60_000)],
)
def test_a_batch_behind_the_end_is_refused(
    tmp_path: Path, ending: Ending, timeout_ms: int, versions: Versions
) -> None:
    """It pins nothing, nobody sees it, and the next transaction does not contain it."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=versions, timeout_ms=timeout_ms)
        await producer.write(b"before")
        plain = await desk.gate.close(desk.client)
        ended = asyncio.create_task(ending(desk, producer))
        await desk.gate.queued(1)
        late = asyncio.create_task(producer.produce(b"late"))
        await desk.gate.queued(2)
        desk.gate.open()
        await asyncio.gather(plain, ended)
        of_same_epoch = ending is by_its_producer and versions is TV1
        assert await late == (ENDED if of_same_epoch else OLD_EPOCH, -1)
        assert await desk.read(committed=True) == ([], 1, 1)
        successor = await desk.producer(versions=versions)
        assert await successor.write(b"next") == 1
        assert await successor.end(commit=True) == 0
        assert await desk.read(committed=True) == ([(1, b"next")], 2, 2)
        assert (await desk.read(committed=False)).values == [b"before", b"next"]

    run(tmp_path, scenario)


def test_a_batch_behind_a_commit_of_the_same_epoch_is_refused(tmp_path: Path) -> None:
    """TV1 keeps the epoch: the turn alone tells that the batch meant the transaction before."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"first")
        plain = await desk.gate.close(desk.client)
        other = Producer(await desk.connect())
        request = transactions.end_txn(producer.who, committed=True)
        committed = asyncio.create_task(other.ask(request, 4))
        await desk.gate.queued(1)
        late = asyncio.create_task(producer.produce(b"late"))
        await desk.gate.queued(2)
        desk.gate.open()
        await plain
        assert (await committed).error_code == 0
        assert await late == (ENDED, -1)
        assert await desk.read(committed=True) == ([(0, b"first")], 1, 1)
        producer.client = other.client
        assert await producer.write(b"second") == 1
        assert await producer.end(commit=False) == 0
        assert await desk.read(committed=True) == ([(0, b"first")], 2, 2)

    run(tmp_path, scenario)


def test_an_abort_by_hand_behind_the_commit_is_in_vain(tmp_path: Path) -> None:
    """The operator meant the transaction that has just been committed: its producer is not fenced for it."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"first")
        plain = await desk.gate.close(desk.client)
        committed = asyncio.create_task(producer.end(commit=True))
        await desk.gate.queued(1)
        aborted = asyncio.create_task(by_hand(desk, producer))
        await desk.gate.queued(2)
        desk.gate.open()
        await plain
        assert (await committed, await aborted) == (0, [ENDED])
        assert (await describe(desk.client)).phase == "CompleteCommit"
        await producer.write(b"second")
        assert await producer.end(commit=True) == 0
        assert (await desk.read(committed=True)).values == [b"first", b"second"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("versions", GENERATIONS)
def test_of_two_ends_the_first_counts(tmp_path: Path, versions: Versions) -> None:
    """An abort behind the commit of the same transaction is refused, and the other way round."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=versions)
        for commit in (True, False):
            await producer.write(b"value")
            plain = await desk.gate.close(desk.client)
            other = Producer(await desk.connect(), versions=versions)
            other.who = producer.who
            first = asyncio.create_task(producer.end(commit=commit))
            await desk.gate.queued(1)
            second = asyncio.create_task(other.end(commit=not commit))
            await desk.gate.queued(2)
            desk.gate.open()
            await plain
            assert (await first, await second) == (0, ENDED)
            assert (await describe(desk.client)).phase == ("CompleteCommit" if commit else "CompleteAbort")
        assert await desk.read(committed=True) == ([(0, b"value")], 2, 2)

    run(tmp_path, scenario)


def test_an_announcement_behind_the_end_is_to_be_repeated(tmp_path: Path) -> None:
    """It can mean the transaction that ends, or the next: only after the end it is clear."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"first")
        plain = await desk.gate.close(desk.client)
        ended = asyncio.create_task(by_its_producer(desk, producer))
        await desk.gate.queued(1)
        assert await producer.add(1) == [BUSY]
        desk.gate.open()
        await asyncio.gather(plain, ended)
        assert await producer.add(1) == [0]
        assert (await describe(desk.client)).partitions == [1]

    run(tmp_path, scenario)


@pytest.mark.parametrize("versions", GENERATIONS)
def test_a_commit_behind_a_timeout_is_refused(tmp_path: Path, versions: Versions) -> None:
    """The abort came first, though nobody had been told yet."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=versions, timeout_ms=1000)
        await producer.write(b"lost")
        plain = await desk.gate.close(desk.client)
        await desk.gate.queued(1)
        committed = asyncio.create_task(producer.end(commit=True))
        await desk.gate.queued(2)
        desk.gate.open()
        await plain
        assert await committed == (FENCED if versions is TV1 else ENDED)
        assert await desk.read(committed=True) == ([], 1, 1)

    run(tmp_path, scenario)


def test_staged_positions_behind_the_end_are_refused(tmp_path: Path) -> None:
    """They do not count with the next commit."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        assert await producer.stage("g", 3) == 0
        plain = await desk.gate.close(desk.client)
        ended = asyncio.create_task(by_its_producer(desk, producer))
        await desk.gate.queued(1)
        request = transactions.txn_offset_commit(producer.who, "g", {TopicPartition(TOPIC, 0): 7})
        late = asyncio.create_task(producer.ask(request, 3))
        await desk.gate.queued(2)
        desk.gate.open()
        await plain
        assert (await ended).error_code == 0
        assert (await late).topics[0].partitions[0].error_code == ENDED
        await producer.write(b"next")
        assert await producer.end(commit=True) == 0
        assert desk.agent.plane.find_group_offsets("g") == []

    run(tmp_path, scenario)


@pytest.mark.parametrize("versions", GENERATIONS)
def test_a_repeated_end_leaves_the_next_transaction_alone(tmp_path: Path, versions: Versions) -> None:
    """Its answer comes after the next one has begun, which goes on, and can still time out."""

    async def scenario(desk: Desk) -> None:
        old = Producer(await desk.connect())
        producer = await desk.producer(versions=versions, timeout_ms=2000)
        await producer.write(b"first")
        repeated = transactions.end_txn(producer.who, committed=True)
        assert await producer.end(commit=True) == 0
        plain = await desk.gate.close(desk.client)
        again = asyncio.create_task(old.ask(repeated, versions.end))
        await desk.gate.queued(1)
        if versions is TV1:
            assert await producer.add(0) == [0]
        second = asyncio.create_task(producer.produce(b"second"))
        await desk.gate.queued(2)
        desk.gate.open()
        await plain
        assert (await again).error_code == 0
        assert await second == (0, 1)
        assert (await describe(desk.client)).partitions == [0]
        assert await producer.produce(b"third") == (0, 2)
        await until(lambda: desk.stable() == 3)
        assert (await describe(desk.client)).phase == "CompleteAbort"

    run(tmp_path, scenario)


def test_a_resumption_asked_for_twice_keeps_what_was_announced(tmp_path: Path) -> None:
    """The second answer is the first one once more: the transaction that has begun in between stands."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        request = transactions.init_producer_id(producer.who, timeout_ms=60_000)
        assert await producer.init(resume=True) == 0
        assert await producer.add(0) == [0]
        again = await Producer(await desk.connect()).ask(request, 4)
        assert (again.error_code, again.producer_epoch) == (0, producer.who.producer_epoch)
        assert (await describe(desk.client)).partitions == [0]
        assert await producer.produce(b"value") == (0, 0)
        assert await producer.end(commit=True) == 0

    run(tmp_path, scenario)


def test_a_batch_that_crosses_a_vain_timeout_is_timed_out_later(tmp_path: Path) -> None:
    """A producer whose first batch was refused has nothing open; what it writes in that moment must not hang."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=TV2, timeout_ms=1000)
        assert await producer.write(b"value") == 0
        assert await producer.end(commit=True) == 0
        producer.sequences[0] = 7
        assert await producer.produce(b"gap") == (OUT_OF_ORDER, -1)
        producer.sequences[0] = 0
        plain = await desk.gate.close(desk.client)
        await desk.gate.queued(1)
        value = asyncio.create_task(producer.produce(b"value"))
        await desk.gate.queued(2)
        desk.gate.open()
        await plain
        assert await value == (0, 1)
        await until(lambda: desk.stable() == 2)
        assert desk.agent.transactions.timeouts == 1

    run(tmp_path, scenario)

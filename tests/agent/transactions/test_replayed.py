"""A frame that is durable but could not be recorded: its writer was told of a failure, the next commit replays it."""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from confluent_kafka import Producer as ConfluentProducer

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan
from holdfast.agent.transactions.plan import Membership
from holdfast.agent.writes import AppendBatch, Write
from holdfast.client import transactions
from holdfast.errors import StorageUnavailable
from tests.agent import requests
from tests.agent.batches import batch, view
from tests.agent.faults import FaultyPlane, faulty
from tests.agent.transactions.driving import (
    GENERATIONS,
    TOPIC,
    TV2,
    Desk,
    Producer,
    Versions,
    describe,
    run,
    until,
)

pytestmark = pytest.mark.usefixtures("faulty_planes", "gated_stores")

ASK_AGAIN = 15


def fail_after_recording(desk: Desk) -> None:
    """The next frame is durable and recorded, and nobody is told."""
    committer = desk.agent.commits._committer
    commit = committer.commit

    def fail(writes: Sequence[Write]) -> NoReturn:
        committer.commit = commit  # type: ignore[method-assign]
        commit(writes)
        raise sqlite3.OperationalError("disk I/O error")

    committer.commit = fail  # type: ignore[method-assign]


def fail_once(desk: Desk) -> None:
    """The next frame is durable and not recorded."""
    assert isinstance(desk.agent.plane, FaultyPlane)
    desk.agent.plane.fail_applies = 1


async def commit_something(desk: Desk) -> None:
    """A plain record, whose commit replays what is due."""
    answer = await desk.client.call(requests.produce(TOPIC, {1: batch(b"plain")}))
    assert answer.responses[0].partition_responses[0].error_code == 0


def frames(desk: Desk) -> int:
    """How many there are."""
    return len(faulty(desk.agent.store).durable)


def late_batch(desk: Desk, producer: Producer) -> AppendBatch:
    """A batch that has waited so long that the coordinator has forgotten its transaction."""
    data = batch(
        b"lost",
        producer_id=producer.who.producer_id,
        producer_epoch=producer.who.producer_epoch,
        transactional=True,
    )
    key = PartitionKey(desk.agent.catalog.get(TOPIC).topic_id, 0)
    return AppendBatch(key, view(data), 1, membership=Membership("tx", None))


def test_a_replayed_beginning_times_out(tmp_path: Path) -> None:
    """Nobody has seen it begin, and its producer believes that it failed: it ends by itself all the same."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=TV2, timeout_ms=700)
        fail_once(desk)
        with pytest.raises(StorageUnavailable):
            await desk.agent.commits.submit(late_batch(desk, producer))
        assert (await describe(desk.client)).phase == "Empty"
        await commit_something(desk)
        assert (await describe(desk.client)).phase == "Ongoing"
        assert desk.stable() == 0
        await until(lambda: desk.agent.transactions.timeouts == 1)
        assert desk.stable() == 1
        assert (await describe(desk.client)).phase == "CompleteAbort"

    run(tmp_path, scenario)


def test_a_commit_that_fails_after_the_replay_tells_of_it_too(tmp_path: Path) -> None:
    """The replay has succeeded, whatever becomes of the writes behind it."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=TV2, timeout_ms=700)
        fail_once(desk)
        with pytest.raises(StorageUnavailable):
            await desk.agent.commits.submit(late_batch(desk, producer))
        faulty(desk.agent.store).fail_appends = 1
        answer = await desk.client.call(requests.produce(TOPIC, {1: batch(b"plain")}))
        assert answer.responses[0].partition_responses[0].error_code == 56
        await until(lambda: desk.agent.transactions.timeouts == 1)
        assert desk.stable() == 1

    run(tmp_path, scenario)


def test_a_bug_behind_the_replay_does_not_hide_it(tmp_path: Path) -> None:
    """The commit after the one that met it tells."""

    @dataclass(frozen=True, slots=True)
    class Bug(Write):
        def plan(self, plan: CommitPlan) -> object:
            raise ZeroDivisionError

    async def scenario(desk: Desk) -> None:
        fail_once(desk)
        with pytest.raises(StorageUnavailable):
            await desk.agent.cluster.create_topic("late", 1)
        with pytest.raises(StorageUnavailable, match="internal error"):
            await desk.agent.commits.submit(Bug())
        assert desk.agent.catalog.find("late") is None
        await commit_something(desk)
        assert desk.agent.catalog.find("late") is not None

    run(tmp_path, scenario)


def test_old_news_of_a_transaction_change_nothing(tmp_path: Path) -> None:
    """The event loop hears of a commit when later ones may have been recorded."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"first")
        old = desk.agent.plane.find_transactional_id("tx")
        assert old is not None
        assert await producer.end(commit=True) == 0
        assert await producer.add(0, 1) == [0, 0]
        desk.agent.transactions.watch({"tx": old}, is_replay=False)
        assert (await describe(desk.client)).partitions == [0, 1]
        assert [each.transactional_id for each in desk.agent.transactions.standings.list_open()] == ["tx"]
        assert await producer.produce(b"second", partition=1) == (0, 0)
        assert await producer.end(commit=True) == 0

    run(tmp_path, scenario)


def test_a_replayed_topic_is_known(tmp_path: Path) -> None:
    """Its creator was told of a failure, and is told next that there is one."""

    async def scenario(desk: Desk) -> None:
        fail_once(desk)
        with pytest.raises(StorageUnavailable):
            await desk.agent.cluster.create_topic("late", 1)
        assert desk.agent.catalog.find("late") is None
        await commit_something(desk)
        assert desk.agent.catalog.find("late") is not None
        answer = await desk.client.call(requests.produce("late", {0: batch(b"value")}))
        assert answer.responses[0].partition_responses[0].error_code == 0

    run(tmp_path, scenario)


def test_a_replay_wakes_readers(tmp_path: Path) -> None:
    """One that waits for a record does not wait until its time is over."""

    async def scenario(desk: Desk) -> None:
        fail_once(desk)
        answer = await desk.client.call(requests.produce(TOPIC, {0: batch(b"value")}))
        assert answer.responses[0].partition_responses[0].error_code == 56
        reader = await desk.connect()
        fetch = requests.fetch(TOPIC, {0: 0}, wait_ms=60_000)
        waiting = asyncio.create_task(reader.call(fetch))
        await until(lambda: bool(desk.agent.waiters._by_partition))
        await commit_something(desk)
        async with asyncio.timeout(10):
            part = (await waiting).responses[0].partitions[0]
        assert part.high_watermark == 1
        assert part.records

    run(tmp_path, scenario)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("versions", GENERATIONS)
def test_an_end_that_is_asked_for_again_happens_once(
    tmp_path: Path, versions: Versions, commit: bool
) -> None:
    """The first answer leaves it open; the retry finds it done, and adds nothing."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=versions)
        await producer.write(b"value")
        assert await producer.stage("g", 5) == 0
        before = frames(desk)
        fail_once(desk)
        request = transactions.end_txn(producer.who, committed=commit)
        first, second, third = [await producer.ask(request, versions.end) for _ in range(3)]
        assert [each.error_code for each in (first, second, third)] == [ASK_AGAIN, 0, 0]
        assert frames(desk) == before + 1
        if versions is TV2:
            assert (second.producer_id, second.producer_epoch) == (producer.who.producer_id, 1)
            assert (third.producer_id, third.producer_epoch) == (producer.who.producer_id, 1)
            producer.become(second)
        assert (await desk.read(committed=True)).values == ([b"value"] if commit else [])
        positions = desk.agent.plane.find_group_offsets("g")
        assert [position.offset for position in positions] == ([5] if commit else [])
        await producer.write(b"next")
        assert await producer.end(commit=True) == 0
        expected = [b"value", b"next"] if commit else [b"next"]
        assert (await desk.read(committed=True)).values == expected

    run(tmp_path, scenario)


def test_a_client_asks_again_by_itself(tmp_path: Path) -> None:
    """librdkafka's commit succeeds although its first EndTxn was answered with a failure."""

    async def scenario(desk: Desk) -> None:
        client = ConfluentProducer(
            {"bootstrap.servers": f"127.0.0.1:{desk.agent.port}", "transactional.id": "librdkafka"}
        )

        def begin() -> None:
            client.init_transactions(20)
            client.begin_transaction()
            client.produce(TOPIC, b"value", partition=0)
            assert client.flush(20) == 0

        await asyncio.to_thread(begin)
        before = frames(desk)
        fail_once(desk)
        await asyncio.to_thread(client.commit_transaction, 20)
        assert frames(desk) == before + 1
        assert (await desk.read(committed=True)).values == [b"value"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("versions", GENERATIONS)
def test_recorded_and_then_failed(tmp_path: Path, versions: Versions) -> None:
    """A bug of ours behind a commit: its writer asks again, is told the outcome, and goes on with the next turn."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=versions)
        await producer.write(b"first")
        fail_after_recording(desk)
        assert await producer.end(commit=True) == ASK_AGAIN
        assert await producer.end(commit=True) == 0
        await producer.write(b"second")
        assert await producer.end(commit=True) == 0

    run(tmp_path, scenario)

"""A real process, killed: what was announced is forgotten and forgiven once, what was decided stays so."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.agent import requests
from tests.agent.serving import AsyncRawClient
from tests.agent.transactions.driving import (
    TOPIC,
    TV1,
    TV2,
    Producer,
    Versions,
    describe,
    read,
    until,
)
from tests.process import HoldfastProcess

ENDED, FENCED, OLD_EPOCH = 48, 90, 47

Scenario = Callable[[HoldfastProcess, Producer], Awaitable[None]]


def run(path: Path, scenario: Scenario, *, versions: Versions = TV1, timeout_ms: int = 60_000) -> None:
    """A scenario with a producer that has its id; connections end with the scenario."""

    async def main(process: HoldfastProcess) -> None:
        client = await AsyncRawClient.connect(process.port)
        await client.call(requests.create_topic(TOPIC, partitions=2))
        producer = Producer(client, versions=versions)
        assert await producer.init(timeout_ms=timeout_ms) == 0
        try:
            await scenario(process, producer)
        finally:
            await producer.client.close()

    with HoldfastProcess(path / "data") as process:
        asyncio.run(main(process))


async def crash(process: HoldfastProcess, producer: Producer) -> None:
    """kill -9, a new process, and the producer's new connection to it."""
    process.kill()
    await producer.client.close()
    process.start()
    producer.client = await AsyncRawClient.connect(process.port)


@pytest.mark.parametrize("version", [7, 11])
def test_a_batch_finds_its_announcement_forgotten(tmp_path: Path, version: int) -> None:
    """The producer has done its part: it goes on as if nothing had happened, and commits."""

    async def scenario(process: HoldfastProcess, producer: Producer) -> None:
        assert await producer.add(0, 1) == [0, 0]
        assert await producer.produce(b"before", version=version) == (0, 0)
        await crash(process, producer)
        assert await producer.produce(b"after", version=version) == (0, 1)
        assert await producer.produce(b"elsewhere", partition=1, version=version) == (0, 0)
        assert (await read(producer.client, committed=True)).stable == 0
        assert await producer.end(commit=True) == 0
        assert (await read(producer.client, committed=True)).values == [b"before", b"after"]
        unannounced = 120 if version == 11 else ENDED
        assert await producer.produce(b"late", version=version) == (unannounced, -1), "forgiven once"

    run(tmp_path, scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_finds_its_announcement_forgotten(tmp_path: Path, commit: bool) -> None:
    """An empty transaction ends as the producer asked for; only once, and only in that way."""

    async def scenario(process: HoldfastProcess, producer: Producer) -> None:
        assert await producer.add(0) == [0]
        await crash(process, producer)
        assert (await describe(producer.client)).phase == "Empty"
        assert await producer.end(commit=commit) == 0
        assert (await describe(producer.client)).phase == ("CompleteCommit" if commit else "CompleteAbort")
        assert await producer.end(commit=commit) == 0, "the retry"
        assert await producer.end(commit=not commit) == ENDED
        await producer.write(b"next")
        assert await producer.end(commit=True) == 0
        assert (await read(producer.client, committed=True)).values == [b"next"]

    run(tmp_path, scenario)


def test_nothing_is_forgiven_to_who_came_after_the_crash(tmp_path: Path) -> None:
    """A producer that takes the id in this process has announced nothing that could be forgotten."""

    async def scenario(process: HoldfastProcess, producer: Producer) -> None:
        assert await producer.add(0) == [0]
        await crash(process, producer)
        assert await producer.init() == 0
        assert await producer.produce(b"unannounced") == (ENDED, -1)
        assert await producer.end(commit=True) == ENDED

    run(tmp_path, scenario)


def test_nothing_is_forgiven_to_who_was_fenced(tmp_path: Path) -> None:
    """By a time-out before the crash, or by its successor: an old epoch stays old."""

    async def scenario(process: HoldfastProcess, producer: Producer) -> None:
        await producer.write(b"lost")

        async def is_aborted() -> bool:
            return (await describe(producer.client)).phase == "CompleteAbort"

        await until(is_aborted)
        await crash(process, producer)
        assert await producer.produce(b"late") == (OLD_EPOCH, -1)
        assert await producer.end(commit=True) == FENCED
        assert await producer.add(0) == [FENCED]
        assert (await read(producer.client, committed=True)).records == []

    run(tmp_path, scenario, timeout_ms=1000)


@pytest.mark.parametrize(("versions", "commit"), [(TV1, False), (TV2, True)])
def test_outcomes_outlive_a_kill(tmp_path: Path, versions: Versions, commit: bool) -> None:
    """Decided and undecided alike; the retry of the end is answered by the new process."""

    async def scenario(process: HoldfastProcess, producer: Producer) -> None:
        await producer.write(b"decided")
        assert await producer.stage("g", 4) == 0
        before = producer.who
        assert await producer.end(commit=commit) == 0
        await crash(process, producer)
        after = producer.who
        producer.who = before
        assert await producer.end(commit=commit) == 0
        assert producer.who == after
        await producer.write(b"open")
        await crash(process, producer)
        log = await read(producer.client, committed=True)
        assert log == ([(0, b"decided")] if commit else [], 1, 2)
        answer = await producer.client.call(requests.fetch_offset("g", TOPIC, stable=True))
        position = answer.groups[0].topics[0].partitions[0].committed_offset
        assert position == (4 if commit else -1)
        assert await producer.end(commit=True) == 0
        assert (await read(producer.client, committed=True)).values[-1] == b"open"

    run(tmp_path, scenario, versions=versions)


def test_transactions_come_back_from_the_journal(tmp_path: Path) -> None:
    """Without control.db: ids, epochs, outcomes, staged positions and open transactions."""

    async def scenario(process: HoldfastProcess, producer: Producer) -> None:
        for number in range(4):
            await producer.write(b"%d" % number)
            assert await producer.stage("g", number) == 0
            assert await producer.end(commit=number % 2 == 0) == 0
        await producer.write(b"open")
        process.kill()
        for file in process.data.glob("control.db*"):
            file.unlink()
        await producer.client.close()
        process.start()
        producer.client = await AsyncRawClient.connect(process.port)
        assert await read(producer.client, committed=True) == ([(0, b"0"), (2, b"2")], 4, 5)
        assert (await describe(producer.client)).phase == "Ongoing"
        assert await producer.end(commit=False) == 0
        answer = await producer.client.call(requests.fetch_offset("g", TOPIC, stable=True))
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 2

    run(tmp_path, scenario, versions=TV2)

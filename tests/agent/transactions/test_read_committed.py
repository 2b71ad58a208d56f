"""What readers are given: never past the last stable offset, nothing aborted, and never a guess."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.records.control import ControlType, read_control
from holdfast.records.walk import walk_valid
from tests.agent import requests
from tests.agent.batches import NOW_MS, batch
from tests.agent.transactions.driving import (
    GENERATIONS,
    TOPIC,
    Desk,
    Versions,
    desk_of,
    run,
)

UNKNOWN_SERVER_ERROR = -1


async def fetch(desk: Desk, offset: int, *, committed: bool, **limits: Any) -> Any:
    """One answer for partition 0."""
    request = requests.fetch(TOPIC, {0: offset}, committed=committed, **limits)
    return (await desk.client.call(request)).responses[0].partitions[0]


def batches(part: Any) -> list[tuple[int, int, bool]]:
    """First and last offset of each batch, and whether it is a control batch."""
    return [
        (one.base_offset, one.last_offset, one.is_control) for one in walk_valid(bytes(part.records or b""))
    ]


async def write_article(desk: Desk, versions: Versions) -> None:
    """The article's diagram: one producer, four transactions, the second and the third aborted.

    There the offsets 2, 7 and 9 belong to control records, which take none here: 0-1 committed, 2-5 aborted,
    6 aborted, 7-8 committed.
    """
    producer = await desk.producer(versions=versions)
    for values, commit in (
        ([b"a", b"b"], True),
        ([b"c", b"d", b"e", b"f"], False),
        ([b"g"], False),
        ([b"h", b"i"], True),
    ):
        await producer.write(*values)
        assert await producer.end(commit=commit) == 0


@pytest.mark.parametrize("versions", GENERATIONS)
def test_article_diagram(tmp_path: Path, versions: Versions) -> None:
    """Aborted batches are left out by the agent; no client is asked to do so, and no marker takes an offset."""

    async def scenario(desk: Desk) -> None:
        await write_article(desk, versions)
        part = await fetch(desk, 0, committed=True)
        assert batches(part) == [(0, 1, False), (7, 8, False)]
        assert (part.error_code, part.last_stable_offset, part.high_watermark) == (0, 9, 9)
        assert part.aborted_transactions == []
        part = await fetch(desk, 0, committed=False)
        assert batches(part) == [(0, 1, False), (2, 5, False), (6, 6, False), (7, 8, False)]
        assert (part.last_stable_offset, part.high_watermark, part.aborted_transactions) == (9, 9, None)
        assert (await desk.read(committed=True)).values == [b"a", b"b", b"h", b"i"]
        assert (await desk.read(committed=True, offset=4)).values == [b"h", b"i"]

    run(tmp_path, scenario)


def test_a_stretch_of_which_nothing_is_left_is_filled(tmp_path: Path) -> None:
    """One control record of nobody's, which takes every client to the end of the stretch, from wherever it is."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        for values in ([b"a", b"b", b"c"], [b"d"]):
            await producer.write(*values)
            assert await producer.end(commit=False) == 0
        for offset in range(4):
            part = await fetch(desk, offset, committed=True)
            (filler,) = walk_valid(bytes(part.records))
            assert (filler.base_offset, filler.last_offset, filler.is_control) == (offset, 3, True)
            assert (filler.producer_id, filler.record_count, filler.leader_epoch) == (0, 1, 0)
            control = read_control(filler)
            assert control is not None
            assert (control.type, control.offset) == (ControlType.COMMIT, 3)
            assert part.aborted_transactions == []
        assert batches(await fetch(desk, 4, committed=True)) == []
        assert batches(await fetch(desk, 1, committed=False)) == [(0, 2, False), (3, 3, False)]

    run(tmp_path, scenario)


def test_a_filler_stops_before_what_is_not_decided(tmp_path: Path) -> None:
    """An aborted stretch that ends at an open transaction takes the reader there, and no further."""

    async def scenario(desk: Desk) -> None:
        aborting, open_one = await desk.producer("aborts"), await desk.producer("open")
        await aborting.write(b"a")
        await aborting.end(commit=False)
        await open_one.write(b"b")
        await aborting.write(b"c")
        await aborting.end(commit=True)
        part = await fetch(desk, 0, committed=True)
        assert batches(part) == [(0, 0, True)]
        assert (part.last_stable_offset, part.high_watermark) == (1, 3)
        assert batches(await fetch(desk, 1, committed=True)) == []
        await open_one.end(commit=True)
        assert (await desk.read(committed=True)).values == [b"b", b"c"]

    run(tmp_path, scenario)


def test_a_filler_goes_before_a_batch_that_is_too_large(tmp_path: Path) -> None:
    """What has no room in the answer comes with the next one, from behind the stretch."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(bytes(1000))
        await producer.end(commit=False)
        await producer.write(bytes(1000))
        await producer.end(commit=True)
        await desk.client.call(requests.produce(TOPIC, {1: batch(b"other")}))
        request = requests.fetch(TOPIC, {1: 0, 0: 0}, committed=True, partition_bytes_max=500)
        _, part = (await desk.client.call(request)).responses[0].partitions
        assert batches(part) == [(0, 0, True)]
        assert batches(await fetch(desk, 1, committed=True, partition_bytes_max=500)) == [(1, 1, False)]

    run(tmp_path, scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_a_reader_that_waits_is_woken_by_the_end(tmp_path: Path, commit: bool) -> None:
    """By a commit with the records, by an abort with the filler; not by the records themselves."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"a")
        waiting = asyncio.create_task(fetch(desk, 0, committed=True, wait_ms=600_000))
        while not desk.agent.waiters._by_partition:
            await asyncio.sleep(0.001)
        await producer.write(b"b")
        await asyncio.sleep(0)
        assert not waiting.done()
        assert await producer.end(commit=commit) == 0
        part = await waiting
        assert batches(part) == ([(0, 0, False), (1, 1, False)] if commit else [(0, 1, True)])
        assert part.last_stable_offset == 2

    run(tmp_path, scenario)


def test_list_offsets_by_isolation(tmp_path: Path) -> None:
    """The latest is the last stable offset for one kind of reader; times beyond it are not found."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await desk.client.call(requests.produce(TOPIC, {0: batch(b"a")}))
        await producer.write(b"b")

        async def ask(time: int, *, committed: bool) -> tuple[int, int]:
            request = requests.list_offsets(TOPIC, {0: time}, committed=committed)
            part = (await desk.client.call(request)).topics[0].partitions[0]
            return part.error_code, part.offset

        assert await ask(-1, committed=True) == (0, 1)
        assert await ask(-1, committed=False) == (0, 2)
        assert await ask(-2, committed=True) == (0, 0)
        assert await ask(NOW_MS, committed=True) == (0, 0)
        await desk.client.call(requests.delete_records(TOPIC, {0: 1}))
        assert await ask(NOW_MS, committed=True) == (0, -1)
        assert await ask(NOW_MS, committed=False) == (0, 1)
        await producer.end(commit=True)
        assert await ask(-1, committed=True) == (0, 2)
        assert await ask(NOW_MS, committed=True) == (0, 1)

    run(tmp_path, scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_stable_positions_wait_for_the_end(tmp_path: Path, commit: bool) -> None:
    """While a position is staged, only who asks for a stable one is sent away; then all see the same."""

    async def scenario(desk: Desk) -> None:
        async def position(*, stable: bool) -> tuple[int, int]:
            request = requests.fetch_offset("g", TOPIC, stable=stable)
            part = (await desk.client.call(request)).groups[0].topics[0].partitions[0]
            return part.error_code, part.committed_offset

        await desk.client.call(requests.commit_offset("g", TOPIC, 3))
        producer = await desk.producer()
        assert await producer.stage("g", 7) == 0
        assert await position(stable=True) == (88, -1)
        assert await position(stable=False) == (0, 3)
        assert await producer.end(commit=commit) == 0
        assert await position(stable=True) == await position(stable=False) == (0, 7 if commit else 3)

    run(tmp_path, scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_a_missing_outcome_is_a_loud_error(tmp_path: Path, commit: bool) -> None:
    """Were the row of an outcome lost, a reader of committed records is refused, whatever it was."""

    async def main() -> None:
        async with desk_of(tmp_path) as desk:
            producer = await desk.producer()
            await producer.write(b"a")
            await producer.end(commit=commit)
            await desk.client.call(requests.produce(TOPIC, {0: batch(b"b")}))
        with sqlite3.connect(tmp_path / "control.db") as plane:
            assert plane.execute("DELETE FROM instances").rowcount == 1
        async with desk_of(tmp_path) as desk:
            part = await fetch(desk, 0, committed=True)
            assert part.error_code == UNKNOWN_SERVER_ERROR
            assert not part.records
            assert (await fetch(desk, 1, committed=True)).error_code == 0
            assert (await desk.read(committed=False)).values == [b"a", b"b"]

    asyncio.run(main())


def test_delete_records_may_pass_an_open_transaction(tmp_path: Path) -> None:
    """Into the middle of it, too: its readers wait at the log start, and see the rest once it is decided."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"a", b"b", b"c")
        answer = await desk.client.call(requests.delete_records(TOPIC, {0: 1}))
        assert answer.topics[0].partitions[0].low_watermark == 1
        part = await fetch(desk, 1, committed=True)
        assert (part.error_code, part.last_stable_offset, part.high_watermark) == (0, 1, 3)
        assert batches(part) == []
        assert await producer.end(commit=True) == 0
        assert await desk.read(committed=True, offset=1) == ([(1, b"b"), (2, b"c")], 3, 3)

    run(tmp_path, scenario)


def test_retention_does_not_pass_an_open_transaction(tmp_path: Path) -> None:
    """However old its records are; once it is decided they go."""

    async def scenario(desk: Desk) -> None:
        await desk.client.call(requests.produce(TOPIC, {0: batch(b"plain", timestamp_ms=1)}))
        producer = await desk.producer()
        await producer.write(b"a")
        topic_id = desk.agent.catalog.get(TOPIC).topic_id
        await desk.agent.cluster.expiry.expire()
        assert desk.agent.plane.find_bounds(topic_id, 0).start == 1
        await producer.end(commit=True)
        await desk.agent.cluster.expiry.expire()
        assert desk.agent.plane.find_bounds(topic_id, 0).start == 2

    run(tmp_path, scenario)

"""Group commit: order, frame size, and an end that leaves nobody waiting."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.agent import group_commit
from holdfast.agent.committer import Committed, Committer
from holdfast.agent.counters import Counters
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan
from holdfast.agent.producer_ids import BLOCK_IDS, ProducerIds
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import AppendBatch, CreateTopic, MoveLeader, Stored, Write
from holdfast.errors import StorageUnavailable
from holdfast.store.footer import TopicCreated
from tests.agent.batches import NOW_MS, batch, view
from tests.agent.faults import FaultyPlane, faulty_store

KEY = PartitionKey(UUID(int=1), 0)


class Node:
    """A commit thread over the real store and control plane."""

    def __init__(self, directory: Path, *, commit_seconds_max: float) -> None:
        self.plane = FaultyPlane(directory / "control.db")
        self.store = faulty_store(directory)
        stores = StoreSet([self.store], append_seconds_max=10)
        committer = Committer(plane=self.plane, stores=stores, now_ms=lambda: NOW_MS)
        committer.recover()
        self.grown: list[PartitionKey] = []
        self.commits = GroupCommit(
            committer,
            queue_bytes_max=1000,
            commit_seconds_max=commit_seconds_max,
            on_committed=self._committed,
            counters=Counters(),
        )
        self.commits.start()

    def _committed(self, committed: Committed) -> None:
        self.grown += committed.appended


def run(
    directory: Path, scenario: Callable[[Node], Awaitable[None]], *, commit_seconds_max: float = math.inf
) -> None:
    """A scenario on a topic of one partition."""

    async def main() -> None:
        node = Node(directory, commit_seconds_max=commit_seconds_max)
        try:
            await node.commits.submit(CreateTopic(TopicCreated("t", KEY.topic_id, [[1]], {})))
            await scenario(node)
        finally:
            node.store.release()
            await node.commits.stop()
            node.store.close()
            node.plane.close()

    asyncio.run(main())


def append(value: bytes) -> AppendBatch:
    return AppendBatch(KEY, view(batch(value)), 1)


def offset(written: object) -> int:
    assert isinstance(written, Stored)
    return written.first_offset


async def hold_up(node: Node) -> "asyncio.Future[object]":
    """A write whose commit waits at the store's closed gate."""
    node.store.hang()
    first = node.commits.submit(append(b"first"))
    while not node.store.waits.is_set():
        await asyncio.sleep(0.001)
    return first


def test_order_of_submission_is_the_order_of_offsets(tmp_path: Path) -> None:
    """Whatever shares a commit, and whatever does not."""

    async def scenario(node: Node) -> None:
        futures = []
        for number in range(200):
            futures.append(node.commits.submit(append(bytes([number]))))
            await asyncio.sleep(0 if number % 7 else 0.001)
        assert [offset(await future) for future in futures] == list(range(200))
        assert set(node.grown) == {KEY}

    run(tmp_path, scenario)


def test_frames_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into one frame goes into the next; a write larger than a frame goes alone."""
    monkeypatch.setattr(group_commit, "COMMIT_BYTES_MAX", 1000)

    async def scenario(node: Node) -> None:
        first = await hold_up(node)
        frames = len(node.store.durable)
        sizes = (100, 100, 2000, 100, 700, 700)
        futures = [first, *(node.commits.submit(append(bytes(size))) for size in sizes)]
        node.store.release()
        assert [offset(await future) for future in futures] == list(range(7))
        assert len(node.store.durable) - frames == 5

    run(tmp_path, scenario)


@pytest.mark.parametrize("frame_bytes_max", [10_000, 150])
def test_what_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frame_bytes_max: int) -> None:
    """A move of leadership is not refused for the batches that wait before it, also those of a full frame."""
    monkeypatch.setattr(group_commit, "COMMIT_BYTES_MAX", frame_bytes_max)
    planned: list[str] = []

    @dataclass(frozen=True, slots=True)
    class Noted(Write):
        name: str

        def plan(self, plan: CommitPlan) -> object:
            planned.append(self.name)
            return None

    class First(Noted):
        goes_first = True

    async def scenario(node: Node) -> None:
        await hold_up(node)
        writes: list[Write] = [
            Noted("a"),
            append(bytes(80)),
            First("b"),
            Noted("c"),
            First("d"),
            append(bytes(80)),
        ]
        futures = [node.commits.submit(write) for write in writes]
        node.store.release()
        answers = [await future for future in futures]
        assert planned == ["b", "d", "a", "c"]
        assert (offset(answers[1]), offset(answers[5])) == (1, 2), "each has its own answer"

    run(tmp_path, scenario)
    assert MoveLeader.goes_first
    assert not AppendBatch.goes_first


def test_bug_in_one_commit_is_not_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception is answered and logged; the commit thread lives on."""

    @dataclass(frozen=True, slots=True)
    class Bug(Write):
        def plan(self, plan: CommitPlan) -> object:
            raise ZeroDivisionError

    async def scenario(node: Node) -> None:
        with pytest.raises(StorageUnavailable, match="internal error"):
            await node.commits.submit(Bug())
        assert offset(await node.commits.submit(append(b"a"))) == 0

    run(tmp_path, scenario)
    assert "ZeroDivisionError" in caplog.text


def test_bug_in_one_answer_costs_nobody_else_theirs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Writes of the same commit are answered although the first one's receiver fails."""

    def fail(answer: object) -> None:
        raise ZeroDivisionError

    async def scenario(node: Node) -> None:
        await hold_up(node)
        node.commits.submit_to(append(b"a"), fail)
        second = node.commits.submit(append(b"b"))
        node.store.release()
        assert offset(await second) == 2

    run(tmp_path, scenario)
    assert "ZeroDivisionError" in caplog.text


def test_room_is_announced_when_the_queue_drains(tmp_path: Path) -> None:
    """A full queue has no room; who asked to be told is told once."""

    async def scenario(node: Node) -> None:
        calls: list[bool] = []
        await hold_up(node)
        last = node.commits.submit(append(bytes(2000)))
        assert not node.commits.has_room
        node.commits.call_when_room(lambda: calls.append(node.commits.has_room))
        node.store.release()
        await last
        await node.commits.submit(append(b"x"))
        assert calls == [True]

    run(tmp_path, scenario)


def test_stop_commits_what_is_queued_and_refuses_the_rest(tmp_path: Path) -> None:
    """A write is answered either way: stored, or to be sent again."""

    async def scenario(node: Node) -> None:
        first = await hold_up(node)
        second = node.commits.submit(append(b"second"))
        stopping = asyncio.create_task(node.commits.stop())
        await asyncio.sleep(0)
        late = node.commits.submit(append(b"late"))
        node.store.release()
        await stopping
        assert (offset(await first), offset(await second)) == (0, 1)
        with pytest.raises(StorageUnavailable, match="shutting down"):
            await late

    run(tmp_path, scenario)


def test_what_one_turn_of_the_event_loop_submits_shares_a_commit(tmp_path: Path) -> None:
    """Even if the commit thread has nothing else to do: it is woken when all of them are there."""

    async def scenario(node: Node) -> None:
        frames = len(node.store.durable)
        futures = [node.commits.submit(append(bytes([number]))) for number in range(200)]
        assert node.commits.queued_writes == 200
        await asyncio.gather(*futures)
        assert len(node.store.durable) - frames == 1

    run(tmp_path, scenario)


def test_stop_leaves_out_nothing_of_its_own_turn(tmp_path: Path) -> None:
    """What was submitted a moment before the stop is committed."""

    async def scenario(node: Node) -> None:
        last = node.commits.submit(append(b"last"))
        await node.commits.stop()
        assert offset(last.result()) == 0

    run(tmp_path, scenario)


def test_producer_ids_are_never_handed_out_twice(tmp_path: Path) -> None:
    """Blocks are durable before their first id is used, so a restart begins after the last block."""
    allotted: list[int] = []

    async def scenario(node: Node) -> None:
        ids = ProducerIds(node.plane, node.commits)
        allotted.extend(await asyncio.gather(*(ids.allot() for _ in range(BLOCK_IDS + 5))))
        node.store.fail_appends = 1
        again = ProducerIds(node.plane, node.commits)
        with pytest.raises(StorageUnavailable):
            await again.allot()
        allotted.append(await again.allot())

    run(tmp_path, scenario)
    assert len(set(allotted)) == BLOCK_IDS + 6
    assert min(allotted) == 1, "0 is the filler's"
    assert allotted[-1] > max(allotted[:-1])


def test_a_disk_that_hangs_leaves_nobody_waiting(tmp_path: Path) -> None:
    """What is under way, queued or new is refused after the deadline; later on writes are taken again."""

    async def scenario(node: Node) -> None:
        under_way = await hold_up(node)
        queued = node.commits.submit(append(b"queued"))
        for waiting in (under_way, queued):
            with pytest.raises(StorageUnavailable, match="has not answered"):
                await asyncio.wait_for(waiting, 20)
        with pytest.raises(StorageUnavailable, match="has not answered"):
            await node.commits.submit(append(b"at once"))
        assert node.commits.queued_bytes == 0
        node.store.release()
        written = None
        while written is None:
            try:
                written = await node.commits.submit(append(b"again"))
            except StorageUnavailable:
                await asyncio.sleep(0.01)
        assert offset(written) == 1, "the commit that was given up counts, what was refused does not"

    run(tmp_path, scenario, commit_seconds_max=0.2)

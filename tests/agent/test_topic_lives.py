"""A topic that is deleted and made again is another one: in flight, after a restart, and from the journals alone."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.agent.committer import Committer
from holdfast.agent.counters import Counters
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import (
    AddPartitions,
    AppendBatch,
    CommitGroupOffsets,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    MoveLogStart,
    Stored,
    Write,
)
from holdfast.errors import UnknownTopicOrPartition
from holdfast.store.footer import GroupOffsetCommitted, TopicCreated
from tests.agent.batches import NOW_MS, batch, view
from tests.agent.faults import FaultyPlane, faulty_store

OLD, NEW, OTHER = (PartitionKey(UUID(int=number), 0) for number in (1, 2, 3))


class Node:
    """A committer on a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.open()

    def open(self) -> None:
        self.plane = FaultyPlane(self._directory / "control.db")
        self.store = faulty_store(self._directory)
        self.committer = Committer(
            plane=self.plane, stores=StoreSet([self.store], append_seconds_max=10), now_ms=lambda: NOW_MS
        )
        self.committer.recover()

    def close(self) -> None:
        self.store.close()
        self.plane.close()

    def forget(self) -> None:
        """Start again with the journals and nothing else."""
        self.close()
        for file in self._directory.glob("control.db*"):
            file.unlink()
        self.open()

    def do(self, *writes: Write) -> list[object]:
        return self.committer.commit(writes).answers


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node with topic `t`, and another one that nothing happens to."""
    node = Node(tmp_path)
    node.do(create(OLD), create(OTHER, "other"))
    yield node
    node.close()


def create(key: PartitionKey, name: str = "t") -> CreateTopic:
    return CreateTopic(TopicCreated(name, key.topic_id, [[1]], {}))


def append(key: PartitionKey, *values: bytes, producer_id: int = -1, base_sequence: int = 0) -> AppendBatch:
    return AppendBatch(key, view(batch(*values, producer_id=producer_id, base_sequence=base_sequence)), 1)


def position(key: PartitionKey, offset: int = 1) -> CommitGroupOffsets:
    return CommitGroupOffsets([GroupOffsetCommitted("g", *key, offset, -1, "", NOW_MS)])


def state(node: Node) -> object:
    """All that clients can learn of the topics."""
    topics = node.plane.list_topics()
    keys = [PartitionKey(topic.topic_id, n) for topic in topics for n in range(len(topic.partitions))]
    return (
        topics,
        [node.plane.find_extents(*key, node.plane.find_bounds(*key).start, 1 << 30) for key in keys],
        [node.plane.find_producers(*key) for key in keys],
        [node.plane.find_epoch_end(*key, 9) for key in keys],
        [node.plane.find_size(*key, 1) for key in keys],
        node.plane.find_group_offsets("g"),
        node.plane.list_groups(),
    )


def test_nothing_of_the_old_topic_is_in_the_new_one(node: Node) -> None:
    """Offsets, producers and group offsets begin anew, be the old rows trimmed or not."""
    node.do(append(OLD, b"a", b"b", producer_id=7))
    node.do(append(OLD, b"c", producer_id=7, base_sequence=2), position(OLD))
    node.do(DeleteTopic(OLD.topic_id))
    assert node.plane.list_groups() == []
    node.do(create(NEW))
    for _ in range(2):
        assert [topic.topic_id for topic in node.plane.list_topics()] == [OTHER.topic_id, NEW.topic_id]
        assert node.plane.find_extents(*NEW, 0, 1 << 30)[1] == []
        assert node.plane.find_bounds(*NEW).end == node.plane.find_size(*NEW, 1) == 0
        assert node.plane.find_producers(*NEW) == {}
        assert node.plane.find_epoch_end(*NEW, 9) == (0, 0)
        assert node.plane.find_group_offsets("g") == []
        with pytest.raises(UnknownTopicOrPartition):
            node.plane.find_bounds(*OLD)
        node.plane.trim(1000)
    (written,) = node.do(append(NEW, b"d", producer_id=7))
    assert isinstance(written, Stored)
    assert written.first_offset == 0


def test_deleted_topics_leave_no_memory_behind(node: Node) -> None:
    """A process in which topics come and go for a year does not grow."""
    node.do(append(OLD, b"a"), append(OTHER, b"b"))
    node.do(DeleteTopic(OLD.topic_id))
    assert node.committer._tails.keys() == {OTHER}


IN_FLIGHT: dict[str, Callable[[], Write]] = {
    "batch": lambda: append(OLD, b"late"),
    "idempotent batch": lambda: append(OLD, b"late", producer_id=7, base_sequence=1),
    "position": lambda: position(OLD),
    "config": lambda: ConfigureTopic(OLD.topic_id, lambda present: {"retention.ms": "5"}),
    "partitions": lambda: AddPartitions(OLD.topic_id, 1, [[1]]),
    "log start": lambda: MoveLogStart(OLD, None),
    "deletion": lambda: DeleteTopic(OLD.topic_id),
}


@pytest.mark.parametrize("late", IN_FLIGHT)
@pytest.mark.parametrize("made_again", [False, True])
def test_what_comes_late_is_refused_alone(node: Node, late: str, made_again: bool) -> None:
    """A write to a topic that is gone is refused, what shares its frame goes on, and the new topic stays empty."""
    node.do(append(OLD, b"a", producer_id=7))
    node.do(DeleteTopic(OLD.topic_id))
    if made_again:
        node.do(create(NEW))
    refused, written = node.do(IN_FLIGHT[late](), append(OTHER, b"x"))
    assert isinstance(refused, UnknownTopicOrPartition)
    assert isinstance(written, Stored)
    before = state(node)
    assert not made_again or node.plane.find_bounds(*NEW).end == 0
    node.forget()
    assert state(node) == before


def test_batch_in_flight_while_its_topic_is_deleted_and_made_again(tmp_path: Path) -> None:
    """With the commit of the deletion held back, a batch taken in meanwhile is refused and lands nowhere."""

    async def main() -> None:
        node = Node(tmp_path)
        node.do(create(OLD))
        commits = GroupCommit(
            node.committer, queue_bytes_max=1 << 20, on_committed=lambda committed: None, counters=Counters()
        )
        commits.start()
        node.store.hang()
        deleted = commits.submit(DeleteTopic(OLD.topic_id))
        assert await asyncio.to_thread(node.store.waits.wait, 20)
        made, late = commits.submit(create(NEW)), commits.submit(append(OLD, b"late"))
        node.store.release()
        await deleted
        await made
        with pytest.raises(UnknownTopicOrPartition):
            await late
        assert node.plane.find_bounds(*NEW).end == 0
        await commits.stop()
        node.close()

    asyncio.run(main())


def test_deletion_that_is_not_durable_did_not_happen(node: Node) -> None:
    """The topic goes on with its offsets, and can be deleted when the disk takes frames again."""
    node.do(append(OLD, b"a"))
    node.store.fail_appends = 1
    node.do(DeleteTopic(OLD.topic_id))
    (written,) = node.do(append(OLD, b"b"))
    assert isinstance(written, Stored)
    assert written.first_offset == 1
    assert node.do(DeleteTopic(OLD.topic_id), create(NEW))[0] is None


def test_deletion_that_was_durable_but_not_recorded_happens(node: Node) -> None:
    """The journals decide: after the control plane's failure the deletion is replayed."""
    node.plane.fail_applies = 1
    node.do(DeleteTopic(OLD.topic_id))
    (refused,) = node.do(append(OLD, b"b"))
    assert isinstance(refused, UnknownTopicOrPartition)


def test_journals_alone_give_the_same(node: Node) -> None:
    """Everything that can happen to topics, replayed into an empty control plane."""
    node.do(append(OLD, b"a", b"b", producer_id=7), position(OLD))
    node.do(append(OTHER, b"a", b"b", producer_id=7), append(OTHER, b"c"), position(OTHER, 2))
    node.do(AddPartitions(OTHER.topic_id, 1, [[1], [1]]))
    node.do(append(PartitionKey(OTHER.topic_id, 2), b"x"), append(OTHER, b"y"))
    node.do(ConfigureTopic(OTHER.topic_id, lambda present: {"retention.ms": "5"}))
    node.do(DeleteTopic(OLD.topic_id), append(OLD, b"refused"))
    node.do(create(NEW), MoveLogStart(OTHER, 2))
    node.do(append(NEW, b"n"), MoveLogStart(PartitionKey(OTHER.topic_id, 2), None))
    while node.plane.trim(1):
        pass
    before = state(node)
    node.forget()
    assert state(node) == before
    assert node.plane.find_bounds(*OTHER).start == 2
    assert len(node.plane.list_topics()[0].partitions) == 3

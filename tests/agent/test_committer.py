"""The serial commit step over the real store and control plane, with faults in between."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.agent.committer import Committed, Committer
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import AllotProducerIds, AppendBatch, CommitGroupOffsets, CreateTopic, Stored
from holdfast.errors import (
    OutOfOrderSequence,
    StorageUnavailable,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from holdfast.records.walk import walk_valid
from holdfast.store.footer import GroupOffsetCommitted, TopicCreated
from tests.agent.batches import NOW_MS, batch, view
from tests.agent.faults import FaultyPlane, faulty_store

TOPIC = UUID(int=1)
KEY = PartitionKey(TOPIC, 0)


class Node:
    """A committer on a directory; `reopen` is what a restart does."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.reopen()

    def reopen(self) -> None:
        self.plane = FaultyPlane(self._directory / "control.db")
        self.store = faulty_store(self._directory)
        self.committer = Committer(
            plane=self.plane, stores=StoreSet([self.store], append_seconds_max=10), now_ms=lambda: NOW_MS
        )
        self.replayed = self.committer.recover()

    def close(self) -> None:
        self.store.close()
        self.plane.close()

    def append(self, *batches: bytes, key: PartitionKey = KEY) -> Committed:
        return self.committer.commit([AppendBatch(key, view(one), 1) for one in batches])

    def offsets(self) -> list[int]:
        """Base offsets of what a reader finds."""
        bounds, extents = self.plane.find_extents(*KEY, 0, 1 << 30)
        found = [
            one
            for extent in extents
            for one in walk_valid(self.store.read(extent.places[1], extent.length_bytes))
        ]
        assert not found or found[-1].next_offset == bounds.end
        return [one.base_offset for one in found]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.committer.commit([CreateTopic(TopicCreated("t", TOPIC, [[1]], {}))])
    yield node
    node.close()


def first_offsets(committed: Committed) -> list[int]:
    return [answer.first_offset for answer in committed.answers if isinstance(answer, Stored)]


def all_refused(committed: Committed) -> bool:
    return all(isinstance(answer, StorageUnavailable) for answer in committed.answers)


def test_group_is_one_frame(node: Node) -> None:
    """Many writes, of every kind, cost one durable append."""
    before = len(node.store.durable)
    committed = node.committer.commit(
        [
            AppendBatch(KEY, view(batch(b"a")), 1),
            AppendBatch(KEY, view(batch(b"b")), 1),
            CommitGroupOffsets([GroupOffsetCommitted("g", TOPIC, 0, 1, -1, "note", NOW_MS)]),
            AllotProducerIds(1001),
        ]
    )
    assert len(node.store.durable) == before + 1
    assert first_offsets(committed) == [0, 1]
    assert committed.appended == [KEY]
    assert [position.metadata for position in node.plane.find_group_offsets("g")] == ["note"]
    assert node.plane.find_next_producer_id() == 1001


def test_write_to_a_topic_of_the_same_group(node: Node) -> None:
    """A topic's first batch may not share its commit: it is refused alone, and the topic is there."""
    other = PartitionKey(UUID(int=2), 0)
    committed = node.committer.commit(
        [CreateTopic(TopicCreated("u", other.topic_id, [[1]], {})), AppendBatch(other, view(batch(b"a")), 1)]
    )
    assert isinstance(committed.answers[1], UnknownTopicOrPartition)
    assert first_offsets(node.append(batch(b"a"), key=other)) == [0]


def test_refused_write_does_not_harm_the_others(node: Node) -> None:
    """A gap, an unknown partition and a topic that exists are refused; the rest of the group is stored."""
    committed = node.committer.commit(
        [
            AppendBatch(KEY, view(batch(b"a", producer_id=9)), 1),
            AppendBatch(KEY, view(batch(b"z", producer_id=9, base_sequence=5)), 1),
            AppendBatch(PartitionKey(TOPIC, 7), view(batch(b"z")), 1),
            CreateTopic(TopicCreated("t", UUID(int=3), [[1]], {})),
            AppendBatch(KEY, view(batch(b"b", producer_id=9, base_sequence=1)), 1),
        ]
    )
    assert first_offsets(committed) == [0, 1]
    assert [type(answer) for answer in committed.answers[1:4]] == [
        OutOfOrderSequence,
        UnknownTopicOrPartition,
        TopicAlreadyExists,
    ]
    assert node.offsets() == [0, 1]


def test_repeat_writes_nothing(node: Node) -> None:
    """A commit of nothing but repeats has the original offsets and no frame."""
    one = batch(b"a", b"b", producer_id=9)
    assert first_offsets(node.append(one)) == [0]
    frames = len(node.store.durable)
    assert first_offsets(node.append(one)) == [0]
    assert len(node.store.durable) == frames


def test_repeat_is_known_after_a_restart(node: Node) -> None:
    """The window of an idempotent producer survives, and so does the check of its next sequence."""
    one = batch(b"a", b"b", producer_id=9)
    node.append(batch(b"x"), one)
    node.close()
    node.reopen()
    assert first_offsets(node.append(one)) == [1]
    assert isinstance(node.append(batch(b"c", producer_id=9, base_sequence=3)).answers[0], OutOfOrderSequence)


def test_failed_append_changes_nothing(node: Node) -> None:
    """Nothing is acknowledged, no offset and no sequence is used up, and the next commit succeeds."""
    one = batch(b"a", producer_id=9)
    node.store.fail_appends = 1
    committed = node.append(one, batch(b"b"))
    assert all_refused(committed)
    assert committed.appended == []
    assert node.offsets() == []
    assert first_offsets(node.append(one)) == [0]
    assert node.offsets() == [0]


def test_failed_creation_may_be_tried_again(node: Node) -> None:
    """A topic whose frame did not become durable does not exist."""
    create = CreateTopic(TopicCreated("u", UUID(int=2), [[1]], {}))
    node.store.fail_appends = 1
    assert all_refused(node.committer.commit([create]))
    assert node.committer.commit([create]).answers == [create.topic]


def test_unrecorded_frame_is_replayed_before_the_next_commit(node: Node) -> None:
    """The frame was durable, so its offsets are taken: the next commit comes after it, not over it."""
    one = batch(b"a", producer_id=9)
    node.plane.fail_applies = 1
    assert all_refused(node.append(one))
    assert node.offsets() == []
    assert first_offsets(node.append(batch(b"b"))) == [1]
    assert node.offsets() == [0, 1]
    assert first_offsets(node.append(one)) == [0], "the retry must find what the failed commit left"


def test_a_replay_is_told_once(node: Node) -> None:
    """By the commit that made it: whatever there is may be new. The next one tells of itself again."""
    node.plane.fail_applies = 1
    node.append(batch(b"a"))
    told = node.committer.commit([AllotProducerIds(1001)])
    assert (told.topics_changed, told.appended) == (True, [KEY])
    after = node.committer.commit([AllotProducerIds(2001)])
    assert (after.topics_changed, after.appended) == (False, [])


def test_replay_that_fails_is_tried_again(node: Node) -> None:
    """While the control plane is down every commit is refused and none is numbered over another."""
    node.plane.fail_applies = 3
    for value in (b"a", b"b", b"c"):
        assert all_refused(node.append(batch(value)))
    assert first_offsets(node.append(batch(b"d"))) == [1]
    assert node.offsets() == [0, 1]


def test_unrecorded_frame_is_replayed_at_the_next_start(node: Node) -> None:
    """A crash between the two writes of a commit loses nothing."""
    node.append(batch(b"a"))
    node.plane.fail_applies = 1
    node.append(batch(b"b"))
    node.close()
    node.reopen()
    assert node.replayed == 1
    assert node.offsets() == [0, 1]


def test_frame_that_the_schema_forbids_is_refused_once(node: Node) -> None:
    """Not tried again for ever: the next commit goes on, and so does the next start."""
    poison = GroupOffsetCommitted(None, TOPIC, 0, 1, -1, "", NOW_MS)  # type: ignore[arg-type]
    assert all_refused(node.committer.commit([CommitGroupOffsets([poison])]))
    assert first_offsets(node.append(batch(b"a"))) == [0]
    node.close()
    node.reopen()
    assert node.offsets() == [0]


def test_nothing_is_recorded_before_it_is_durable(node: Node) -> None:
    """The control plane hears of a frame only when the store has made it durable."""
    applied: list[int] = []
    apply = node.plane.apply

    def watch(*arguments: Any, **options: Any) -> None:
        applied.append(len(node.store.durable))
        apply(*arguments, **options)

    node.plane.apply = watch  # type: ignore[method-assign]
    node.append(batch(b"a"))
    node.append(batch(b"b"))
    assert applied == [2, 3], "the topic's frame is the first"

"""Planning changes to topics: each on top of all before it, and nothing known before the commit."""

from collections.abc import Mapping
from uuid import UUID

import pytest

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan, Tail
from holdfast.agent.topic_plan import KnownTopic, KnownTopics, TopicPlan
from holdfast.agent.transactions.plan import KnownTransactions
from holdfast.control.memory import MemoryControlPlane
from holdfast.errors import (
    InvalidConfig,
    InvalidPartitions,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from holdfast.store.footer import (
    ExtentAppended,
    LogStartMoved,
    PartitionsAdded,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from tests.agent.batches import NOW_MS, batch, view

ID = UUID(int=1)
KEY = PartitionKey(ID, 0)


@pytest.fixture
def known() -> KnownTopics:
    """One topic of two partitions."""
    topics = KnownTopics()
    topics.put(ID, KnownTopic(name="t", partitions=2, configs={"a": "1"}))
    return topics


def commit_plan(known: KnownTopics) -> CommitPlan:
    tail = Tail(start=3, end=10, leader=1, leader_epoch=0, replicas=(1,), producers={})
    return CommitPlan(
        find_tail={KEY: tail}.__getitem__,
        topics=known,
        transactions=KnownTransactions(MemoryControlPlane()),
        in_sync=frozenset({1}),
        now_ms=NOW_MS,
    )


def test_deleted_topic_is_gone_for_what_follows(known: KnownTopics) -> None:
    """In the same commit nothing can be done to it any more, and its name is still taken."""
    plan = commit_plan(known)
    plan.topics.delete(ID)
    for refused in (
        lambda: plan.topics.delete(ID),
        lambda: plan.topics.configure(ID, dict),
        lambda: plan.topics.add_partitions(ID, 2, [[1]]),
        lambda: plan.append(KEY, view(batch(b"a")), leader=1, stamp_time=False, in_sync_min=1),
        lambda: plan.move_log_start(KEY, None),
    ):
        with pytest.raises(UnknownTopicOrPartition):
            refused()
    with pytest.raises(TopicAlreadyExists):
        plan.topics.create(TopicCreated("t", UUID(int=2), [[1]], {}))
    assert plan.seal()[1] == [TopicDeleted(ID)]
    assert known.names == {"t"}, "nothing is known before the commit"
    assert plan.topics.publish() == {ID: 2}
    assert known == KnownTopics()


def test_what_ends_comes_last(known: KnownTopics) -> None:
    """A batch of the same commit is appended before its log start moves past it and its topic goes."""
    plan = commit_plan(known)
    written = plan.append(KEY, view(batch(b"a", b"b")), leader=1, stamp_time=False, in_sync_min=1)
    assert plan.move_log_start(KEY, None) == written.last_offset + 1 == 12
    plan.topics.delete(ID)
    assert [type(change) for change in plan.seal()[1]] == [ExtentAppended, LogStartMoved, TopicDeleted]


def test_log_start_moves_forward_only(known: KnownTopics) -> None:
    """Back is no change, past the end is refused."""
    plan = commit_plan(known)
    assert plan.move_log_start(KEY, 2) == 3
    assert plan.move_log_start(KEY, 5) == 5
    assert plan.move_log_start(KEY, 4) == 5
    for offset in (11, -1):
        with pytest.raises(OffsetOutOfRange):
            plan.move_log_start(KEY, offset)
    assert plan.seal()[1] == [LogStartMoved(ID, 0, 5)]


def test_config_changes_build_on_each_other(known: KnownTopics) -> None:
    """Two in one commit both count; one that changes nothing, or refuses, leaves no trace."""
    plan = TopicPlan(known)
    plan.configure(ID, lambda present: {**present, "b": "2"})
    plan.configure(ID, lambda present: {**present, "c": "3"})
    plan.configure(ID, dict)

    def refuse(present: Mapping[str, str]) -> dict[str, str]:
        raise InvalidConfig("no")

    with pytest.raises(InvalidConfig):
        plan.configure(ID, refuse)
    everything = {"a": "1", "b": "2", "c": "3"}
    assert plan.changes == [TopicConfigured(ID, {"a": "1", "b": "2"}), TopicConfigured(ID, everything)]
    plan.publish()
    assert known.by_id[ID].configs == everything


def test_partitions_are_added_once(known: KnownTopics) -> None:
    """Who planned on another number of partitions is refused."""
    plan = TopicPlan(known)
    plan.add_partitions(ID, 2, [[1], [1]])
    with pytest.raises(InvalidPartitions):
        plan.add_partitions(ID, 2, [[1]])
    assert plan.changes == [PartitionsAdded(ID, 2, [[1], [1]])]
    plan.publish()
    assert known.by_id[ID].partitions == 4

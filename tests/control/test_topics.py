"""Topics in a control plane: made, changed, deleted and made again; trimming takes nothing that is seen."""

from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane, LogBounds, Partition
from holdfast.errors import CommitRefused, UnknownTopicOrPartition
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupDeleted,
    GroupOffsetCommitted,
    LeaderMoved,
    LogStartMoved,
    PartitionsAdded,
    ProducerAdvanced,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from tests.control.frames import Apply

TOPIC, LATER = UUID(int=1), UUID(int=2)


@pytest.fixture
def topic(apply: Apply) -> None:
    """One topic with ten extents of ten offsets, two producers and a position: 14 rows."""
    apply(TopicCreated("t", TOPIC, [[1]], {}))
    for first in range(0, 100, 10):
        apply(ExtentAppended(TOPIC, 0, first, first + 9, [1], 50, first, 0))
    apply(
        *(ProducerAdvanced(TOPIC, 0, producer, 0, 0, 9, 90, 99, -1) for producer in (7, 8)),
        GroupOffsetCommitted("g", TOPIC, 0, 5, -1, "", 1),
    )


def _trim_all(plane: ControlPlane, rows_max: int) -> list[int]:
    steps = []
    while trimmed := plane.trim(rows_max):
        steps.append(trimmed)
    return steps


def test_topics_are_listed(plane: ControlPlane, apply: Apply) -> None:
    """By name, with partitions and configs."""
    apply(TopicCreated("orders", TOPIC, [[1, 2], [2, 1]], {"max.message.bytes": "100"}))
    apply(TopicCreated("alpha", LATER, [[1]], {}))
    alpha, orders = plane.list_topics()
    assert (alpha.name, alpha.topic_id) == ("alpha", LATER)
    assert alpha.partitions == (Partition(replicas=(1,), leader=1, leader_epoch=0),)
    assert (orders.name, orders.configs) == ("orders", {"max.message.bytes": "100"})
    assert [(partition.replicas, partition.leader) for partition in orders.partitions] == [
        ((1, 2), 1),
        ((2, 1), 2),
    ]
    assert plane.find_partition(TOPIC, 1) == orders.partitions[1]
    apply(LeaderMoved(TOPIC, 1, 1, 1))
    assert plane.list_topics()[1].partitions[1] == plane.find_partition(TOPIC, 1)


def test_what_was_listed_is_the_readers_own(plane: ControlPlane, apply: Apply) -> None:
    """Whoever changes an answer changes nobody else's."""
    configs = {"retention.ms": "1"}
    apply(TopicCreated("t", TOPIC, [[1]], configs), ProducerAdvanced(TOPIC, 0, 7, 0, 0, 9, 0, 9, -1))
    configs.clear()
    plane.list_topics()[0].configs.clear()
    plane.find_producers(TOPIC, 0).clear()
    assert plane.list_topics()[0].configs == {"retention.ms": "1"}
    assert list(plane.find_producers(TOPIC, 0)) == [7]


@pytest.mark.usefixtures("topic")
def test_configs_are_replaced(plane: ControlPlane, apply: Apply) -> None:
    """All that were set, also none."""
    apply(TopicConfigured(TOPIC, {"retention.ms": "1", "retention.bytes": "2"}))
    apply(TopicConfigured(TOPIC, {"retention.ms": "3"}))
    assert plane.list_topics()[0].configs == {"retention.ms": "3"}
    apply(TopicConfigured(TOPIC, {}))
    assert plane.list_topics()[0].configs == {}


@pytest.mark.usefixtures("topic")
def test_partitions_are_added_after_those_there_are(plane: ControlPlane, apply: Apply) -> None:
    """They begin empty, at epoch 0; the others go on."""
    apply(PartitionsAdded(TOPIC, 1, [[2, 1], [1, 2]]), ExtentAppended(TOPIC, 2, 0, 4, [1], 50, 1, 0))
    assert [partition.leader for partition in plane.list_topics()[0].partitions] == [1, 2, 1]
    ends = [plane.find_bounds(TOPIC, partition).end for partition in range(3)]
    assert ends == [100, 0, 5]
    assert plane.find_epoch_end(TOPIC, 2, 0) == (0, 5)
    apply(PartitionsAdded(TOPIC, 3, [[1]]))
    assert len(plane.list_topics()[0].partitions) == 4


@pytest.mark.usefixtures("topic")
def test_log_start_never_moves_back(plane: ControlPlane, apply: Apply) -> None:
    """An earlier one is applied without effect; the end is as far as it goes."""
    apply(LogStartMoved(TOPIC, 0, 35))
    apply(LogStartMoved(TOPIC, 0, 20))
    assert plane.find_bounds(TOPIC, 0).start == 35
    apply(LogStartMoved(TOPIC, 0, 100))
    assert plane.find_bounds(TOPIC, 0) == LogBounds(start=100, end=100, last_stable=100, leader_epoch=0)
    assert plane.find_size(TOPIC, 0, 1) == 0


@pytest.mark.usefixtures("topic")
def test_trimming_takes_what_lies_below_the_log_start_in_steps(plane: ControlPlane, apply: Apply) -> None:
    """Whole extents only, as many as a step may; what a reader finds is the same before and after."""
    assert plane.trim(100) == 0
    apply(LogStartMoved(TOPIC, 0, 35))
    before = plane.find_extents(TOPIC, 0, 35, 1 << 30)
    assert before[1][0].first == 30
    assert plane.find_size(TOPIC, 0, 1) == 7 * 50
    assert [plane.trim(2) for _ in range(3)] == [2, 1, 0]
    assert plane.find_extents(TOPIC, 0, 35, 1 << 30) == before
    assert plane.find_size(TOPIC, 0, 1) == 7 * 50
    apply(ExtentAppended(TOPIC, 0, 100, 109, [1], 50, 1, 0), LogStartMoved(TOPIC, 0, 40))
    assert plane.trim(100) == 1


@pytest.mark.usefixtures("topic")
def test_deleted_topic_is_trimmed_to_the_last_row(plane: ControlPlane, apply: Apply) -> None:
    """Out of sight at once; its rows go in bounded steps, and those of a topic made meanwhile stay."""
    apply(TopicDeleted(TOPIC))
    apply(TopicCreated("t", LATER, [[1]], {}), ExtentAppended(LATER, 0, 0, 4, [1], 50, 1, 0))
    with pytest.raises(UnknownTopicOrPartition):
        plane.find_bounds(TOPIC, 0)
    assert plane.list_groups() == []
    assert _trim_all(plane, 3) == [3, 3, 3, 3, 2]
    assert plane.find_bounds(LATER, 0).end == 5
    assert len(plane.find_extents(LATER, 0, 0, 100)[1]) == 1


@pytest.mark.usefixtures("topic")
def test_what_is_trimmed_before_and_what_goes_with_its_group_is_not_trimmed_again(
    plane: ControlPlane, apply: Apply
) -> None:
    """Every row goes once."""
    apply(GroupOffsetCommitted("h", TOPIC, 0, 5, -1, "", 1), LogStartMoved(TOPIC, 0, 35))
    assert plane.trim(100) == 3
    apply(TopicDeleted(TOPIC), GroupDeleted("h"))
    assert _trim_all(plane, 100) == [7 + 1 + 2 + 1]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("topic_id", [LATER, TOPIC])
def test_topic_made_again_has_nothing_of_the_old_one(
    plane: ControlPlane, apply: Apply, topic_id: UUID
) -> None:
    """Trimmed or not: the rows that linger are never the next topic's, whatever its id."""
    apply(LeaderMoved(TOPIC, 0, 2, 1), TopicConfigured(TOPIC, {"retention.ms": "1"}))
    apply(TopicDeleted(TOPIC))
    apply(TopicCreated("t", topic_id, [[1]], {}))
    for _ in ("before trimming", "after it"):
        (topic,) = plane.list_topics()
        assert (topic.configs, topic.partitions[0].leader_epoch) == ({}, 0)
        assert plane.find_extents(topic_id, 0, 0, 100) == (
            LogBounds(start=0, end=0, last_stable=0, leader_epoch=0),
            [],
        )
        assert plane.find_size(topic_id, 0, 1) == 0
        assert plane.find_extent_of_max_time(topic_id, 0, 1, 0) is None
        assert plane.find_epoch_end(topic_id, 0, 9) == (0, 0)
        assert plane.find_producers(topic_id, 0) == {}
        assert plane.find_group_offsets("g") == []
        assert plane.list_groups() == []
        _trim_all(plane, 100)
    apply(
        ExtentAppended(topic_id, 0, 0, 9, [1], 50, 1, 0), ProducerAdvanced(topic_id, 0, 7, 0, 4, 4, 0, 0, -1)
    )
    assert plane.find_bounds(topic_id, 0).end == 10


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    "change",
    [
        TopicDeleted(TOPIC),
        TopicConfigured(TOPIC, {}),
        PartitionsAdded(TOPIC, 0, [[1]]),
        PartitionsAdded(TOPIC, 1, [[1]]),
        LogStartMoved(TOPIC, 0, 100),
        ExtentAppended(TOPIC, 0, 100, 100, [1], 50, 1, 0),
        LeaderMoved(TOPIC, 0, 2, 1),
        GroupOffsetCommitted("g", TOPIC, 0, 5, -1, "", 1),
        ProducerAdvanced(TOPIC, 0, 9, 0, 0, 0, 100, 100, -1),
    ],
    ids=lambda change: change.kind,
)
def test_deleted_topic_takes_no_more_changes(plane: ControlPlane, apply: Apply, change: Change) -> None:
    """Not even those that no partition is asked about; rows of it would stay for ever."""
    apply(TopicDeleted(TOPIC))
    assert plane.find_producers(TOPIC, 0) == {}
    with pytest.raises(CommitRefused, match="does not exist"):
        apply(change)
    assert _trim_all(plane, 100) == [14]

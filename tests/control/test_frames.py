"""Frames in a control plane: every one once, all of it or nothing, and only what still fits; and the stores."""

from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupDeleted,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupSaved,
    LeaderMoved,
    LogStartMoved,
    PartitionsAdded,
    ProducerAdvanced,
    ProducerIdsAllotted,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from holdfast.store.replica_changes import StoreLeft
from holdfast.store.store import Checkpoint, Place
from tests.control.frames import Apply, stored

TOPIC, OTHER, NOWHERE = UUID(int=1), UUID(int=2), UUID(int=3)
ORDERS = TopicCreated("orders", TOPIC, [[1, 2], [2, 1]], {"max.message.bytes": "100"})
FIRST = ExtentAppended(TOPIC, 0, 0, 4, [1], 100, 5, 0)
ADVANCED = ProducerAdvanced(TOPIC, 0, 9, 1, 0, 4, 0, 4, -1)
SAVED = GroupSaved("g", 3, "consumer", None, None, (), 5)


def test_an_empty_plane_has_applied_nothing(plane: ControlPlane) -> None:
    """No frame has number 0."""
    assert plane.find_applied() == 0
    assert plane.find_checkpoint(1) is None
    assert plane.find_checkpoint(7) is None
    assert plane.list_topics() == []
    assert plane.list_groups() == []
    assert plane.find_next_producer_id() == 1
    assert plane.trim(10) == 0


def test_a_frame_is_applied_once(plane: ControlPlane) -> None:
    """A replay that begins too early changes nothing, not even which stores are in sync."""
    plane.apply(stored(1, 1, 2), [ORDERS])
    plane.apply(stored(2), [FIRST])
    plane.apply(stored(2, 1, 2), [FIRST], lost=[2])
    plane.apply(stored(1, 1, 2), [ORDERS])
    assert plane.find_bounds(TOPIC, 0).end == 5
    assert plane.find_applied() == 2
    assert plane.find_checkpoint(1) == Checkpoint(frame=2, end=Place(journal=1, position=2999))
    assert plane.find_checkpoint(2) == Checkpoint(frame=1, end=Place(journal=2, position=1999))
    assert plane.find_in_sync() == {1, 2}


def test_a_frame_on_a_store_that_is_not_known_is_applied(plane: ControlPlane) -> None:
    """The store stays unknown: only whoever adds it says that it is one of ours."""
    plane.apply(stored(1, 1, 7), [ORDERS, StoreLeft(8)])
    assert plane.find_checkpoint(7) is None
    assert plane.find_in_sync() == {1, 2}
    plane.add_store(8)
    assert plane.find_in_sync() == {1, 2, 8}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(ExtentAppended(TOPIC, 0, 6, 9, [1], 100, 5, 0), id="a hole before it"),
        pytest.param(FIRST, id="offsets that are taken"),
        pytest.param(ExtentAppended(TOPIC, 0, 5, 9, [1], 100, 5, 1), id="a later leader epoch"),
        pytest.param(ExtentAppended(TOPIC, 1, 0, 4, [1], 100, 5, 0), id="an earlier leader epoch"),
        pytest.param(ExtentAppended(TOPIC, 2, 0, 4, [1], 100, 5, 0), id="records of an unknown partition"),
        pytest.param(ExtentAppended(NOWHERE, 0, 0, 4, [1], 100, 5, 0), id="records of an unknown topic"),
        pytest.param(TopicCreated("orders", NOWHERE, [[1]], {}), id="a name that is taken"),
        pytest.param(TopicCreated("another", TOPIC, [[1]], {}), id="a topic id that is taken"),
        pytest.param(TopicDeleted(NOWHERE), id="an unknown topic deleted"),
        pytest.param(TopicConfigured(NOWHERE, {}), id="an unknown topic configured"),
        pytest.param(PartitionsAdded(NOWHERE, 0, [[1]]), id="partitions of an unknown topic"),
        pytest.param(PartitionsAdded(TOPIC, 1, [[1]]), id="partitions that are there"),
        pytest.param(PartitionsAdded(TOPIC, 3, [[1]]), id="partitions beyond the next"),
        pytest.param(LogStartMoved(TOPIC, 0, 6), id="a start past the end"),
        pytest.param(LogStartMoved(TOPIC, 2, 0), id="the start of an unknown partition"),
        pytest.param(LogStartMoved(NOWHERE, 0, 0), id="the start of an unknown topic"),
        pytest.param(LeaderMoved(TOPIC, 1, 2, 1), id="an epoch that was"),
        pytest.param(LeaderMoved(TOPIC, 1, 2, 3), id="an epoch after the next"),
        pytest.param(LeaderMoved(TOPIC, 2, 2, 1), id="the leader of an unknown partition"),
        pytest.param(LeaderMoved(NOWHERE, 0, 2, 1), id="the leader of an unknown topic"),
        pytest.param(ADVANCED, id="a repeated sequence"),
        pytest.param(ProducerAdvanced(NOWHERE, 0, 9, 1, 0, 4, 0, 4, -1), id="a producer in no topic"),
        pytest.param(GroupOffsetCommitted("g", NOWHERE, 0, 1, 0, None, 0), id="a position in no topic"),
        pytest.param(GroupSaved("g", 2, "consumer", None, None, (), 5), id="an earlier generation"),
    ],
)
def test_a_change_that_does_not_fit_refuses_the_whole_frame(
    plane: ControlPlane, apply: Apply, change: Change
) -> None:
    """Nothing of the frame has an effect, be it before or after the change, and a replay does not try it again."""
    apply(ORDERS, FIRST, ADVANCED, LeaderMoved(TOPIC, 1, 2, 1), SAVED, stores=(1, 2))
    apply(GroupOffsetCommitted("g", TOPIC, 0, 1, 0, None, 0))
    before = _all_answers(plane)
    harmless: list[Change] = [
        TopicCreated("other", OTHER, [[1]], {}),
        TopicConfigured(TOPIC, {}),
        LogStartMoved(TOPIC, 0, 5),
        LogStartMoved(TOPIC, 1, 0),
        ProducerAdvanced(TOPIC, 0, 8, 0, 0, 4, 0, 4, -1),
        ProducerIdsAllotted(1001),
        GroupOffsetCommitted("h", TOPIC, 0, 1, 0, None, 0),
        GroupOffsetDeleted("g", TOPIC, 0),
        StoreLeft(2),
    ]
    with pytest.raises(CommitRefused):
        apply(*harmless, change, GroupDeleted("g"))
    assert _all_answers(plane) == before
    assert plane.find_applied() == 3
    assert plane.find_checkpoint(1) == Checkpoint(frame=3, end=Place(journal=1, position=3999))
    plane.apply(stored(3), harmless)
    assert _all_answers(plane) == before, "the frame counts as applied"
    apply(*harmless, GroupDeleted("g"))
    assert plane.find_bounds(TOPIC, 0).start == 5
    assert plane.find_bounds(OTHER, 0).end == 0


def _all_answers(plane: ControlPlane) -> list[object]:
    return [
        plane.list_topics(),
        [plane.find_extents(TOPIC, partition, 0, 1000) for partition in (0, 1)],
        plane.find_producers(TOPIC, 0),
        plane.find_producers(OTHER, 0),
        plane.find_next_producer_id(),
        plane.list_groups(),
        [(plane.find_group(group), plane.find_group_offsets(group)) for group in ("g", "h")],
        plane.find_in_sync(),
    ]


def test_a_topic_of_a_refused_frame_was_never_there(plane: ControlPlane, apply: Apply) -> None:
    """Later frames find neither what it would have made nor what it would have deleted."""
    apply(ORDERS)
    with pytest.raises(CommitRefused):
        apply(TopicCreated("other", OTHER, [[1]], {}), TopicDeleted(TOPIC), TopicDeleted(TOPIC))
    with pytest.raises(CommitRefused, match="does not exist"):
        apply(GroupOffsetCommitted("g", OTHER, 0, 1, 0, None, 0))
    apply(FIRST, TopicCreated("other", OTHER, [[1]], {}))
    assert plane.find_bounds(TOPIC, 0).end == 5
    assert plane.trim(100) == 0


def test_changes_of_a_frame_see_those_before_them(plane: ControlPlane, apply: Apply) -> None:
    """A topic and its first records fit in one frame; so does its end, and the next topic of that name."""
    apply(ORDERS, FIRST, LogStartMoved(TOPIC, 0, 5), TopicDeleted(TOPIC))
    assert plane.list_topics() == []
    apply(ORDERS, TopicDeleted(TOPIC), TopicCreated("orders", OTHER, [[1]], {}))
    assert [topic.topic_id for topic in plane.list_topics()] == [OTHER]
    with pytest.raises(CommitRefused, match="does not exist"):
        apply(TopicDeleted(OTHER), ExtentAppended(OTHER, 0, 0, 4, [1], 100, 5, 0))
    assert plane.find_bounds(OTHER, 0).end == 0


def test_a_lost_store_stays_lost(plane: ControlPlane, apply: Apply) -> None:
    """Be it by a failed append, by a footer or by name; adding it again does not bring it back."""
    plane.add_store(3)
    assert plane.find_in_sync() == {1, 2, 3}
    apply(ORDERS, lost=(2,))
    assert plane.find_in_sync() == {1, 3}
    apply(StoreLeft(3))
    plane.add_store(2)
    assert plane.find_in_sync() == {1}
    plane.add_store(4)
    plane.drop_stores([4, 5])
    assert plane.find_in_sync() == {1}
    plane.add_store(5)
    assert plane.find_in_sync() == {1, 5}, "one that nobody knew could not be lost"


def test_a_store_is_lost_by_a_refused_frame_too(plane: ControlPlane, apply: Apply) -> None:
    """The refusal is about the changes; that the store lacks the frame is true all the same."""
    apply(ORDERS, stores=(1, 2))
    with pytest.raises(CommitRefused):
        apply(TopicDeleted(NOWHERE), lost=(2,))
    assert plane.find_in_sync() == {1}
    assert plane.find_checkpoint(2) == Checkpoint(frame=1, end=Place(journal=2, position=1999))


def test_a_store_that_is_added_again_keeps_its_checkpoint(plane: ControlPlane, apply: Apply) -> None:
    """Every start of a process adds its stores."""
    apply(ORDERS)
    plane.add_store(1)
    assert plane.find_checkpoint(1) == Checkpoint(frame=1, end=Place(journal=1, position=1999))

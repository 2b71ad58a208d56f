"""Groups in a control plane: positions, saved generations, listed, deleted, never taken back."""

from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane, GroupOffset, ListedGroup
from holdfast.errors import CommitRefused
from holdfast.store.footer import (
    GroupDeleted,
    GroupMember,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupProtocol,
    GroupSaved,
    TopicCreated,
    TopicDeleted,
)
from tests.control.frames import Apply

TOPIC, ALPHA, NOWHERE = UUID(int=1), UUID(int=2), UUID(int=3)
MEMBER = GroupMember("m", "i", "c", "/127.0.0.1", 10, 20, (GroupProtocol("range", b"\0\xff"),), b"all")


@pytest.fixture
def apply(apply: Apply) -> Apply:
    """Frame 1 has made a topic of two partitions."""
    apply(TopicCreated("orders", TOPIC, [[1], [1]], {}))
    return apply


def _saved(generation: int, *members: GroupMember) -> GroupSaved:
    leader = members[0].member_id if members else None
    return GroupSaved("g", generation, "consumer", "range" if members else None, leader, members, 5)


def _position(group: str, topic_id: UUID = TOPIC, partition: int = 0) -> GroupOffsetCommitted:
    return GroupOffsetCommitted(group, topic_id, partition, 5, -1, "", 1)


def test_positions_are_replaced(plane: ControlPlane, apply: Apply) -> None:
    """The newest one counts, be it lower; metadata comes back as it was sent."""
    apply(GroupOffsetCommitted("g", TOPIC, 1, 5, 0, "first", 1))
    apply(GroupOffsetCommitted("g", TOPIC, 1, 3, 2, None, 2))
    expected = GroupOffset(
        topic_id=TOPIC, topic="orders", partition=1, offset=3, leader_epoch=2, metadata=None, committed_ms=2
    )
    assert plane.find_group_offsets("g") == [expected]
    assert plane.find_group_offsets("another") == []


def test_positions_come_by_topic_name_and_partition(plane: ControlPlane, apply: Apply) -> None:
    """Whatever the order in which they were committed."""
    apply(TopicCreated("alpha", ALPHA, [[1], [1]], {}))
    apply(
        _position("g", TOPIC, 1), _position("g", ALPHA, 1), _position("g", TOPIC, 0), _position("g", ALPHA, 0)
    )
    found = [(position.topic_id, position.partition) for position in plane.find_group_offsets("g")]
    assert found == [(ALPHA, 0), (ALPHA, 1), (TOPIC, 0), (TOPIC, 1)]


def test_the_newest_generation_is_found(plane: ControlPlane, apply: Apply) -> None:
    """With all of its members; the same generation may be saved again."""
    assert plane.find_group("g") is None
    apply(_saved(1))
    apply(_saved(2, MEMBER))
    assert plane.find_group("g") == _saved(2, MEMBER)
    apply(_saved(2, MEMBER._replace(member_id="renamed")))
    assert plane.find_group("g") == _saved(2, MEMBER._replace(member_id="renamed"))
    assert plane.find_group("h") is None


def test_a_group_never_goes_back(plane: ControlPlane, apply: Apply) -> None:
    """Whoever would save an older generation is not its coordinator any more."""
    apply(_saved(3, MEMBER))
    with pytest.raises(CommitRefused, match="past generation 2"):
        apply(_saved(2))
    assert plane.find_group("g") == _saved(3, MEMBER)
    apply(GroupDeleted("g"))
    apply(_saved(1))
    assert plane.find_group("g") == _saved(1), "one that was deleted begins anew"


def test_groups_are_listed_once(plane: ControlPlane, apply: Apply) -> None:
    """Saved ones, and those that only have positions."""
    apply(_saved(1, MEMBER), _position("g"))
    apply(_position("a"), _position("a", partition=1))
    assert plane.list_groups() == [
        ListedGroup(group="a", protocol_type="", members=0),
        ListedGroup(group="g", protocol_type="consumer", members=1),
    ]
    apply(_saved(2))
    assert plane.list_groups()[1] == ListedGroup(group="g", protocol_type="consumer", members=0)


def test_a_deleted_group_takes_its_positions_along(plane: ControlPlane, apply: Apply) -> None:
    """And nobody else's; one that is not there is no reason to refuse a frame."""
    apply(_position("g"), _position("h"))
    apply(_saved(1, MEMBER), GroupDeleted("g"), GroupDeleted("unheard-of"))
    assert plane.find_group("g") is None
    assert plane.find_group_offsets("g") == []
    assert [listed.group for listed in plane.list_groups()] == ["h"]
    assert len(plane.find_group_offsets("h")) == 1


def test_positions_are_deleted_one_by_one(plane: ControlPlane, apply: Apply) -> None:
    """One that is not there is no reason to refuse a frame."""
    apply(*(_position(group, partition=partition) for group in "gh" for partition in (0, 1)))
    apply(
        GroupOffsetDeleted("g", TOPIC, 0),
        GroupOffsetDeleted("g", NOWHERE, 0),
        GroupOffsetDeleted("g", TOPIC, 7),
    )
    assert [position.partition for position in plane.find_group_offsets("g")] == [1]
    assert [position.partition for position in plane.find_group_offsets("h")] == [0, 1]


def test_a_saved_group_outlives_the_topics_that_it_reads(plane: ControlPlane, apply: Apply) -> None:
    """Its positions do not, and a group of nothing else is gone with them."""
    apply(_saved(1, MEMBER), _position("g"), _position("h"))
    apply(TopicDeleted(TOPIC))
    assert [listed.group for listed in plane.list_groups()] == ["g"]
    assert plane.find_group_offsets("g") == []


def test_stale_groups_are_found(plane: ControlPlane, apply: Apply) -> None:
    """By a position that is old enough, in a topic that is still there; or by having nothing, not even members."""

    def committed(group: str, time_ms: int, partition: int = 0) -> GroupOffsetCommitted:
        return GroupOffsetCommitted(group, TOPIC, partition, 0, -1, "", time_ms)

    apply(committed("a", 10), committed("a", 30, 1), committed("b", 11), committed("c", 10))
    apply(_saved(1), committed("g", 50))
    assert plane.find_stale_groups(9) == []
    assert plane.find_stale_groups(10) == ["a", "c"]
    assert plane.find_stale_groups(50) == ["a", "b", "c", "g"]
    apply(GroupOffsetDeleted("g", TOPIC, 0))
    assert plane.find_stale_groups(9) == ["g"]
    apply(_saved(2, MEMBER))
    assert plane.find_stale_groups(9) == []
    apply(_saved(3), committed("g", 50), TopicDeleted(TOPIC))
    assert plane.find_stale_groups(50) == ["g"]

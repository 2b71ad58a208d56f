"""Groups in the SQLite control plane: saved, listed, deleted, never taken back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from holdfast.control.plane import ListedGroup
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import CommitRefused
from holdfast.store.footer import (
    Change,
    GroupDeleted,
    GroupMember,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupProtocol,
    GroupSaved,
    TopicCreated,
)
from holdfast.store.store import Place, StoredFrame

TOPIC = UUID("00000000-0000-4000-8000-000000000001")
MEMBER = GroupMember("m", "i", "c", "/127.0.0.1", 10, 20, (GroupProtocol("range", b"\0\xff"),), b"all")

Apply = Callable[..., None]


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[SqliteControlPlane]:
    """A fresh control plane."""
    plane = SqliteControlPlane(tmp_path / "control.db")
    plane.add_store(1)
    yield plane
    plane.close()


@pytest.fixture
def apply(plane: SqliteControlPlane) -> Apply:
    """Applies changes as the next frame; the first one has made a topic."""
    number = 0

    def apply(*changes: Change) -> None:
        nonlocal number
        number += 1
        body, end = Place(journal=1, position=100 * number), Place(journal=1, position=100 * number + 99)
        plane.apply([StoredFrame(store=1, number=number, body=body, footer=b"", end=end)], list(changes))

    apply(TopicCreated("orders", TOPIC, [[1], [1]], {}))
    return apply


def _saved(generation: int, *members: GroupMember) -> GroupSaved:
    leader = members[0].member_id if members else None
    return GroupSaved("g", generation, "consumer", "range" if members else None, leader, members, 5)


def test_the_newest_generation_is_found(plane: SqliteControlPlane, apply: Apply, tmp_path: Path) -> None:
    """With all of its members, also by a process that comes later."""
    assert plane.find_group("g") is None
    apply(_saved(1))
    apply(_saved(2, MEMBER))
    assert plane.find_group("g") == _saved(2, MEMBER)
    apply(_saved(2, MEMBER._replace(member_id="renamed")))
    later = SqliteControlPlane(tmp_path / "control.db")
    assert later.find_group("g") == _saved(2, MEMBER._replace(member_id="renamed"))
    later.close()


def test_a_group_never_goes_back(plane: SqliteControlPlane, apply: Apply) -> None:
    """Whoever would save an older generation is not its coordinator any more."""
    apply(_saved(3, MEMBER))
    with pytest.raises(CommitRefused, match="past generation 2"):
        apply(_saved(2))
    assert plane.find_group("g") == _saved(3, MEMBER)
    apply(GroupDeleted("g"))
    apply(_saved(1))
    assert plane.find_group("g") == _saved(1), "one that was deleted begins anew"


def test_groups_are_listed_once(plane: SqliteControlPlane, apply: Apply) -> None:
    """Saved ones, and those that only have positions."""
    apply(_saved(1, MEMBER), GroupOffsetCommitted("g", TOPIC, 0, 5, -1, "", 1))
    apply(
        GroupOffsetCommitted("a", TOPIC, 0, 5, -1, "", 1), GroupOffsetCommitted("a", TOPIC, 1, 5, -1, "", 1)
    )
    assert plane.list_groups() == [
        ListedGroup(group="a", protocol_type="", members=0),
        ListedGroup(group="g", protocol_type="consumer", members=1),
    ]


def test_a_deleted_group_takes_its_positions_along(plane: SqliteControlPlane, apply: Apply) -> None:
    """And nobody else's."""
    for group in ("g", "h"):
        apply(GroupOffsetCommitted(group, TOPIC, 0, 5, -1, "", 1))
    apply(_saved(1, MEMBER), GroupDeleted("g"))
    assert plane.find_group("g") is None
    assert plane.find_group_offsets("g") == []
    assert [listed.group for listed in plane.list_groups()] == ["h"]


def test_positions_are_deleted_one_by_one(plane: SqliteControlPlane, apply: Apply) -> None:
    """One that is not there is no reason to refuse a frame."""
    apply(*(GroupOffsetCommitted("g", TOPIC, partition, 5, -1, "", 1) for partition in (0, 1)))
    apply(GroupOffsetDeleted("g", TOPIC, 0), GroupOffsetDeleted("g", uuid4(), 0))
    assert [position.partition for position in plane.find_group_offsets("g")] == [1]

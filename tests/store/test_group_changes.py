"""Footers that speak of groups: members and assignments survive as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptFrame
from holdfast.store import footer
from holdfast.store.footer import (
    Change,
    GroupDeleted,
    GroupMember,
    GroupOffsetDeleted,
    GroupProtocol,
    GroupSaved,
)

INTS = st.integers(-(2**31), 2**31 - 1)
PROTOCOLS = st.lists(st.builds(GroupProtocol, st.text(), st.binary()), max_size=3).map(tuple)
MEMBERS = st.builds(
    GroupMember,
    st.text(),
    st.none() | st.text(),
    st.text(),
    st.text(),
    INTS,
    INTS,
    PROTOCOLS,
    st.binary(),
)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(
        GroupSaved,
        st.text(),
        INTS,
        st.text(),
        st.none() | st.text(),
        st.none() | st.text(),
        st.lists(MEMBERS, max_size=3).map(tuple),
        INTS,
    ),
    st.builds(GroupDeleted, st.text()),
    st.builds(GroupOffsetDeleted, st.text(), st.uuids(), INTS),
)


@given(st.lists(CHANGES, max_size=3))
def test_changes_of_groups_are_read_back(changes: list[Change]) -> None:
    """Encode and decode are inverse, bytes that are no text included."""
    assert footer.decode(footer.encode(changes)) == changes


def test_the_encoding_of_groups_is_the_documented_one() -> None:
    """docs/formats.md is a promise to data that already lies on disks."""
    member = GroupMember("m", None, "c", "/127.0.0.1", 10, 20, (GroupProtocol("range", b"\0\xff"),), b"all")
    changes: list[Change] = [
        GroupSaved("readers", 3, "consumer", "range", "m", (member,), 1700000000001),
        GroupDeleted("readers"),
    ]
    assert footer.encode(changes) == (
        b'[["group","readers",3,"consumer","range","m",'
        b'[["m",null,"c","/127.0.0.1",10,20,[["range","AP8="]],"YWxs"]],1700000000001],'
        b'["group-deleted","readers"]]'
    )


@pytest.mark.parametrize(
    "members",
    [
        b"7",
        b"[7]",
        b"[[]]",
        b'[["m",null,"c","h",1,2,[["range","AP8="]],7]]',
        b'[["m",null,"c","h",1,2,[7],""]]',
    ],
)
def test_other_members_are_corrupt(members: bytes) -> None:
    """One error type, whatever is wrong."""
    with pytest.raises(CorruptFrame):
        footer.decode(b'[["group","g",3,"consumer","range","m",' + members + b",1]]")

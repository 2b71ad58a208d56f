"""Footers: every change survives, nothing else is understood."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptFrame
from holdfast.store import footer
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupOffsetCommitted,
    GroupOffsetStaged,
    LeaderMoved,
    ProducerAdvanced,
    ProducerIdsAllotted,
    TopicCreated,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
)
from holdfast.store.replica_changes import (
    AddedSegment,
    CarriedExtent,
    ExtentsCarried,
    Granted,
    HeldTo,
    KeeperLeased,
    ReplicasAssigned,
    SegmentsPublished,
    StoreAdded,
    StoreFenced,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)

INTS = st.integers(-(2**63), 2**63 - 1)
STORES = st.lists(st.integers(1, 7), max_size=3)
HELD = st.builds(HeldTo, st.uuids(), INTS, INTS)
SEGMENT = st.builds(AddedSegment, INTS, INTS, st.text(), *[INTS] * 6)
CARRIED = st.builds(CarriedExtent, st.uuids(), INTS, INTS, INTS)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(
        TopicCreated,
        st.text(),
        st.uuids(),
        st.lists(STORES),
        st.dictionaries(st.text(), st.text(), max_size=3),
    ),
    st.builds(ExtentAppended, st.uuids(), INTS, INTS, INTS, STORES, *[INTS] * 5),
    st.builds(TransactionalIdSet, st.text(), *[INTS] * 5, st.text(), *[INTS] * 5),
    st.builds(TransactionBegun, INTS, INTS),
    st.builds(TransactionEnded, INTS, st.booleans(), INTS),
    st.builds(GroupOffsetStaged, INTS, st.text(), st.uuids(), INTS, INTS, INTS, st.none() | st.text()),
    st.builds(ProducerAdvanced, st.uuids(), *[INTS] * 8),
    st.builds(ProducerIdsAllotted, INTS),
    st.builds(LeaderMoved, st.uuids(), INTS, INTS, INTS),
    st.builds(StoreLeft, INTS, st.none() | st.lists(HELD, max_size=2).map(tuple)),
    st.builds(KeeperLeased, INTS, INTS),
    st.builds(
        SegmentsPublished,
        st.uuids(),
        *[INTS] * 6,
        st.lists(st.text(), max_size=2).map(tuple),
        st.lists(SEGMENT, max_size=2).map(tuple),
        st.builds(Granted, INTS, INTS, INTS),
        *[INTS] * 3,
    ),
    st.builds(ExtentsCarried, *[INTS] * 4, st.lists(CARRIED, max_size=2).map(tuple)),
    st.builds(StoreJoining, INTS, INTS),
    st.builds(StoreJoined, INTS),
    st.builds(StoreFenced, INTS, INTS),
    st.builds(StoreRebuilt, INTS, INTS),
    st.builds(StoreAdded, INTS),
    st.builds(ReplicasAssigned, st.uuids(), INTS, STORES.map(tuple), INTS, *[STORES.map(tuple)] * 2),
    st.builds(GroupOffsetCommitted, st.text(), st.uuids(), INTS, INTS, INTS, st.none() | st.text(), INTS),
)


@given(st.lists(CHANGES, max_size=5))
def test_changes_are_read_back(changes: list[Change]) -> None:
    """Encode and decode are inverse."""
    assert footer.decode(footer.encode(changes)) == changes


def test_the_encoding_is_the_documented_one() -> None:
    """docs/formats.md is a promise to data that already lies on disks."""
    topic = UUID("00000000-0000-4000-8000-000000000001")
    changes: list[Change] = [
        TopicCreated("orders", topic, [[1, 2], [2, 1]], {"cleanup.policy": "delete"}),
        ExtentAppended(topic, 1, 10, 19, [2, 1], 512, 1700000000000, 3),
        ExtentAppended(topic, 0, 0, 0, [1], 80, 1700000000000, 0, 12, 1699999999999),
        ProducerAdvanced(topic, 1, 7, 0, 5, 14, 10, 19, -1),
        ProducerIdsAllotted(1001),
        GroupOffsetCommitted("readers", topic, 1, 20, 3, None, 1700000000001),
        LeaderMoved(topic, 1, 1, 4),
        StoreLeft(2, (HeldTo(topic, 1, 20),)),
    ]
    assert footer.encode(changes) == (
        b'[["topic","orders","00000000000040008000000000000001",[[1,2],[2,1]],{"cleanup.policy":"delete"}],'
        b'["extent","00000000000040008000000000000001",1,10,19,[2,1],512,1700000000000,3,-1,-1],'
        b'["extent","00000000000040008000000000000001",0,0,0,[1],80,1700000000000,0,12,1699999999999],'
        b'["producer","00000000000040008000000000000001",1,7,0,5,14,10,19,-1],'
        b'["producer-ids",1001],'
        b'["group-offset","readers","00000000000040008000000000000001",1,20,3,null,1700000000001],'
        b'["leader","00000000000040008000000000000001",1,1,4],["store-left",2,[["00000000000040008000000000000001",1,20]]]]'
    )


def test_the_encoding_of_transactions_is_the_documented_one() -> None:
    """In the order of a footer."""
    topic = UUID("00000000-0000-4000-8000-000000000001")
    changes: list[Change] = [
        TransactionBegun(12, 7),
        GroupOffsetStaged(12, "readers", topic, 1, 20, 3, "note"),
        TransactionEnded(11, True, 1700000000002),
        TransactionalIdSet("mover", 4, 11, 7, 2, 60000, "Ongoing", 12, 5, 6, 1, 1700000000001),
    ]
    assert footer.encode(changes) == (
        b'[["transaction-begun",12,7],'
        b'["group-offset-staged",12,"readers","00000000000040008000000000000001",1,20,3,"note"],'
        b'["transaction-ended",11,true,1700000000002],'
        b'["transactional-id","mover",4,11,7,2,60000,"Ongoing",12,5,6,1,1700000000001]]'
    )


def test_the_encoding_of_replicas_is_the_documented_one() -> None:
    """In the order of a footer."""
    topic = UUID("00000000-0000-4000-8000-000000000001")
    changes: list[Change] = [
        KeeperLeased(1, 3),
        SegmentsPublished(
            *(topic, 0, 1, 2, 3, 9, 1),
            ("old.log",),
            (AddedSegment(0, 20, "new.log", 512, 1700000000000, 7, -1, 4711, 1699999999999),),
            Granted(10, 12, 8),
            *(20, 20, 60000),
        ),
        ExtentsCarried(1, 2, 3, 4611686018427387905, (CarriedExtent(topic, 0, 19, 40),)),
        StoreFenced(4),
        StoreRebuilt(4, 2),
        StoreJoining(2, 1),
        StoreJoined(2),
        StoreAdded(5),
        ReplicasAssigned(topic, 0, (1, 5), 60000, (5,), (1,)),
    ]
    assert footer.encode(changes) == (
        b'[["keeper-leased",1,3],'
        b'["segments","00000000000040008000000000000001",0,1,2,3,9,1,["old.log"],'
        b'[[0,20,"new.log",512,1700000000000,7,-1,4711,1699999999999]],[10,12,8],20,20,60000],'
        b'["carried",1,2,3,4611686018427387905,[["00000000000040008000000000000001",0,19,40]]],'
        b'["store-fenced",4,-1],["store-rebuilt",4,2],["store-joining",2,1],["store-joined",2],'
        b'["store-added",5],["replicas","00000000000040008000000000000001",0,[1,5],60000,[5],[1]]]'
    )


def test_a_store_that_left_long_ago_said_nothing_of_what_it_held() -> None:
    """The field came with the stores that come back."""
    assert footer.decode(b'[["store-left",2]]') == [StoreLeft(2, None)]


def test_an_extent_from_before_transactions_belongs_to_none() -> None:
    """Fields from the ninth on came later; journals of before are read for as long as they lie there."""
    old = b'[["extent","00000000000040008000000000000001",1,10,19,[2,1],512,1700000000000,3]]'
    (extent,) = footer.decode(old)
    assert extent == ExtentAppended(
        UUID(int=0x40008000000000000001), 1, 10, 19, [2, 1], 512, 1700000000000, 3, -1, -1
    )


def test_replicas_from_before_there_were_reassignments_are_where_they_are() -> None:
    """Nothing is under way."""
    (change,) = footer.decode(b'[["replicas","00000000000040008000000000000001",0,[1,5],60000]]')
    assert change == ReplicasAssigned(UUID(int=0x40008000000000000001), 0, (1, 5), 60000, (), ())


def test_a_segment_from_before_its_first_time_was_noted_has_none() -> None:
    """As an extent of that time has none."""
    old = (
        b'[["segments","00000000000040008000000000000001",0,1,2,3,9,1,[],'
        b'[[0,20,"new.log",512,1700000000000,7,-1,4711]],[10,12,8],20,20,60000]]'
    )
    (change,) = footer.decode(old)
    assert isinstance(change, SegmentsPublished)
    assert change.added == (AddedSegment(0, 20, "new.log", 512, 1700000000000, 7, -1, 4711, -1),)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"7",
        b"[1]",
        b"[[]]",
        b'[["unknown",1]]',
        b'[["producer-ids"]]',
        b'[["producer-ids",1,2]]',
        b'[["extent","no uuid",1,10,19,0,512,1,3]]',
        b'[["extent","00000000000040008000000000000001",1,10,19,[1],512,1]]',
        b'[["extent","00000000000040008000000000000001",1,10,19,[1],512,1,3,-1,0,0]]',
        b'[["transaction-ended",11,true]]',
        b'[["store-left",2,[[7]]]]',
        b'[["store-left",2,7]]',
        b'[["carried",1,1,1,1,[["no uuid",1,10,19]]]]',
        b'[["segments","00000000000040008000000000000001",0,1,1,1,1,1,[],[[0,9]],[0,0,0],0,0,0]]',
        b'[["segments","00000000000040008000000000000001",0,1,1,1,1,1,[],[],[0,0],0,0,0]]',
    ],
)
def test_anything_else_is_corrupt(data: bytes) -> None:
    """One error type, whatever is wrong."""
    with pytest.raises(CorruptFrame):
        footer.decode(data)

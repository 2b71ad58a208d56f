"""The SQLite control plane: every frame once, all of it or nothing, and only what still fits."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from holdfast.control.plane import Extent, GroupOffset, LogBounds, Partition
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import CommitRefused, DataDirectoryRefused, StoreFailed, UnknownTopicOrPartition
from holdfast.rules.producer import ProducerState, WrittenBatch
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupOffsetCommitted,
    LeaderMoved,
    ProducerAdvanced,
    ProducerIdsAllotted,
    StoreLeft,
    TopicCreated,
)
from holdfast.store.store import Checkpoint, Place, StoredFrame

TOPIC = UUID("00000000-0000-4000-8000-000000000001")
ORDERS = TopicCreated("orders", TOPIC, [[1, 2], [2, 1]], {"max.message.bytes": "100"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file lies."""
    return tmp_path / "control.db"


@pytest.fixture
def plane(path: Path) -> Iterator[SqliteControlPlane]:
    """A fresh control plane with one topic, made by frame 1."""
    plane = SqliteControlPlane(path)
    plane.add_store(1)
    plane.add_store(2)
    plane.apply(_frames(1, 1, 2), [ORDERS])
    yield plane
    plane.close()


def _frames(number: int, *stores: int) -> list[StoredFrame]:
    """A frame as the stores hold it, each in a journal of its own number."""
    return [
        StoredFrame(
            store=store,
            number=number,
            body=Place(journal=store, position=1000 * number),
            footer=b"",
            end=Place(journal=store, position=1000 * number + 999),
        )
        for store in stores or (1,)
    ]


def _extent(
    first: int,
    last: int,
    *,
    partition: int = 0,
    stores: tuple[int, ...] = (1,),
    max_timestamp: int = 5,
    epoch: int = 0,
) -> Change:
    return ExtentAppended(TOPIC, partition, first, last, list(stores), 100, max_timestamp, epoch)


def test_an_empty_plane_has_applied_nothing(path: Path) -> None:
    """No frame has number 0."""
    plane = SqliteControlPlane(path)
    plane.add_store(1)
    assert plane.find_applied() == 0
    assert plane.find_checkpoint(1) is None


def test_topics_are_listed(plane: SqliteControlPlane) -> None:
    """By name, with partitions and configs."""
    plane.apply(_frames(2), [TopicCreated("alpha", uuid4(), [[1]], {})])
    alpha, orders = plane.list_topics()
    assert (alpha.name, alpha.partitions) == ("alpha", (Partition(replicas=(1,), leader=1, leader_epoch=0),))
    assert (orders.name, orders.configs) == ("orders", {"max.message.bytes": "100"})
    assert [partition.replicas for partition in orders.partitions] == [(1, 2), (2, 1)]
    assert plane.find_partition(TOPIC, 1) == orders.partitions[1]


def test_extents_move_the_end_and_are_found(plane: SqliteControlPlane) -> None:
    """The extent that holds an offset comes first, with its place on each store that has it."""
    plane.apply(_frames(2, 1, 2), [_extent(0, 4, stores=(1,)), _extent(0, 3, partition=1, stores=(2, 1))])
    plane.apply(_frames(3), [_extent(5, 9)])
    bounds, extents = plane.find_extents(TOPIC, 0, 4, 10_000)
    assert bounds == LogBounds(start=0, end=10, leader_epoch=0)
    places = {1: Place(journal=1, position=2000)}
    assert extents[0] == Extent(first=0, last=4, places=places, length_bytes=100, max_timestamp=5)
    assert [extent.first for extent in extents] == [0, 5]
    # Store 2 does not hold the first extent, so the second one comes first in its body.
    other = plane.find_extents(TOPIC, 1, 0, 10_000)[1][0]
    assert other.places == {1: Place(journal=1, position=2100), 2: Place(journal=2, position=2000)}


def test_extents_are_bounded_by_bytes_but_never_none(plane: SqliteControlPlane) -> None:
    """A reader gets at least the extent that it asks for."""
    for number in range(5):
        plane.apply(_frames(2 + number), [_extent(number, number)])
    assert [e.first for e in plane.find_extents(TOPIC, 0, 1, 250)[1]] == [1, 2, 3]
    assert [e.first for e in plane.find_extents(TOPIC, 0, 1, 0)[1]] == [1]
    assert plane.find_extents(TOPIC, 0, 5, 250)[1] == []


def test_a_frame_is_applied_once(plane: SqliteControlPlane) -> None:
    """A replay that begins too early changes nothing."""
    plane.apply(_frames(2), [_extent(0, 4)])
    plane.apply(_frames(2), [_extent(0, 4)])
    plane.apply(_frames(1), [ORDERS])
    assert plane.find_bounds(TOPIC, 0).end == 5
    assert plane.find_applied() == 2
    assert plane.find_checkpoint(1) == Checkpoint(frame=2, end=Place(journal=1, position=2999))
    assert plane.find_checkpoint(2) == Checkpoint(frame=1, end=Place(journal=2, position=1999))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_extent(1, 4), id="a hole before it"),
        pytest.param(_extent(0, 4, epoch=1), id="another leader epoch"),
        pytest.param(ExtentAppended(uuid4(), 0, 0, 4, [1], 100, 5, 0), id="an unknown topic"),
        pytest.param(ExtentAppended(TOPIC, 2, 0, 4, [1], 100, 5, 0), id="an unknown partition"),
        pytest.param(TopicCreated("orders", uuid4(), [[1]], {}), id="a name that is taken"),
        pytest.param(LeaderMoved(TOPIC, 0, 2, 2), id="an epoch that is not the next"),
        pytest.param(GroupOffsetCommitted("g", uuid4(), 0, 1, 0, None, 0), id="a position in no topic"),
    ],
)
def test_a_change_that_does_not_fit_refuses_the_whole_frame(
    plane: SqliteControlPlane, change: Change
) -> None:
    """Nothing of the frame has an effect, and a replay does not try it again."""
    other = TopicCreated("other", uuid4(), [[1]], {})
    with pytest.raises(CommitRefused):
        plane.apply(_frames(2), [other, change])
    assert [topic.name for topic in plane.list_topics()] == ["orders"]
    assert plane.find_applied() == 2
    with pytest.raises(CommitRefused, match="does not exist"):
        plane.apply(_frames(3), [GroupOffsetCommitted("g", other.topic_id, 0, 1, 0, None, 0)])
    plane.apply(_frames(4), [other, ExtentAppended(other.topic_id, 0, 0, 4, [1], 100, 5, 0)])
    assert plane.find_bounds(other.topic_id, 0).end == 5


def test_a_topic_and_its_first_records_fit_in_one_frame(plane: SqliteControlPlane) -> None:
    """Changes of a frame see those before them."""
    other = uuid4()
    plane.apply(
        _frames(2), [TopicCreated("other", other, [[1]], {}), ExtentAppended(other, 0, 0, 0, [1], 100, 5, 0)]
    )
    assert plane.find_bounds(other, 0).end == 1


def test_producers_keep_their_window(plane: SqliteControlPlane, path: Path) -> None:
    """Five batches of a producer are remembered, with their offsets, also by a process that comes later."""
    for number in range(6):
        advance = ProducerAdvanced(TOPIC, 0, 9, 1, 10 * number, 10 * number + 9, number, number, -1)
        plane.apply(_frames(2 + number), [_extent(number, number), advance])
    states = plane.find_producers(TOPIC, 0)
    window = tuple(
        WrittenBatch(first_sequence=10 * n, last_sequence=10 * n + 9, first_offset=n, last_offset=n)
        for n in range(1, 6)
    )
    assert states == {9: ProducerState(epoch=1, window=window)}
    assert SqliteControlPlane(path).find_producers(TOPIC, 0) == states
    assert plane.find_producers(TOPIC, 1) == {}


@pytest.mark.parametrize(
    ("epoch", "sequence"), [(0, 3), (1, 4), (1, 0)], ids=["an old epoch", "a gap", "a repeat"]
)
def test_sequences_are_checked_again(plane: SqliteControlPlane, epoch: int, sequence: int) -> None:
    """The plan may be wrong about a producer; the commit is not."""
    plane.apply(_frames(2), [_extent(0, 2), ProducerAdvanced(TOPIC, 0, 9, 1, 0, 2, 0, 2, -1)])
    with pytest.raises(CommitRefused, match="producer 9"):
        plane.apply(
            _frames(3),
            [_extent(3, 5), ProducerAdvanced(TOPIC, 0, 9, epoch, sequence, sequence + 2, 3, 5, -1)],
        )
    assert plane.find_bounds(TOPIC, 0).end == 3


def test_producer_ids_never_go_back(plane: SqliteControlPlane) -> None:
    """Id 0 is the filler batch's; the next block begins where the last one ended."""
    assert plane.find_next_producer_id() == 1
    plane.apply(_frames(2), [ProducerIdsAllotted(1001)])
    plane.apply(_frames(3), [ProducerIdsAllotted(5)])
    assert plane.find_next_producer_id() == 1001


def test_group_offsets_are_replaced(plane: SqliteControlPlane) -> None:
    """The newest position counts; metadata comes back as it was sent."""
    plane.apply(_frames(2), [GroupOffsetCommitted("g", TOPIC, 1, 5, 0, "first", 1)])
    plane.apply(_frames(3), [GroupOffsetCommitted("g", TOPIC, 1, 3, 0, None, 2)])
    expected = GroupOffset(topic_id=TOPIC, partition=1, offset=3, leader_epoch=0, metadata=None)
    assert plane.find_group_offsets("g") == [expected]
    assert plane.find_group_offsets("another") == []


def test_extents_are_found_by_time(plane: SqliteControlPlane) -> None:
    """Timestamps need not grow with offsets: the first extent that reaches the time counts."""
    for number, max_timestamp in enumerate((30, 10, 50, 20, 50)):
        plane.apply(_frames(2 + number), [_extent(number, number, max_timestamp=max_timestamp)])

    def first_at(timestamp_ms: int) -> int | None:
        extent = plane.find_extent_by_time(TOPIC, 0, 0, timestamp_ms)
        return None if extent is None else extent.first

    assert [first_at(time) for time in (0, 30, 31, 50, 51)] == [0, 0, 2, 2, None]
    newest = plane.find_extent_of_max_time(TOPIC, 0, 0)
    assert newest is not None
    assert newest.first == 2
    assert plane.find_extent_of_max_time(TOPIC, 1, 0) is None


def test_leaders_move_and_epochs_end(plane: SqliteControlPlane) -> None:
    """Each epoch ends where the next begins; an epoch that never was is answered with the one before it."""
    plane.apply(_frames(2), [_extent(0, 4)])
    plane.apply(_frames(3), [LeaderMoved(TOPIC, 0, 2, 1), _extent(5, 9, epoch=1)])
    plane.apply(_frames(4), [LeaderMoved(TOPIC, 0, 1, 2)])
    assert plane.find_partition(TOPIC, 0) == Partition(replicas=(1, 2), leader=1, leader_epoch=2)
    ends = [plane.find_epoch_end(TOPIC, 0, epoch) for epoch in (-1, 0, 1, 2, 7)]
    assert ends == [(-1, -1), (0, 5), (1, 10), (2, 10), (2, 10)]


def test_a_lost_store_stays_lost(plane: SqliteControlPlane, path: Path) -> None:
    """Be it by a failed append, by a footer or by name; adding it again does not bring it back."""
    plane.add_store(3)
    assert plane.find_in_sync() == {1, 2, 3}
    plane.apply(_frames(2), [_extent(0, 4)], lost=[2])
    assert plane.find_in_sync() == {1, 3}
    plane.apply(_frames(3), [StoreLeft(3)])
    plane.add_store(2)
    assert SqliteControlPlane(path).find_in_sync() == {1}
    plane.add_store(4)
    plane.drop_stores([4])
    assert plane.find_in_sync() == {1}


def test_losing_a_store_is_synced(plane: SqliteControlPlane) -> None:
    """A power cut must not make a store with a gap look whole: this one change waits for the disk."""
    statements: list[str] = []
    plane._writer.set_trace_callback(statements.append)
    plane.apply(_frames(2), [_extent(0, 4)], lost=[2])
    drop = next(i for i, sql in enumerate(statements) if sql.startswith("UPDATE stores SET in_sync = 0"))
    assert statements[drop - 1] == "PRAGMA synchronous = FULL"
    assert "PRAGMA synchronous = NORMAL" in statements[drop:]
    assert plane._writer.execute("PRAGMA synchronous").fetchone() == (1,)


def test_unknown_partitions_are_refused(plane: SqliteControlPlane) -> None:
    """A reader hears Kafka's error."""
    for topic, partition in ((TOPIC, 2), (uuid4(), 0)):
        with pytest.raises(UnknownTopicOrPartition):
            plane.find_bounds(topic, partition)


def test_a_failing_file_is_a_store_failure(plane: SqliteControlPlane, path: Path) -> None:
    """Nothing is half recorded, and the next try may succeed."""
    blocker = sqlite3.connect(path, isolation_level=None)
    plane._writer.execute("PRAGMA busy_timeout = 1")
    blocker.execute("BEGIN IMMEDIATE")
    other = TopicCreated("other", uuid4(), [[1]], {})
    with pytest.raises(StoreFailed, match="frame 2"):
        plane.apply(_frames(2), [other])
    blocker.execute("ROLLBACK")
    assert [topic.name for topic in plane.list_topics()] == ["orders"]
    plane.apply(_frames(2), [other])
    assert [topic.name for topic in plane.list_topics()] == ["orders", "other"]


def test_a_newer_schema_is_refused(plane: SqliteControlPlane, path: Path) -> None:
    """An older Holdfast does not touch what it does not understand."""
    plane.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DataDirectoryRefused, match="newer Holdfast"):
        SqliteControlPlane(path)

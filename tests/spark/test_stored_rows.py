"""The stores' own files read by tasks: the log as of one moment, whatever becomes of it, and damage by name."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.agent import readings
from holdfast.agent.writes import DeleteTopic, MoveLogStart
from holdfast.client.readings import ReadingNamed, ReadingWanted, load_reading, save_reading
from holdfast.errors import ReadingOver, ReadingRefused, StoreFailed, UnknownTopicOrPartition, UsageError
from holdfast.spark.stored_rows import decode_stored
from tests.keeper.engine import Engine
from tests.keeper.space import QUICK, Transaction, files, fill, rest, segments_on_disk, small_journals
from tests.spark import stored

STORES = (1, 2, 3)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Three stores with small journals, where everything is due, and unused files go, at once."""
    small_journals(monkeypatch)
    made = Engine(tmp_path / "data", limits=QUICK)
    yield made
    made.end()


def test_segments_and_tail_on_every_replica(engine: Engine) -> None:
    """What consumers see, from whichever store, and from however many tasks."""
    key = engine.create("t", cleanup_policy="delete")
    fill(engine, key, 5, value_bytes=10)
    engine.round()
    fill(engine, key, 4, value_bytes=10)
    expected = engine.read(key, 1)
    assert [offset for offset, _, _ in expected] == list(range(9))
    for store in STORES:
        held = stored.take(engine, "t", store=store)
        (replica,) = held.reading.partitions[0].replicas
        assert (replica.store, len(replica.segments), len(list(replica.tail))) == (store, 1, 4)
        assert stored.read(held) == expected
        assert stored.read(held, minPartitions=4) == expected
        assert stored.read(held, maxRecordsPerPartition=1) == expected
        assert (
            stored.read(held, startingOffsets='{"t": {"0": 3}}', endingOffsets='{"t": {"0": 7}}')
            == (expected[3:7])
        )


def test_a_reading_outlives_compaction_and_what_collects(engine: Engine) -> None:
    """Every key is written anew above its end, on all stores: the table at its end is still whole, until released."""
    key = engine.create("t")
    fill(engine, key, 20, value_bytes=300)
    engine.round()
    fill(engine, key, 20, value_bytes=301)
    expected = engine.read(key, 2)
    before = files(engine, 2, "journal")
    held = stored.take(engine, "t", store=2)
    # The same topic through the agent, later: keys are gone that were there at the end of the reading.
    fill(engine, key, 20, value_bytes=302)
    rest(engine)
    assert [row for row in engine.read(key, 2) if row[0] < 40] == []
    assert stored.read(held) == expected
    pinned = {segment.file for segment in held.reading.partitions[0].replicas[0].segments}
    assert pinned - engine.cluster.plane.list_files(2)
    assert pinned <= segments_on_disk(engine, 2)
    assert not pinned & segments_on_disk(engine, 1)
    journals = files(engine, 2, "journal")
    assert len(set(journals) & set(before)) > 1
    engine.cluster.readings.release(ReadingNamed(name=held.reading.name))
    # Whatever a round finds to do lets it look anew.
    engine.append(key, (b"other", b"1"))
    rest(engine)
    assert not pinned & segments_on_disk(engine, 2)
    assert len(set(files(engine, 2, "journal")) & set(before)) <= 1
    with pytest.raises(ReadingOver, match="heldSeconds"):
        stored.read(held)


def test_a_reading_outlives_its_topic(engine: Engine) -> None:
    """Deleted topics and moved log starts are later moments."""
    key = engine.create("t")
    fill(engine, key, 3)
    engine.round()
    held = stored.take(engine, "t")
    expected = engine.read(key, 1)
    engine.call(lambda: engine.cluster.commits.submit(MoveLogStart(key, 2)))
    assert [row[0] for row in stored.read(stored.take(engine, "t"))] == [2]
    engine.call(lambda: engine.cluster.commits.submit(DeleteTopic(key.topic_id)))
    rest(engine)
    assert stored.read(held) == expected
    with pytest.raises(UnknownTopicOrPartition):
        stored.take(engine, "t")


def test_transactions(engine: Engine) -> None:
    """Open ones end a reading, aborted ones are left out, settled or not; under read_uncommitted all are there."""
    key = engine.create("t", cleanup_policy="delete")
    one = Transaction(engine, "one")
    one.append(key, b"c0", b"c1")
    one.end(commit=True)
    one.append(key, b"a2")
    one.end(commit=False)
    engine.append(key, (b"k", b"p3"))
    expected = [(0, b"c0"), (1, b"c1"), (3, b"p3")]

    def values(**wanted: bool) -> list[tuple[int, bytes | None]]:
        return [(offset, value) for offset, _, value in stored.read(stored.take(engine, "t", **wanted))]

    assert values() == expected
    assert values(committed_only=False) == [*expected[:2], (2, b"a2"), expected[2]]
    engine.round()
    one.append(key, b"o4")
    engine.append(key, (b"k", b"p5"))
    held = stored.take(engine, "t")
    assert [(each.start, each.end) for each in held.reading.partitions] == [(0, 4)]
    assert values() == expected
    assert values(committed_only=False) == [*expected, (4, b"o4"), (5, b"p5")]
    one.end(commit=True)
    assert values() == [*expected, (4, b"o4"), (5, b"p5")]
    assert [row[0] for row in stored.read(held)] == [0, 1, 3]


def test_all_topics_at_one_moment(engine: Engine) -> None:
    """One plan for all of them, and all replicas if they are asked for."""
    one, other = engine.create("one"), engine.create("other")
    engine.append(one, (b"a", b"1"))
    engine.append(other, (b"a", b"2"))
    held = stored.take(engine, "one", "other", all_replicas=True)
    assert [len(each.replicas) for each in held.reading.partitions] == [3, 3]
    assert stored.read(held, "one", replica=3) == [(0, b"a", b"1")]
    assert stored.read(held, "other", replica=2) == [(0, b"a", b"2")]
    with pytest.raises(UnknownTopicOrPartition):
        stored.read(held, "third")
    with pytest.raises(UsageError, match="startingOffsets"):
        stored.read(held, "one", startingOffsets='{"one": {"0": 2}}')


def test_kept_in_a_file(engine: Engine, tmp_path: Path) -> None:
    """As it was."""
    fill(engine, engine.create("t"), 3)
    held = stored.take(engine, "t")
    save_reading(tmp_path / "reading.json", held.reading)
    assert load_reading(tmp_path / "reading.json") == held.reading


def test_what_cannot_be_read_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that lacks something, or none; too much at once; no time, or too much."""
    key = engine.create("t")
    fill(engine, key, 3)
    for wrong in (
        ReadingWanted(topics=["t"], store=4),
        ReadingWanted(topics=["t"], seconds=0),
        ReadingWanted(topics=["t"], seconds=1e9),
    ):
        with pytest.raises(ReadingRefused):
            engine.cluster.readings.take(wrong)
    with engine.away(3):
        fill(engine, key, 1)
        with pytest.raises(ReadingRefused, match="store 3 is not in sync"):
            stored.take(engine, "t", store=3)
        (missing,) = stored.take(engine, "t", all_replicas=True).reading.not_examined
        assert (missing.store, missing.partition) == (3, 0)
    monkeypatch.setattr(readings, "EXTENTS_MAX", 3)
    with pytest.raises(ReadingRefused, match="keeper run"):
        stored.take(engine, "t", store=1)
    assert (
        engine.cluster.desk._space._pins.find(1).journals == engine.cluster.desk._space._pins.find(2).journals
    )


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(("position", "why"), [(69, "byte 0"), (7, "other offsets"), (15, "is 0x")])
def test_damage_is_named(engine: Engine, position: int, why: str) -> None:
    """In a batch by its CRC, in what that leaves out by the segment's."""
    key = engine.create("t", cleanup_policy="delete")
    engine.append(key, (b"a", b"1"), (b"b", b"2"))
    engine.append(key, (b"c", b"3"))
    engine.round()
    held = stored.take(engine, "t", store=1)
    (segment,) = held.reading.partitions[0].replicas[0].segments
    path = engine.data / "stores" / "1" / "segments" / segment.file
    flip(path, position)
    with pytest.raises(StoreFailed, match=f"replica 1.*{path.name}.*({why})"):
        stored.read(held)
    assert stored.read(stored.take(engine, "t", store=2)) == engine.read(key, 2)


def test_what_a_segment_covers_is_not_read_twice(engine: Engine) -> None:
    """An extent may begin before the last segment ends, where that was taken over from a peer."""
    key = engine.create("t", cleanup_policy="delete")
    engine.append(key, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    (work,) = stored.plan(stored.take(engine, "t", store=1))
    (table,) = decode_stored(replace(work, settled_to=2), ["offset"])
    assert table["offset"].to_pylist() == [2]

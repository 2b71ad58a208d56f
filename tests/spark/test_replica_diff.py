"""Replicas compared: nothing is found that they are entitled to, everything else is, by key, offset, store and file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.writes import MoveLogStart
from holdfast.cli.log_diff import _describe
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.round import Round
from holdfast.keeper.runner import InProcessRunner
from holdfast.records.arrow import decode
from holdfast.records.crc import crc32c
from holdfast.records.kernel import copy_selected
from holdfast.spark import replica_diff
from holdfast.spark.examination import Damage, examine
from holdfast.spark.replica_diff import Difference, compare
from holdfast.store.segment_index import index_path
from tests.keeper.engine import Engine, pass_time
from tests.keeper.space import QUICK
from tests.spark import stored


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Three stores."""
    made = Engine(tmp_path / "data", limits=QUICK)
    yield made
    made.end()


def differences(engine: Engine, spark: SparkSession, topic: str = "t") -> list[Difference | Damage]:
    return list(compare(spark, stored.take(engine, topic, all_replicas=True)))


def segment_of(engine: Engine, key: PartitionKey, store: int) -> Path:
    """The only segment of a replica."""
    (path,) = segments_of(engine, key, store)
    return path


def segments_of(engine: Engine, key: PartitionKey, store: int) -> list[Path]:
    """All segments of a replica."""
    directory = engine.data / "stores" / str(store) / "segments"
    return [directory / segment.file for segment in engine.cluster.plane.find_segments(*key, store)]


def drop(engine: Engine, path: Path, offset: int) -> None:
    """Take one record out of a segment, so that no CRC and no length tells of it."""
    data = path.read_bytes()
    offsets = decode(data, columns=["offset"])["offset"].to_numpy()
    assert offset in offsets
    replace(engine, path, bytes(copy_selected(data, offsets != offset).buffer))


def replace(engine: Engine, path: Path, left: bytes) -> None:
    """Other bytes for a segment, of which the control plane is told."""
    path.write_bytes(left)
    index_path(path).unlink()
    file = str(path.relative_to(path.parents[2]))
    with closing(sqlite3.connect(engine.data / "control.db", timeout=30)) as db, db:
        count = db.execute(
            "UPDATE segments SET crc = ?, length_bytes = ? WHERE file = ?", (crc32c(left), len(left), file)
        ).rowcount
    assert count == 1


def test_what_was_dropped_by_right_is_no_difference(
    engine: Engine, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One replica is compacted and has let a tombstone go, one is compacted, one holds all that was ever written."""
    key = engine.create("t", delete_retention_ms="1000")
    engine.append(key, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    engine.round()
    engine.append(key, (b"a", b"2"), (b"b", None))
    engine.round()
    engine.append(key, (b"a", b"3"))
    pass_time(engine, monkeypatch, 10_000)
    engine.append(key, (b"d", b"1"))
    # Of the three, the first alone is visited.
    for store in (2, 3):
        engine.gateway.lease(store)
    other = Gateway(engine._ask, holder="other")
    Round(other, lambda size_bytes: InProcessRunner()).run()
    held = {store: [row[:2] for row in engine.read(key, store)] for store in (1, 2, 3)}
    assert (4, b"b") not in held[1]
    assert (4, b"b") in held[2]
    assert differences(engine, spark) == []


def test_a_flipped_byte_a_record_and_a_tombstone(engine: Engine, spark: SparkSession) -> None:
    """Each in another partition, all on one store; each is named, and nothing else is."""
    first = engine.create("t", partitions=3)
    keys = [PartitionKey(first.topic_id, partition) for partition in range(3)]
    for key in keys:
        engine.append(key, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
        engine.append(key, (b"d", b"1"), (b"a", b"2"), (b"c", None))
    engine.round()
    engine.append(keys[1], (b"tail", b"1"))
    assert differences(engine, spark) == []
    flipped, removed, forgotten = (segment_of(engine, key, 2) for key in keys)
    data = bytearray(flipped.read_bytes())
    data[-1] ^= 1
    flipped.write_bytes(data)
    drop(engine, removed, 3)
    drop(engine, forgotten, 5)
    found = differences(engine, spark)
    (damage,) = [each for each in found if isinstance(each, Damage)]
    assert (damage.store, damage.partition, damage.path, damage.offset) == (2, 0, str(flipped), 3)
    assert 0 < damage.position < len(data)
    assert "CRC" in damage.why
    named = {
        (each.partition, each.key, each.offset, each.is_delete, each.at_fault)
        for each in found
        if isinstance(each, Difference)
    }
    assert named == {
        # The damaged batch held these.
        (0, b"d", 3, False, (2,)),
        (0, b"a", 4, False, (2,)),
        (0, b"c", 5, True, (2,)),
        (1, b"d", 3, False, (2,)),
        (2, b"c", 5, True, (2,)),
    }
    (gone,) = [each for each in found if isinstance(each, Difference) and each.partition == 1]
    assert gone.held == {1: 3, 2: None, 3: 3}


def test_a_deleted_key_that_is_back(engine: Engine, spark: SparkSession) -> None:
    """The tombstone is gone before the value that it deletes."""
    key = engine.create("t", min_cleanable_dirty_ratio="1.0")
    engine.append(key, (b"a", b"1"))
    engine.append(key, (b"a", None), (b"b", b"1"))
    engine.round()
    drop(engine, segment_of(engine, key, 3), 1)
    (found,) = differences(engine, spark)
    assert found == Difference(
        partition=0, key=b"a", offset=1, is_delete=True, held={1: 1, 2: 1, 3: 0}, at_fault=(3,)
    )


def test_not_compacted(engine: Engine, spark: SparkSession) -> None:
    """Every record counts, with the same key or without one; two versions of one are told."""
    key = engine.create("t", cleanup_policy="delete")
    engine.append(key, (b"a", b"1"), (b"a", b"2"), (None, b"3"), (None, None))
    engine.round()
    assert differences(engine, spark) == []
    path = segment_of(engine, key, 1)
    drop(engine, path, 0)
    drop(engine, segment_of(engine, key, 2), 2)
    found = {
        (each.key, each.offset, each.at_fault)
        for each in differences(engine, spark)
        if isinstance(each, Difference)
    }
    assert found == {(b"a", 0, (1,)), (None, 2, (2,))}


def test_other_bytes_under_a_sound_crc(engine: Engine, spark: SparkSession) -> None:
    """Nobody lacks the record, but one has another value."""
    key = engine.create("t")
    engine.append(key, (b"a", b"first"))
    engine.round()
    other = engine.create("other")
    engine.append(other, (b"a", b"other"))
    engine.round()
    path, source = segment_of(engine, key, 3), segment_of(engine, other, 3)
    replace(engine, path, source.read_bytes())
    (found,) = differences(engine, spark)
    assert isinstance(found, Difference)
    assert (found.key, found.offset, found.at_fault, found.held) == (b"a", 0, (), {1: 0, 2: 0, 3: 0})
    assert (found.conflict, found.versions) == (0, ((1, 2), (3,)))
    assert _describe("t", found) == (
        "t:0: key 'a': different records at offset 0: one on stores 1, 2, another on store 3"
    )


def test_other_bytes_of_a_key_that_lacks_its_newest_record(engine: Engine, spark: SparkSession) -> None:
    """Two faults of one key are two facts, each with its own offset."""
    key, other = (engine.create(name, min_cleanable_dirty_ratio="1.0") for name in ("t", "other"))
    engine.append(key, (b"a", b"first"))
    engine.append(key, (b"a", b"second"), (b"b", b"1"))
    engine.append(other, (b"a", b"other"))
    engine.append(other, (b"a", b"second"), (b"b", b"1"))
    engine.round()
    path, source = segment_of(engine, key, 3), segment_of(engine, other, 3)
    drop(engine, source, 1)
    replace(engine, path, source.read_bytes())
    (found,) = differences(engine, spark)
    assert found == Difference(
        partition=0,
        key=b"a",
        offset=1,
        is_delete=False,
        held={1: 1, 2: 1, 3: 0},
        at_fault=(3,),
        conflict=0,
        versions=((1, 2), (3,)),
    )
    assert _describe("t", found) == (
        "t:0: key 'a': last written at offset 1, but store 3 has offset 0 as its newest;"
        " different records at offset 0: one on stores 1, 2, another on store 3"
    )


def test_files_that_are_gone_or_cut_short(engine: Engine, spark: SparkSession) -> None:
    """By name; and a base offset that no batch's CRC covers."""
    one, other, third = (engine.create(name, cleanup_policy="delete") for name in ("one", "other", "third"))
    for key in (one, other, third):
        engine.append(key, (b"a", b"1"))
        engine.append(key, (b"b", b"1"))
    engine.round()
    gone = segment_of(engine, one, 1)
    gone.unlink()
    found = differences(engine, spark, "one")
    assert [(each.path, each.why) for each in found if isinstance(each, Damage)] == [
        (str(gone), "cannot be read: No such file or directory")
    ]
    short = segment_of(engine, other, 2)
    short.write_bytes(short.read_bytes()[:-1])
    assert [
        "ends before" in each.why for each in differences(engine, spark, "other") if isinstance(each, Damage)
    ]
    moved = segment_of(engine, third, 3)
    data = bytearray(moved.read_bytes())
    data[7] = 1
    moved.write_bytes(data)
    damages = [each for each in differences(engine, spark, "third") if isinstance(each, Damage)]
    assert {(each.store, each.path) for each in damages} == {(3, str(moved))}


@pytest.mark.parametrize("log_start", [0, 4])
def test_what_no_batch_covers_of_a_file_for_many_tasks(
    engine: Engine, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, log_start: int
) -> None:
    """The leader epoch of a batch is in the CRC of its file alone, which takes all of the file, visible or not."""
    monkeypatch.setattr(replica_diff, "TASK_BYTES", 100)
    key = engine.create("t", cleanup_policy="delete")
    for number in range(10):
        engine.append(key, (b"k%d" % number, b"1"))
    engine.round()
    engine.append(key, (b"tail", b"1"), (b"tail", b"2"))
    engine.append(key, (b"tail", b"3"))
    engine.call(lambda: engine.cluster.commits.submit(MoveLogStart(key, log_start)))
    assert differences(engine, spark) == []
    path = segment_of(engine, key, 2)
    data = bytearray(path.read_bytes())
    data[15] ^= 1
    path.write_bytes(data)
    (damage,) = differences(engine, spark)
    assert isinstance(damage, Damage)
    assert (damage.store, damage.path, damage.position) == (2, str(path), 0)
    assert "the CRC of the file is 0x" in damage.why


def test_each_file_is_judged_by_itself(engine: Engine) -> None:
    """A damaged batch of one hides nothing of another that the same task reads."""
    key = engine.create("t", cleanup_policy="delete", segment_bytes="1048576")
    for number in range(2):
        engine.append(key, (b"k%d" % number, bytes(900_000)))
        engine.round()
    first, second = segments_of(engine, key, 1)
    for path, position in ((first, -1), (second, 15)):
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
    (work,) = stored.plan(stored.take(engine, "t", store=1))
    damages = [each for each in examine(work, ["offset"]) if isinstance(each, Damage)]
    assert {(each.path, "file" in each.why) for each in damages} == {(str(first), False), (str(second), True)}

"""A rewrite of real files leaves exactly what the rules leave of the records in them."""

import os
from pathlib import Path
from random import Random

import pytest

from holdfast.keeper import chunks, output, task
from holdfast.keeper.work import NewSegment, Rewrite
from holdfast.records.batch import TRANSACTIONAL_BIT, BatchView
from holdfast.records.build import read_records
from holdfast.records.crc import crc32c
from holdfast.records.walk import walk_valid
from holdfast.store import segment as segment_module
from holdfast.store.segment_index import SegmentIndex, index_path
from tests.keeper.replica import Replica

SEEDS = range(40)
STEPS = 8


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut would take is not asked for here, and disks are slow."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of few batches, and segments with many entries in their indexes."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 600)
    monkeypatch.setattr(task, "CHUNK_BYTES", 600)
    monkeypatch.setattr(output, "INDEX_BYTES", 300)
    monkeypatch.setattr(segment_module, "INDEX_BYTES", 300)


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_is_what_the_rules_leave(tmp_path: Path, seed: int) -> None:
    """Random logs, settled, compacted and cut at their start in random order, in small pieces."""
    chance = Random(seed)
    keys, key_bytes = (40, 60) if seed % 4 == 0 else (5, 1)
    replica = Replica(tmp_path, chance, keys=keys, key_bytes=key_bytes)
    replica.map_bytes_max = 2048
    for _ in range(STEPS):
        replica.append(chance.randrange(5))
        replica.segment_bytes_max = chance.choice([200, 1000, 20_000])
        before = list(replica.segments)
        if chance.random() < 0.4:
            merged = chance.choice([0, 0, len(before)])
            done = replica.settle(chance.randint(0, len(replica.extents)), merged=merged)
            # Whole batches stay, so records below the log start may.
            assert replica.found(first=replica.log_start) == replica.expected(first=replica.log_start)
        else:
            tombstones_end = chance.choice([0, chance.randint(0, replica.mcco)])
            done = replica.compact(chance.randint(0, len(replica.extents)), tombstones_end=tombstones_end)
            assert replica.found() == replica.expected()
        check_segments(replica, before, done)
        if chance.random() < 0.3:
            replica.log_start = chance.randint(replica.log_start, replica.settled_to)


def check_segments(replica: Replica, before: list[NewSegment], done: Rewrite) -> None:
    """Everything that is said of segments holds, and none but the rewritten ones were touched."""
    covered = [(segment.first, segment.end) for segment in replica.segments]
    assert [first for first, _ in covered[1:]] == [end for _, end in covered[:-1]]
    if covered:
        assert covered[-1][1] == replica.settled_to
    assert {segment.file for segment in before} - set(done.removed) == {
        segment.file for segment in replica.segments
    } - {segment.file for segment in done.added}
    assert done.counts["records_kept"] == sum(segment.records for segment in done.added)
    for segment in replica.segments:
        check_segment(replica, segment)
    for segment in done.added:
        biggest = max((batch.size_bytes for batch in replica.batches(segment)), default=0)
        assert segment.length_bytes <= max(biggest, replica.segment_bytes_max)


def check_segment(replica: Replica, segment: NewSegment) -> None:
    data = replica.path(segment).read_bytes()
    assert (len(data), crc32c(data)) == (segment.length_bytes, segment.crc)
    batches = list(walk_valid(data))
    records = [record for batch in batches for record in read_records(batch)]
    assert segment.records == len(records)
    assert segment.max_timestamp == max((batch.max_timestamp for batch in batches), default=-1)
    assert segment.max_timestamp == max((record.timestamp_ms for record in records), default=-1)
    tombstones = [record.offset for record in records if record.value is None]
    assert segment.first_tombstone == (tombstones[0] if tombstones else -1)
    end = segment.first
    for batch in batches:
        assert batch.base_offset >= end
        end = batch.next_offset
        check_batch(batch, replica.produced[batch.base_offset])
    assert end <= segment.end
    check_index(SegmentIndex.load(index_path(replica.path(segment))), batches)


def check_batch(batch: BatchView, produced: bytes) -> None:
    """It says of itself what it said as it was produced, but that it is in a transaction no more."""
    was = BatchView(produced)
    assert not batch.is_transactional
    for field in ("base_timestamp", "producer_id", "producer_epoch", "base_sequence", "leader_epoch"):
        assert getattr(batch, field) == getattr(was, field)
    assert batch.last_offset_delta == was.last_offset_delta
    assert batch.attributes == was.attributes & ~TRANSACTIONAL_BIT
    if batch.record_count == was.record_count:
        # All but the CRC, which covers the bit.
        assert bytes(batch.records) == bytes(was.records)
        assert batch.max_timestamp == was.max_timestamp
        if not was.is_transactional:
            assert bytes(batch.buffer[batch.position : batch.position + batch.size_bytes]) == produced


def check_index(index: SegmentIndex, batches: list[BatchView]) -> None:
    """From where it says, a walk comes to every offset and to every time, without much before it."""
    starts = [batch.position for batch in batches]
    for at, batch in enumerate(batches):
        for offset in range(batch.base_offset, batch.next_offset):
            position = index.find(offset)
            assert position in starts[: at + 1]
            assert batch.position - position < 3 * output.INDEX_BYTES + batch.size_bytes
    for time_ms in sorted({batch.max_timestamp for batch in batches}):
        first = next(batch for batch in batches if batch.max_timestamp >= time_ms)
        assert index.find_time(time_ms) in starts[: starts.index(first.position) + 1]

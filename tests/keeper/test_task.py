"""A rewrite of real files leaves exactly what the rules leave of the records in them."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from holdfast.errors import CorruptBatch, StoreFailed
from holdfast.keeper import chunks, copying, dead, output
from holdfast.keeper.bits import Bits
from holdfast.keeper.sections import Section
from holdfast.keeper.work import NewSegment, Rewrite
from holdfast.records.batch import LEADER_EPOCH_AT, TRANSACTIONAL_BIT, BatchView, Codec
from holdfast.records.build import read_records
from holdfast.records.crc import crc32c
from holdfast.records.walk import walk_valid
from holdfast.store import segment as segment_module
from holdfast.store.segment_index import SegmentIndex, index_path
from tests.keeper.replica import Replica

SEEDS = range(20)
STEPS = 8
INDEX_BYTES = 300


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut would take is not asked for here, and disks are slow."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of few batches, and segments with many entries in their indexes."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 600)
    monkeypatch.setattr(chunks, "APART_BYTES_MIN", 150)
    monkeypatch.setattr(copying, "CHUNK_BYTES", 600)
    for module in (dead, copying, output):
        monkeypatch.setattr(module, "INFLATED_BYTES", 1500)
    monkeypatch.setattr(output, "INDEX_BYTES", INDEX_BYTES)
    monkeypatch.setattr(segment_module, "INDEX_BYTES", INDEX_BYTES)


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
    assert segment.first_timestamp == (batches[0].first_timestamp if batches else -1)
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
            assert batch.position - position < 3 * INDEX_BYTES + batch.size_bytes
    for time_ms in sorted({batch.max_timestamp for batch in batches}):
        first = next(batch for batch in batches if batch.max_timestamp >= time_ms)
        assert index.find_time(time_ms) in starts[: starts.index(first.position) + 1]


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("seed", range(8))
def test_a_peers_segments_are_taken_from_where_the_replica_ends(tmp_path: Path, seed: int) -> None:
    """Batches that end before are left out, one that reaches over is taken whole; tombstones stay."""
    chance = Random(seed)
    peer = Replica(tmp_path / "peer", chance)
    peer.segment_bytes_max = 1000
    peer.append(12)
    peer.compact(chance.randint(1, 12))
    replica = Replica(tmp_path / "replica", chance)
    first = chance.randrange(peer.settled_to)
    pieces = [
        replace(piece, file=None)
        for piece in peer.segment_pieces(peer.segments, clean_to=0)
        if piece.end > first
    ]
    done = replica.run(replica.item(pieces, first=first, end=peer.settled_to, compacts=False))
    assert done.removed == ()
    taken = [
        bytes(batch.buffer[batch.position : batch.position + batch.size_bytes])
        for segment in peer.segments
        for batch in peer.batches(segment)
        if batch.last_offset >= first
    ]
    copied = b"".join(replica.path(segment).read_bytes() for segment in done.added)
    assert copied == b"".join(taken)
    ranges = [(segment.first, segment.end) for segment in done.added]
    assert (ranges[0][0], ranges[-1][1]) == (first, peer.settled_to)
    assert [start for start, _ in ranges[1:]] == [end for _, end in ranges[:-1]]


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("seed", range(30))
def test_damage_stops_a_rewrite_and_leaves_nothing_behind(tmp_path: Path, seed: int) -> None:
    """Any bit of what is rewritten, save an extent's leader epoch, which nothing covers; or the file ends too soon."""
    chance = Random(seed)
    replica = Replica(tmp_path, chance)
    replica.segment_bytes_max = 500
    replica.append(6)
    replica.compact(3)
    replica.settle(2)
    replica.append(2)
    extents = [extent.piece for extent in replica.extents if not extent.is_aborted]
    dirty = replica.segment_pieces([one for one in replica.segments if one.first >= replica.mcco], clean_to=0)
    piece = chance.choice([one for one in (*dirty, *extents) if one.length_bytes])
    damage(chance, Path(piece.path), piece.position, piece.length_bytes, is_extent=piece.file is None)
    before = replica.files()
    compacts = chance.random() < 0.5
    pieces = [*replica.segment_pieces(replica.segments, clean_to=replica.mcco if compacts else 0), *extents]
    item = replica.item(pieces, first=0, end=replica.log_end, compacts=compacts)
    with pytest.raises((CorruptBatch, StoreFailed)):
        replica.run(item)
    assert replica.files() == before


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("seed", range(30))
def test_damage_between_the_passes_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """It stops the rewrite, or lies in what is dropped anyhow: then nothing of it can be seen."""
    chance = Random(seed)
    replica = Replica(tmp_path, chance)
    replica.append(12)
    pieces = [extent.piece for extent in replica.extents if not extent.is_aborted]
    item = replica.item(pieces, first=0, end=replica.log_end, compacts=True)
    sound = [replica.path(each).read_bytes() for each in replica.run(item).added]
    search = dead.DeadSearch.run

    def search_then_damage(self: dead.DeadSearch, sections: Sequence[Section]) -> list[Bits]:
        found = search(self, sections)
        piece = chance.choice(pieces)
        damage(chance, Path(piece.path), piece.position, piece.length_bytes, is_extent=True)
        return found

    monkeypatch.setattr(dead.DeadSearch, "run", search_then_damage)
    try:
        added = replica.run(item).added
    except (CorruptBatch, StoreFailed):
        return
    assert [replica.path(each).read_bytes() for each in added] == sound


@pytest.mark.parametrize("more", [1, -1])
def test_records_must_add_up_in_both_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """The header of a batch that is dropped is not checked again, and says where the next one's records begin."""
    replica = Replica(tmp_path, Random(1))
    replica.append(12)
    pieces = [extent.piece for extent in replica.extents if not extent.is_aborted]
    item = replica.item(pieces, first=0, end=replica.log_end, compacts=True)
    search = dead.DeadSearch.run

    def search_for_others(self: dead.DeadSearch, sections: Sequence[Section]) -> list[Bits]:
        (found,) = search(self, sections)
        rows = found.rows(0, found.count)
        return [Bits.pack(np.append(rows, True) if more > 0 else rows[:-1])]

    monkeypatch.setattr(dead.DeadSearch, "run", search_for_others)
    with pytest.raises(CorruptBatch, match="records now"):
        replica.run(item)


def damage(chance: Random, path: Path, start: int, length_bytes: int, *, is_extent: bool) -> None:
    """Flip one bit of some bytes of a file, or cut the file in the middle of them."""
    data = bytearray(path.read_bytes())
    epochs = {
        start + batch.position + at
        for batch in walk_valid(bytes(data[start : start + length_bytes]))
        for at in range(LEADER_EPOCH_AT, LEADER_EPOCH_AT + 4)
    }
    at = chance.choice([at for at in range(start, start + length_bytes) if not is_extent or at not in epochs])
    if chance.random() < 0.1:
        del data[at:]
    else:
        data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def test_a_tombstone_that_goes_takes_older_records_with_it(tmp_path: Path) -> None:
    """It is forgotten in the same pass in which it shadows: otherwise what it deleted would be back."""
    replica = Replica(tmp_path, Random(1))
    replica.produce(("k", "old"), ("l", "old"))
    replica.settle(1)
    replica.produce(("k", None), ("m", None))
    replica.compact(1, tombstones_end=3)
    assert [record.offset for record in replica.found()] == [1, 3]
    assert replica.found() == replica.expected()


def test_a_clean_segment_that_loses_nothing_stays_as_it_is(tmp_path: Path) -> None:
    """Its file is neither written anew nor given up; one that loses a record is."""
    replica = Replica(tmp_path, Random(1))
    replica.segment_bytes_max = 1
    replica.produce(("a", "1"), ("b", "1"))
    replica.produce(("c", "1"), ("d", "1"))
    replica.compact(2)
    first, second = replica.segments
    replica.produce(("d", "2"), ("e", "1"))
    done = replica.compact(1)
    assert done.removed == (second.file,)
    assert [segment.first for segment in done.added] == [2, 4]
    assert replica.segments[0] == first
    assert [record.offset for record in replica.found()] == [0, 1, 2, 4, 5]


def test_small_neighbours_of_what_is_rewritten_join_it(tmp_path: Path) -> None:
    """Otherwise every pass over a small log would leave one more small segment."""
    replica = Replica(tmp_path, Random(1))
    for number in range(10):
        replica.produce((f"k{number}", "1"))
        replica.compact(1)
        assert len(replica.segments) == 1
    assert len(replica.found()) == 10


def test_batches_that_inflate_a_lot_are_dealt_with_by_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that compress well must not take all memory, and must not stop compaction."""
    for module in (dead, copying, output):
        monkeypatch.setattr(module, "INFLATED_BYTES", 3000)
    replica = Replica(tmp_path, Random(1))
    for number in range(20):
        replica.produce((f"k{number % 7}", "0" * 2500 if number != 7 else None), codec=Codec.ZSTD)
    (segment,) = replica.settle(10).added
    assert segment.first_tombstone == 7
    replica.compact(10)
    assert [record.offset for record in replica.found()] == list(range(13, 20))
    assert replica.found() == replica.expected()


def test_batches_that_are_rebuilt_are_inflated_by_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them loses a record: none is left out, and no more are inflated at once than may be."""
    for module in (dead, copying, output):
        monkeypatch.setattr(module, "INFLATED_BYTES", 3000)
    replica = Replica(tmp_path, Random(1))
    for number in range(10):
        replica.produce(("same", "0" * 1200), (f"k{number}", "0" * 1200), codec=Codec.ZSTD)
    done = replica.compact(10)
    assert done.counts["batches_rebuilt"] == 9
    assert replica.found() == replica.expected()
    assert len(replica.found()) == 11


def test_a_damaged_index_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment is cut where its index says; without one it is walked through. It is lost, cut off, or another's."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 600)
    replica = Replica(tmp_path, Random(1))
    replica.append(20)
    replica.settle(20)
    (segment,) = replica.segments
    assert segment.length_bytes > 3000
    index = index_path(replica.path(segment))
    other = SegmentIndex([(0, 1, 0)], length_bytes=1).encode()
    for content in (None, index.read_bytes()[:-1], other):
        index.unlink()
        if content is not None:
            index.write_bytes(content)
        item = replica.item(
            replica.segment_pieces([segment], clean_to=0), first=0, end=segment.end, compacts=False
        )
        (copied,) = replica.run(item).added
        assert copied.crc == segment.crc
        assert SegmentIndex.load(index).length_bytes == segment.length_bytes


def test_a_range_without_records_has_an_empty_segment(tmp_path: Path) -> None:
    """All of it was aborted, or deleted: who reads on finds out where it ends."""
    replica = Replica(tmp_path, Random(1))
    replica.produce(("k", "1"), ("k", None))
    replica.compact(1, tombstones_end=2)
    (segment,) = replica.segments
    assert (segment.first, segment.end, segment.length_bytes, segment.records) == (0, 2, 0, 0)
    assert (segment.max_timestamp, segment.first_tombstone, segment.crc) == (-1, -1, 0)
    replica.produce(("l", "1"))
    replica.compact(1)
    assert [record.offset for record in replica.found()] == [2]

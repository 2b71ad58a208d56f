"""A segment's index: a walk from where it points finds what a walk from the start would find."""

import logging
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptBatch, CorruptIndex, FormatTooNew, StoreFailed
from holdfast.records.crc import crc32c
from holdfast.records.walk import walk
from holdfast.store.segment import segment_path
from holdfast.store.segment_index import (
    ENTRY_BYTES,
    HEADER_BYTES,
    INDEX_BYTES,
    VERSION,
    IndexEntry,
    SegmentIndex,
    index_entries,
    index_path,
    rebuild_index,
)
from tests.store.segments import FILE, in_pieces, random_batches, write_segment

SEED = 20_260_302
INT64 = st.integers(-(2**63), 2**63 - 1)


def _saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _first_position(segment: bytes, begin: int, *, offset: int = -1, timestamp: int = -2) -> int | None:
    """Where a walk from `begin` on comes to a batch that holds the offset or follows it, and to the time."""
    for batch in walk(segment, position=begin):
        if batch.last_offset >= offset and batch.max_timestamp >= timestamp:
            return batch.position
    return None


@pytest.mark.parametrize("seed", range(SEED, SEED + 12))
def test_every_offset_and_time_is_found(tmp_path: Path, seed: int) -> None:
    """For all offsets and times, those between and outside of the batches included; and little is walked over."""
    chance = Random(seed)
    batches = random_batches(chance, chance.choice([1, 3, 40, 150]))
    segment = b"".join(batches)
    write_segment(tmp_path, in_pieces(chance, batches))
    index = SegmentIndex.load(index_path(segment_path(tmp_path, FILE)))
    views = list(walk(segment))
    largest = max(batch.size_bytes for batch in views)
    for offset in {0, 2**62} | {batch.base_offset + by for batch in views for by in (-1, 0, 1, 40)}:
        begin = index.find(offset)
        found = _first_position(segment, begin, offset=offset)
        assert found == _first_position(segment, 0, offset=offset), f"offset {offset}"
        if found is not None:
            assert found - begin < 2 * INDEX_BYTES + 2 * largest
    for timestamp in {-1, 0, 10_000} | {batch.max_timestamp + by for batch in views for by in (-1, 0, 1)}:
        found = _first_position(segment, index.find_time(timestamp), timestamp=timestamp)
        assert found == _first_position(segment, 0, timestamp=timestamp), f"time {timestamp}"


@given(st.lists(st.tuples(INT64, INT64, INT64), max_size=40), st.integers(0, 2**63))
def test_an_index_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int, int]], length_bytes: int
) -> None:
    """Any numbers survive, and the size on disk is what it says."""
    index = SegmentIndex(entries, length_bytes=length_bytes)
    data = index.encode()
    assert len(data) == index.size_bytes == HEADER_BYTES + ENTRY_BYTES * len(entries)
    loaded = SegmentIndex.load(_saved(tmp_path_factory.mktemp("index") / "i", data))
    assert (loaded.entries, loaded.length_bytes) == (entries, length_bytes)


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    """Big-endian, column by column, as the documentation has it."""
    data = SegmentIndex([(1, 2, 3), (4, 5, -1)], length_bytes=77).encode()
    columns = b"".join(value.to_bytes(8, "big", signed=True) for value in (1, 4, 2, 5, 3, -1))
    head = b"HOLDFAST" + b"\0\2" + b"\0\1" + (2).to_bytes(4, "big") + (77).to_bytes(8, "big")
    head += crc32c(columns).to_bytes(4, "big")
    assert data == head + crc32c(head).to_bytes(4, "big") + columns
    assert SegmentIndex.load(_saved(tmp_path / "i", data)).entries == [(1, 2, 3), (4, 5, -1)]


def test_damage_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    """Every flipped bit, every length that is not the right one, and noise."""
    data = SegmentIndex([(number, number, number) for number in range(5)], length_bytes=99).encode()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(CorruptIndex):
            SegmentIndex.load(_saved(tmp_path / "i", bytes(damaged)))
        with pytest.raises(CorruptIndex):
            SegmentIndex.load(_saved(tmp_path / "i", data[:position]))
    for more in (b"\0", Random(SEED).randbytes(500), data):
        with pytest.raises(CorruptIndex):
            SegmentIndex.load(_saved(tmp_path / "i", data + more))
    with pytest.raises(CorruptIndex, match="not an index"):
        SegmentIndex.load(_saved(tmp_path / "i", Random(SEED).randbytes(500)))
    with pytest.raises(CorruptIndex, match="not an index"):
        SegmentIndex.load(_saved(tmp_path / "i", bytes(500)))


def test_a_newer_version_is_refused_and_a_missing_file_is_told(tmp_path: Path) -> None:
    """Neither is damage."""
    newer = bytearray(SegmentIndex([], length_bytes=0).encode())
    newer[10:12] = (VERSION + 1).to_bytes(2, "big")
    newer[-4:] = crc32c(newer[:-4]).to_bytes(4, "big")
    with pytest.raises(FormatTooNew, match="use a newer Holdfast"):
        SegmentIndex.load(_saved(tmp_path / "i", bytes(newer) + b"something else"))
    with pytest.raises(StoreFailed, match=r"cannot read .*nowhere"):
        SegmentIndex.load(tmp_path / "nowhere")


@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
def test_an_index_is_made_anew_from_its_segment(tmp_path: Path, seed: int) -> None:
    """It has the entries of a segment that was written in one piece, on disk and in memory."""
    segment = b"".join(random_batches(Random(seed), 60))
    write_segment(tmp_path, [segment])
    path = segment_path(tmp_path, FILE)
    before = index_path(path).read_bytes()
    index_path(path).unlink()
    assert rebuild_index(path).entries == index_entries(segment)
    assert index_path(path).read_bytes() == before
    assert not list(path.parent.glob("*.tmp"))


def test_an_empty_segment_has_an_empty_index(tmp_path: Path) -> None:
    """There is nothing to map."""
    write_segment(tmp_path, [])
    path = segment_path(tmp_path, FILE)
    assert (rebuild_index(path).entries, rebuild_index(path).length_bytes) == ([], 0)


def test_a_damaged_segment_has_no_index(tmp_path: Path) -> None:
    """The path and the position are named; nothing is written."""
    segment = b"".join(random_batches(Random(SEED), 10))
    path = _saved(tmp_path / "s.log", segment[:-1])
    with pytest.raises(StoreFailed, match=r"s\.log is damaged: .* only"):
        rebuild_index(path)
    with pytest.raises(StoreFailed, match=r"s\.log is damaged"):
        rebuild_index(_saved(path, segment + Random(SEED).randbytes(100)))
    assert not index_path(path).exists()
    with pytest.raises(StoreFailed, match=r"cannot read .*none\.log"):
        rebuild_index(tmp_path / "none.log")
    with pytest.raises(CorruptBatch):
        index_entries(segment[:-1])


def test_an_index_that_cannot_be_written_serves_from_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is full or read-only does not stop readers."""
    segment = b"".join(random_batches(Random(SEED), 10))
    path = _saved(tmp_path / "s.log", segment)
    index_path(path).with_suffix(".tmp").mkdir()
    with caplog.at_level(logging.WARNING):
        assert rebuild_index(path).entries == index_entries(segment)
    assert "kept in memory only" in caplog.text


def test_no_index_is_left_of_a_segment_that_is_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one who made it anew is the last, and sees to it."""
    segment = b"".join(random_batches(Random(SEED), 10))
    path = _saved(tmp_path / "s.log", segment)
    rename = Path.rename

    def delete_first(draft: Path, target: Path) -> Path:
        path.unlink()
        return rename(draft, target)

    monkeypatch.setattr(Path, "rename", delete_first)
    assert rebuild_index(path).entries == index_entries(segment)
    assert list(tmp_path.iterdir()) == []


def test_entries_are_thinned_and_carry_the_greatest_time() -> None:
    """One for the first batch, then one for each that begins 16 KiB after the last entry, or later."""
    batches = random_batches(Random(SEED), 80)
    segment = b"".join(batches)
    expected: list[IndexEntry] = []
    greatest = 1234
    for batch in walk(segment):
        greatest = max(greatest, batch.max_timestamp)
        if not expected or batch.position >= expected[-1].position + INDEX_BYTES:
            expected.append(IndexEntry(batch.base_offset, batch.position, greatest))
    assert index_entries(segment, max_timestamp=1234) == expected
    assert index_entries(memoryview(segment), max_timestamp=1234) == expected
    assert len(expected) > 10

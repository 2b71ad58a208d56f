"""The memory for keys is bounded: with too little of it a log is gone through several times, and no more than that."""

import os
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest

from holdfast.errors import KeyTooLarge
from holdfast.keeper import chunks
from holdfast.keeper.chunks import ChunkReader
from holdfast.keeper.task import rewrite
from tests.keeper.replica import Replica


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut would take is not asked for here, and disks are slow."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)


def test_keys_that_do_not_fit_are_gone_through_in_several_passes(tmp_path: Path) -> None:
    """As many as it takes; each part of the keys sees every record of its own, and the tombstones go once."""
    replica = Replica(tmp_path, Random(1))
    for lap in range(2):
        for number in range(0, 300, 10):
            value = None if lap == 1 and number % 20 == 0 else str(lap)
            replica.produce(*((f"{key:050d}", value) for key in range(number, number + 10)))
    replica.map_bytes_max = 4096
    done = replica.compact(60, tombstones_end=350)
    assert done.counts["passes"] >= 8
    assert done.counts["records_read"] == 600
    assert done.counts["tombstones_dropped"] == 30
    assert replica.found() == replica.expected()
    assert len(replica.found()) == 270


def test_a_map_of_nothing_is_as_small_as_a_map_can_be(tmp_path: Path) -> None:
    """Who sets it to 0 gets many passes, not an error."""
    replica = Replica(tmp_path, Random(1))
    for number in range(200):
        replica.produce((f"{number % 100:020d}", str(number)))
    replica.map_bytes_max = 0
    assert replica.compact(200).counts["passes"] > 1
    assert replica.found() == replica.expected()


def test_one_key_that_does_not_fit_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of passes helps: it is said the first time that the key is met, and nothing is left behind."""
    replica = Replica(tmp_path, Random(1))
    replica.produce(("k" * 4000, "1"))
    for number in range(100):
        replica.produce((f"{number:020d}", "1"))
    replica.map_bytes_max = 2048
    read = ChunkReader.read
    reads = 0

    def count(reader: ChunkReader, chunk: chunks.Chunk) -> memoryview:
        nonlocal reads
        reads += 1
        return read(reader, chunk)

    monkeypatch.setattr(chunks, "CHUNK_BYTES", 600)
    monkeypatch.setattr(ChunkReader, "read", count)
    with pytest.raises(KeyTooLarge, match=r"4000 bytes .* 2048: raise map_bytes_max"):
        replica.compact(101)
    assert reads < 10 * len(chunks.cut([extent.piece for extent in replica.extents]))
    assert replica.files() == set()


def test_the_longest_key_that_fits(tmp_path: Path) -> None:
    """A map takes one that leaves room for the smallest table, and none that is a byte longer."""
    room_bytes = 2048 - 64 * 8 - 8 - 4
    for key_bytes in (room_bytes, room_bytes + 1):
        replica = Replica(tmp_path / str(key_bytes), Random(1))
        replica.produce(("k" * key_bytes, "1"), ("k" * key_bytes, "2"))
        replica.map_bytes_max = 2048
        if key_bytes == room_bytes:
            assert replica.compact(1).counts["records_kept"] == 1
        else:
            with pytest.raises(KeyTooLarge):
                replica.compact(1)


def test_progress_ends_at_the_end_however_many_passes_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that was in vain is taken back."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 600)
    replica = Replica(tmp_path, Random(1))
    for number in range(300):
        replica.produce((f"{number % 200:050d}", "1"))
    replica.map_bytes_max = 4096
    item = replica.item(replica._taken(300), first=0, end=300, compacts=True)
    done: list[int] = []
    counts = rewrite(item, seed=1, on_progress=done.append).counts
    assert counts["passes"] >= 4
    assert min(done) < 0
    assert 0 <= 2 * item.size_bytes - sum(done) < len(done)
    assert max(accumulate(done)) <= 2 * item.size_bytes

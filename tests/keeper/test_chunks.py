"""Pieces are cut into chunks of bounded size, where batches begin."""

import mmap
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from holdfast.errors import CorruptBatch, StoreFailed
from holdfast.keeper import chunks
from holdfast.keeper.chunks import Chunk, ChunkReader, cut
from holdfast.records.kernel.load import Batches, locate
from holdfast.records.walk import walk_valid
from holdfast.store.segment_index import INDEX_BYTES
from tests.keeper.replica import Replica

CHUNK_BYTES = 2000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few batches fill one."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", CHUNK_BYTES)


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    """Many small extents, some of them of several batches."""
    replica = Replica(tmp_path, Random(3))
    replica.append(300)
    return replica


def read(chunk: Chunk) -> bytes:
    return bytes(ChunkReader().read(chunk))


def test_extents_share_chunks(replica: Replica) -> None:
    """All of them in order, as many at once as there is room for."""
    pieces = [extent.piece for extent in replica.extents if not extent.is_aborted]
    made = cut(pieces)
    assert b"".join(map(read, made)) == b"".join(
        Path(piece.path).read_bytes()[piece.position : piece.position + piece.length_bytes]
        for piece in pieces
    )
    assert all(chunk.size_bytes <= CHUNK_BYTES for chunk in made)
    assert all(one.size_bytes + other.size_bytes > CHUNK_BYTES for one, other in pairwise(made))
    starts = [pieces[chunk.piece] for chunk in made]
    assert [piece.position for piece in starts] == [chunk.slices[0].position for chunk in made]


def test_a_large_segment_is_cut_where_its_index_says(replica: Replica) -> None:
    """Chunks are a little larger than they should be, never the whole segment, and begin with a batch."""
    replica.settle(len(replica.extents))
    (segment,) = replica.segments
    assert segment.length_bytes > 3 * INDEX_BYTES
    made = cut(replica.segment_pieces([segment], clean_to=0))
    assert b"".join(map(read, made)) == replica.path(segment).read_bytes()
    assert len(made) > 2
    assert all(chunk.size_bytes < CHUNK_BYTES + 2 * INDEX_BYTES for chunk in made)


def test_halves_are_chunks_too(replica: Replica) -> None:
    """Down to single batches: together they have what the whole had, and each holds to its own offsets."""
    replica.settle(100)
    pieces = [
        *replica.segment_pieces(replica.segments, clean_to=0),
        *(extent.piece for extent in replica.extents if not extent.is_aborted),
    ]
    for chunk in cut(pieces):
        parts = [chunk]
        for _ in range(10):
            parts = [
                half
                for part in parts
                for half in (part.halved(memoryview(read(part))) if len(batches(part)) > 1 else (part,))
            ]
        assert b"".join(map(read, parts)) == read(chunk)
        assert all(len(batches(part)) == 1 for part in parts)


def batches(chunk: Chunk) -> list[int]:
    return [batch.base_offset for batch in walk_valid(read(chunk))]


def test_what_is_not_there_is_named(replica: Replica, tmp_path: Path) -> None:
    """A file that is gone, or ends too soon."""
    (chunk, *_) = cut([extent.piece for extent in replica.extents])
    path = Path(chunk.slices[0].path)
    path.write_bytes(path.read_bytes()[: chunk.slices[-1].position + 1])
    with pytest.raises(StoreFailed, match="ends before byte"):
        read(chunk)
    path.unlink()
    with pytest.raises(StoreFailed, match="No such file"):
        read(chunk)


def test_a_chunk_in_one_piece_is_not_copied(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in a file it begins; it is what a read would give, and stays when its file is deleted."""
    replica.settle(len(replica.extents))
    (segment,) = replica.segments
    made = cut(replica.segment_pieces([segment], clean_to=0))
    with monkeypatch.context() as patched:
        patched.setattr(chunks, "_map", lambda parts: None)
        copied = [read(chunk) for chunk in made]
    monkeypatch.setattr(chunks, "_read_into", lambda target, part: pytest.fail("it is copied"))
    mapped = [ChunkReader().read(chunk) for chunk in made]
    replica.path(segment).unlink()
    assert [bytes(view) for view in mapped] == copied
    assert all(view.readonly for view in mapped)


def batches_in(found: Batches) -> bytes:
    source, table = locate(found)
    places = zip(table["position"], table["size_bytes"], strict=True)
    return b"".join(source[start : start + size].tobytes() for start, size in places)


def apart(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> list[Chunk]:
    """Chunks of several slices with something between them."""
    monkeypatch.setattr(chunks, "APART_BYTES_MIN", 1)
    made = cut([extent.piece for extent in replica.extents if not extent.is_aborted])
    return [
        chunk
        for chunk in made
        if any(one.position + one.length_bytes < other.position for one, other in pairwise(chunk.slices))
    ]


def test_slices_that_lie_apart_are_not_copied(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their batches are found between what is others', whatever that is; halves know where to cut."""
    made = apart(replica, monkeypatch)
    assert len(made) > 10
    copied = [read(chunk) for chunk in made]
    halves = [chunk.halved(memoryview(whole)) for chunk, whole in zip(made, copied, strict=True)]
    path = Path(made[0].slices[0].path)
    whole = bytearray(path.read_bytes())
    for chunk in made:
        for one, other in pairwise(chunk.slices):
            start = one.position + one.length_bytes
            whole[start : other.position] = bytes(other.position - start)
    path.write_bytes(whole)
    monkeypatch.setattr(chunks, "_read_into", lambda target, part: pytest.fail("it is copied"))
    found = [ChunkReader().find(chunk) for chunk in made]
    assert [batches_in(each) for each in found] == copied
    assert [chunk.halved(each) for chunk, each in zip(made, found, strict=True)] == halves


def test_small_slices_and_those_of_several_files_are_copied(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find them one by one would take longer, and a map has one file."""
    (chunk, *_) = apart(replica, monkeypatch)
    elsewhere = Path(chunk.slices[0].path).with_name("2.journal")
    elsewhere.write_bytes(Path(chunk.slices[0].path).read_bytes())
    scattered = replace(chunk, slices=(*chunk.slices[:-1], replace(chunk.slices[-1], path=str(elsewhere))))
    assert isinstance(ChunkReader().find(scattered), memoryview)
    monkeypatch.setattr(chunks, "APART_BYTES_MIN", chunk.size_bytes)
    assert isinstance(ChunkReader().find(chunk), memoryview)


def test_what_is_wrong_with_slices_that_lie_apart_is_found(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other offsets than they should hold, no batch, or an end too soon."""
    chunk = apart(replica, monkeypatch)[-1]
    for number, part in enumerate(chunk.slices):
        others = replace(part, first=part.first + 1)
        slices = (*chunk.slices[:number], others, *chunk.slices[number + 1 :])
        with pytest.raises(CorruptBatch, match="holds other offsets"):
            ChunkReader().find(replace(chunk, slices=slices))
    first, last = chunk.slices[0], chunk.slices[-1]
    with Path(first.path).open("r+b") as file:
        file.seek(last.position + 16)
        file.write(b"\x07")
    with pytest.raises(CorruptBatch, match="v2") as found:
        ChunkReader().find(chunk)
    assert found.value.position == last.position - first.position
    os.truncate(first.path, last.position + 1)
    with pytest.raises(StoreFailed, match="ends before byte"):
        ChunkReader().find(chunk)


def test_what_cannot_be_mapped_is_read(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that cannot ask for all pages at once, where to look at a bad one would kill the process."""
    replica.settle(len(replica.extents))
    made = cut(replica.segment_pieces(replica.segments, clean_to=0))
    expected = [read(chunk) for chunk in made]
    monkeypatch.setattr(chunks, "MADV_POPULATE_READ", 9999)
    assert chunks._map(made[0].slices) is None
    assert [read(chunk) for chunk in made] == expected


def test_a_file_that_is_cut_off_is_refused_and_kills_nobody(replica: Replica) -> None:
    """To map what is not there and to look at it would end the process; so would a page that is gone by then."""
    replica.settle(len(replica.extents))
    (segment,) = replica.segments
    (chunk, *_) = cut(replica.segment_pieces([segment], clean_to=0))
    for length in (chunk.size_bytes - 1, 100, 0):
        os.truncate(replica.path(segment), length)
        with pytest.raises(StoreFailed, match="ends before byte"):
            ChunkReader().read(chunk)


def test_every_page_is_asked_for_before_it_is_looked_at(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails is refused then, and read: that says what is wrong with it."""
    replica.settle(len(replica.extents))
    (segment,) = replica.segments
    (chunk, *_) = cut(replica.segment_pieces([segment], clean_to=0))
    path = replica.path(segment)

    class Shrinking(mmap.mmap):
        def madvise(self, *how: int) -> None:
            os.truncate(path, 0)
            super().madvise(*how)

    monkeypatch.setattr("holdfast.keeper.chunks.mmap.mmap", Shrinking)
    with pytest.raises(StoreFailed, match="ends before byte"):
        ChunkReader().read(chunk)

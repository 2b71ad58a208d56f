"""Segments: written once, durable before anybody is told, nothing left of those that were given up."""

import errno
import os
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import StoreFailed
from holdfast.records.crc import crc32c
from holdfast.store.segment import (
    SegmentName,
    SegmentWriter,
    parse_segment_file,
    segment_file,
    segment_path,
)
from holdfast.store.segment_index import INDEX_BYTES, IndexEntry, SegmentIndex, index_path
from tests.store.segments import FILE, append_pieces, in_pieces, random_batches, write_segment

SEED = 20_260_301


def _files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def _write(writer: SegmentWriter, pieces: list[bytes]) -> None:
    append_pieces(writer, pieces)
    writer.finish()


@given(
    topic_id=st.uuids(),
    partition=st.integers(0, 2**31 - 1),
    base=st.integers(0, 2**63 - 1),
    lease=st.integers(0, 2**62),
    unique=st.text("0123456789abcdefxyz", min_size=1, max_size=64),
)
def test_a_name_says_what_it_was_made_of(
    topic_id: UUID, partition: int, base: int, lease: int, unique: str
) -> None:
    """Names sort by their base offset, and all parts come back."""
    file = segment_file(topic_id, partition, base, lease, unique)
    assert parse_segment_file(file) == SegmentName(
        topic_id=topic_id, partition=partition, base=base, lease=lease, unique=unique
    )
    assert file.startswith(f"{topic_id.hex}/{partition}/{base:020d}.")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        FILE + "/..",
        "../" + FILE,
        "/" + FILE,
        FILE.replace(".log", ".index"),
        FILE.replace("7-5f3c", "7-../x"),
        FILE.replace("7-5f3c", "7-5F3C"),
        FILE.replace("7-5f3c", "-1-5f3c"),
        FILE + "\n",
    ],
)
def test_a_name_of_something_else_is_refused(name: str, tmp_path: Path) -> None:
    """Nothing outside of the segments is ever named, read or deleted."""
    with pytest.raises(StoreFailed, match="not the name of a segment"):
        parse_segment_file(name)
    with pytest.raises(StoreFailed, match="not the name of a segment"):
        segment_path(tmp_path, name)
    with pytest.raises(StoreFailed, match="not the name of a segment"):
        SegmentWriter(tmp_path, name)


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_what_was_appended_is_the_file(tmp_path: Path, seed: int) -> None:
    """Byte for byte, with its length and its checksum, however it was cut into pieces."""
    chance = Random(seed)
    batches = random_batches(chance, chance.choice([1, 5, 60]))
    written = write_segment(tmp_path, in_pieces(chance, batches))
    content = segment_path(tmp_path, FILE).read_bytes()
    assert content == b"".join(batches)
    assert (written.file, written.length_bytes, written.crc) == (FILE, len(content), crc32c(content))
    index = SegmentIndex.load(index_path(segment_path(tmp_path, FILE)))
    assert index.length_bytes == len(content)
    gaps = [b.position - a.position for a, b in zip(index.entries, index.entries[1:], strict=False)]
    assert all(gap >= INDEX_BYTES for gap in gaps)
    assert len(index.entries) <= len(content) // INDEX_BYTES + 1


def test_a_segment_may_be_empty(tmp_path: Path) -> None:
    """A stretch of offsets of which no record is left."""
    written = write_segment(tmp_path, [])
    assert (written.length_bytes, written.crc) == (0, 0)
    assert _files(tmp_path) == sorted([Path(FILE).name, Path(FILE).with_suffix(".index").name])
    index = SegmentIndex.load(index_path(segment_path(tmp_path, FILE)))
    assert (index.entries, index.find(5), index.find_time(5), index.length_bytes) == ([], 0, 0, 0)


def test_all_is_synced_before_finish_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the batches, then the index, then their names."""
    synced: list[tuple[str, int]] = []

    def watch(file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        synced.append((path.suffix, os.fstat(file).st_size if path.is_file() else 0))

    pieces = in_pieces(Random(SEED), random_batches(Random(SEED), 30))
    writer = SegmentWriter(tmp_path, FILE)
    append_pieces(writer, pieces)
    monkeypatch.setattr(os, "fdatasync", watch)
    monkeypatch.setattr(os, "fsync", watch)
    length_bytes = writer.finish().length_bytes
    index_bytes = index_path(segment_path(tmp_path, FILE)).stat().st_size
    assert synced == [(".log", length_bytes), (".index", index_bytes), ("", 0)]


def test_what_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    """By hand, twice, or by an error in the block; a finished one stays."""
    pieces = [b"".join(random_batches(Random(SEED), 3))]
    writer = SegmentWriter(tmp_path, FILE)
    append_pieces(writer, pieces)
    writer.abandon()
    writer.abandon()
    assert _files(tmp_path) == []
    with pytest.raises(AssertionError), SegmentWriter(tmp_path, FILE) as writer:
        writer.append(pieces[0], [(0, -1, 0)])
    assert _files(tmp_path) == []
    with SegmentWriter(tmp_path, FILE) as writer:
        append_pieces(writer, pieces)
        writer.finish()
    assert len(_files(tmp_path)) == 2


def test_a_name_is_used_once(tmp_path: Path) -> None:
    """What is there is neither overwritten nor taken away."""
    written = write_segment(tmp_path, random_batches(Random(SEED), 3))
    with pytest.raises(StoreFailed, match=r"cannot begin .*File exists"):
        SegmentWriter(tmp_path, FILE)
    assert segment_path(tmp_path, FILE).stat().st_size == written.length_bytes


@pytest.mark.parametrize("function", ["pwritev", "fdatasync", "fsync"])
def test_a_full_or_broken_disk_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Whichever call fails, nobody is told of a segment, and nothing is left once it is abandoned."""

    def failing(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = SegmentWriter(tmp_path, FILE)
    monkeypatch.setattr(os, function, failing)
    with pytest.raises(StoreFailed, match=r"\.log: No space left"):
        _write(writer, random_batches(Random(SEED), 2))
    monkeypatch.undo()
    writer.abandon()
    assert _files(tmp_path) == []


def test_a_segment_that_was_deleted_meanwhile_is_not_finished(tmp_path: Path) -> None:
    """Whoever takes it for nobody's file must not make a published one of it."""
    writer = SegmentWriter(tmp_path, FILE)
    append_pieces(writer, random_batches(Random(SEED), 2))
    segment_path(tmp_path, FILE).unlink()
    with pytest.raises(StoreFailed, match="deleted while it was written"):
        writer.finish()


def test_a_folder_that_goes_away_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last segment of the partition is deleted, and the folder with it, just before the new one is opened."""
    folder = segment_path(tmp_path, FILE).parent
    taken: list[Path] = []
    open_file = os.open

    def take_away(path: Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).suffix == ".log" and not taken:
            taken.append(folder)
            folder.rmdir()
            folder.parent.rmdir()
        return open_file(path, flags, mode)

    monkeypatch.setattr(os, "open", take_away)
    written = write_segment(tmp_path, [])
    assert taken
    assert segment_path(tmp_path, written.file).exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (IndexEntry(5, 0, 9), IndexEntry(5, 20_000, 9)),
        (IndexEntry(5, 0, 9), IndexEntry(6, 20_000, 8)),
        (IndexEntry(5, 0, 9), IndexEntry(6, 40_000, 9)),
        (IndexEntry(5, 0, 9), IndexEntry(6, -1, 9)),
    ],
)
def test_entries_out_of_order_are_a_bug_of_the_caller(
    tmp_path: Path, before: IndexEntry, after: IndexEntry
) -> None:
    """An index that does not rise, or that points out of the buffer, would lead readers past records."""
    writer = SegmentWriter(tmp_path, FILE)
    with pytest.raises(AssertionError):
        writer.append(bytes(40_000), [before, after])

"""The segments of a local store: what is kept of their indexes, and a deletion that races with who makes one anew."""

from pathlib import Path
from random import Random

import pytest

from holdfast.store.open_files import OpenFiles
from holdfast.store.segment import segment_file, segment_path
from holdfast.store.segment_index import index_path, rebuild_index
from holdfast.store.segments import Segments, delete_folder, delete_segment, scan_segments
from tests.store.frames import TOPIC
from tests.store.segments import FILE, random_batches, write_segment

SEED = 20_260_306


def test_indexes_are_kept_within_bounds(tmp_path: Path) -> None:
    """Those that were asked for last stay; the others are read again."""
    files = [segment_file(TOPIC, 0, number, 1, "a") for number in range(6)]
    for file in files:
        write_segment(tmp_path, [b"".join(random_batches(Random(SEED), 30))], file)
    size_bytes = Segments(tmp_path, OpenFiles()).index(files[0]).size_bytes
    segments = Segments(tmp_path, OpenFiles(), index_bytes_max=3 * size_bytes)
    indexes = {file: segments.index(file) for file in files[:3]}
    assert [segments.index(file) is indexes[file] for file in files[:3]] == [True, True, True]
    segments.index(files[0])
    segments.index(files[3])
    assert segments.index(files[0]) is indexes[files[0]]
    assert segments.index(files[1]) is not indexes[files[1]]
    for file in files * 3:
        assert segments.index(file).entries == indexes[files[0]].entries
    segments.delete(files[5])
    write_segment(tmp_path, [], files[5])
    assert segments.index(files[5]).entries == []


def test_an_index_larger_than_the_bound_is_used_and_not_kept(tmp_path: Path) -> None:
    """Memory is bounded, whatever the segments are."""
    write_segment(tmp_path, [b"".join(random_batches(Random(SEED), 30))])
    segments = Segments(tmp_path, OpenFiles(), index_bytes_max=10)
    assert segments.index(FILE) is not segments.index(FILE)
    assert segments.index(FILE).entries


def test_an_index_that_is_made_anew_during_the_deletion_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its maker saw the segment and cannot know: the deletion comes back for it."""
    write_segment(tmp_path, [b"".join(random_batches(Random(SEED), 3))])
    path = segment_path(tmp_path, FILE)
    unlink = Path.unlink

    def unlink_late(file: Path, missing_ok: bool = False) -> None:
        if file == path:
            assert not index_path(path).exists()
            rebuild_index(path)
        unlink(file, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_late)
    Segments(tmp_path, OpenFiles()).delete(FILE)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_folders_that_were_left_empty_are_found_and_deleted(tmp_path: Path) -> None:
    """Of partitions and of topics, and neither those with something in them nor files."""
    assert scan_segments(tmp_path) == (set(), [])
    write_segment(tmp_path, [])
    root = tmp_path / "segments"
    (root / "topic" / "0").mkdir(parents=True)
    (root / "topic" / "1").mkdir()
    (root / "lone").mkdir()
    (root / "stray").touch()
    (root / "lone.txt").touch()
    found = scan_segments(tmp_path)
    assert found.files == {FILE}
    assert sorted(found.empty_folders) == ["lone", "topic/0", "topic/1"]
    (root / "topic" / "1" / "late.log").touch()
    for folder in found.empty_folders:
        delete_folder(tmp_path, folder)
    delete_folder(tmp_path, "topic/0")
    assert sorted(path.name for path in root.iterdir()) == sorted(
        [FILE.split("/")[0], "topic", "stray", "lone.txt"]
    )
    assert [path.name for path in (root / "topic").iterdir()] == ["1"]
    (root / "topic" / "1" / "late.log").unlink()
    delete_folder(tmp_path, "topic/1")
    assert not (root / "topic").exists()


def test_the_last_segment_takes_its_folders_along(tmp_path: Path) -> None:
    """Of the partition, and of the topic if it was the last one there."""
    other = FILE.replace("/0/", "/1/")
    for file in (FILE, other):
        write_segment(tmp_path, [], file)
    assert delete_segment(tmp_path, FILE) > 0
    topic = segment_path(tmp_path, FILE).parent.parent
    assert [path.name for path in topic.iterdir()] == ["1"]
    delete_segment(tmp_path, other)
    assert delete_segment(tmp_path, other) == 0
    assert not topic.exists()

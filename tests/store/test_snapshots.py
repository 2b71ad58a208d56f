"""Snapshots in a store: sealed, copied if they are whole, and two of them before any journal goes."""

import json
import os
from pathlib import Path

import pytest

from holdfast.errors import StoreFailed
from holdfast.records.crc import crc32c
from holdfast.store.snapshots import Snapshots


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    """Those of a store that has none yet."""
    return Snapshots(tmp_path)


def _save(snapshots: Snapshots, frame: int, content: bytes = b"control plane") -> Path:
    def write(path: Path) -> int:
        path.write_bytes(content)
        return frame

    assert snapshots.save(write) == frame
    return snapshots.path_of(frame)


def test_a_snapshot_is_named_by_the_frame_that_it_is_as_of(snapshots: Snapshots) -> None:
    """Frames may have been applied since it was asked for; length and CRC lie beside it."""
    path = _save(snapshots, 77, b"x" * 3_000_000)
    assert path.name == "00000000000000000077.db"
    seal = json.loads(path.with_suffix(".json").read_text())
    assert seal == {"format": 1, "length_bytes": 3_000_000, "crc": crc32c(b"x" * 3_000_000)}
    assert sorted(file.suffix for file in path.parent.iterdir()) == [".db", ".json"]
    assert snapshots.frames() == [77]


def test_bytes_and_seal_are_durable_before_the_name(
    snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is listed is whole, whenever the power goes."""
    _save(snapshots, 1)
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def watch_sync(file: int) -> None:
        done.append(Path(f"/proc/self/fd/{file}").readlink().name)
        fsync(file)

    def watch_rename(path: Path, target: Path) -> Path:
        done.append(f"{path.name} to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", watch_sync)
    monkeypatch.setattr(Path, "rename", watch_rename)
    name = _save(snapshots, 2).stem
    draft, seal = f"{name}.tmp", f"{name}.tmp to {name}.json"
    assert done == [draft, seal, "snapshot", "draft.db", f"draft.db to {name}.db", "snapshot"]


def test_a_second_snapshot_of_the_same_frame_changes_nothing(snapshots: Snapshots) -> None:
    """Other bytes may mean the same; the seal stays that of the first ones."""
    path = _save(snapshots, 5, b"first")
    _save(snapshots, 5, b"second")
    assert path.read_bytes() == b"first"
    snapshots.copy(5, path.with_name("copy"))
    assert not path.with_name("draft.db").exists()


def test_a_snapshot_is_copied(snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All bytes, durably; one without a seal was put back by hand and is taken as it is."""
    content = os.urandom(2_500_000)
    path = _save(snapshots, 5, content)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    snapshots.copy(5, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content
    assert synced == [len(content)]
    path.with_suffix(".json").unlink()
    path.write_bytes(b"put back")
    snapshots.copy(5, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"put back"


@pytest.mark.parametrize("content", [b"", b"control plan", b"control plane ", b"control planE"])
def test_a_damaged_snapshot_is_not_copied(snapshots: Snapshots, tmp_path: Path, content: bytes) -> None:
    """SQLite would notice neither a flipped bit in a row nor, at times, a lost page."""
    _save(snapshots, 5).write_bytes(content)
    with pytest.raises(StoreFailed, match=r"00005\.db is damaged"):
        snapshots.copy(5, tmp_path / "copy")


@pytest.mark.parametrize("seal", ["", "[]", "{}", '{"format": "1"}', '{"format": 1, "crc": 3}'])
def test_a_damaged_seal_is_refused(snapshots: Snapshots, tmp_path: Path, seal: str) -> None:
    """It is named; so is one of a newer Holdfast, and a snapshot that is not there."""
    path = _save(snapshots, 5)
    path.with_suffix(".json").write_text(seal)
    with pytest.raises(StoreFailed, match=r"00005\.json is not readable"):
        snapshots.copy(5, tmp_path / "copy")
    path.with_suffix(".json").write_text('{"format": 2}')
    with pytest.raises(StoreFailed, match="use a newer Holdfast"):
        snapshots.copy(5, tmp_path / "copy")
    with pytest.raises(StoreFailed, match=r"cannot copy .*00006\.db"):
        snapshots.copy(6, tmp_path / "copy")


def test_what_is_not_kept_goes_with_its_seal(snapshots: Snapshots) -> None:
    """Drafts too, whatever their names."""
    for frame in (1, 2, 3):
        path = _save(snapshots, frame)
    for name in ("draft.db", "draft.tmp", path.stem + ".tmp", path.stem + ".db-wal"):
        path.with_name(name).write_bytes(b"left over")
    assert snapshots.keep(2) > 4 * len(b"left over")
    assert sorted(file.name for file in path.parent.iterdir()) == [
        f"{frame:020d}{suffix}" for frame in (2, 3) for suffix in (".db", ".json")
    ]
    assert snapshots.keep(2) == 0


def test_journals_are_needed_from_the_second_newest_on(snapshots: Snapshots) -> None:
    """With none or one, all of them are."""
    assert snapshots.needed_from == 0
    _save(snapshots, 50)
    assert snapshots.needed_from == 0
    _save(snapshots, 70)
    assert snapshots.needed_from == 50
    _save(snapshots, 90)
    assert snapshots.needed_from == 70
    snapshots.keep(2)
    assert snapshots.needed_from == 70

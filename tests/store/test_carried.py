"""Carried files: durable before anybody is told, and known to belong where they lie."""

import errno
import os
import shutil
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.errors import StoreFailed
from holdfast.records.crc import crc32c
from holdfast.store.carried import (
    CarriedWriter,
    carried_number,
    carried_path,
    delete_carried,
    lease_of_carried,
    list_carried,
    next_carried_number,
)
from holdfast.store.local import LocalStore
from holdfast.store.store import Place
from tests.store.frames import CLUSTER

NUMBER = carried_number(4, 2)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A store whose directory is the test's."""
    return LocalStore(tmp_path, store=1, cluster_id=CLUSTER)


def _write(directory: Path, number: int = NUMBER) -> Place:
    with CarriedWriter(directory, number) as writer:
        position = writer.append(b"batch")
        writer.finish()
    return Place(journal=number, position=position)


def test_bytes_are_synced_before_finish_returns(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the bytes, then the name."""
    writer = CarriedWriter(tmp_path, NUMBER)
    assert [writer.append(b"one"), writer.append(memoryview(b"three"))] == [44, 47]
    synced: list[tuple[str, int]] = []

    def watch(file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        synced.append((path.name, os.fstat(file).st_size if path.is_file() else 0))

    monkeypatch.setattr(os, "fdatasync", watch)
    monkeypatch.setattr(os, "fsync", watch)
    assert writer.finish() == 52
    assert synced == [(carried_path(tmp_path, NUMBER).name, 52), ("carried", 0)]
    assert store.read(Place(journal=NUMBER, position=44), 8) == b"onethree"


def test_what_is_abandoned_leaves_nothing(store: LocalStore, tmp_path: Path) -> None:
    """By hand, twice, or by leaving the block."""
    writer = CarriedWriter(tmp_path, NUMBER)
    writer.abandon()
    writer.abandon()
    with CarriedWriter(tmp_path, NUMBER) as writer:
        writer.append(b"batch")
    assert store.list_carried() == []


def test_a_number_is_used_once(store: LocalStore, tmp_path: Path) -> None:
    """What is there stays."""
    place = _write(tmp_path)
    with pytest.raises(StoreFailed, match=r"cannot begin .*File exists"):
        CarriedWriter(tmp_path, NUMBER)
    assert store.read(place, 5) == b"batch"


@pytest.mark.parametrize("function", ["pwritev", "fdatasync", "fsync"])
def test_a_full_or_broken_disk_is_an_error(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Nothing is left of it."""

    def failing(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _write(tmp_path, NUMBER + 1)
    monkeypatch.setattr(os, function, failing)
    with pytest.raises(StoreFailed, match=r"\.carried: No space left"):
        _write(tmp_path)
    monkeypatch.undo()
    assert store.list_carried() == [NUMBER + 1]


def test_a_file_of_another_place_is_refused(store: LocalStore, tmp_path: Path) -> None:
    """Of another store, another cluster, another number, or damaged: its bytes are not what the place means."""
    place = _write(tmp_path)
    path = carried_path(tmp_path, NUMBER)
    renamed = carried_path(tmp_path, NUMBER + 1)
    shutil.copy(path, renamed)
    with pytest.raises(StoreFailed, match="it was renamed"):
        store.read(Place(journal=NUMBER + 1, position=44), 5)
    for number, cluster in ((2, CLUSTER), (1, uuid4())):
        other = tmp_path / str(cluster) / str(number)
        LocalStore(other, store=number, cluster_id=cluster)
        _write(other, NUMBER + 2)
        shutil.copy(carried_path(other, NUMBER + 2), carried_path(tmp_path, NUMBER + 2))
        with pytest.raises(StoreFailed, match=f"belongs to store {number} of cluster {cluster}"):
            store.read(Place(journal=NUMBER + 2, position=44), 5)
    whole = path.read_bytes()
    for position in range(44):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(StoreFailed, match=str(path)):
            LocalStore(tmp_path, store=1, cluster_id=CLUSTER).read(place, 5)
    newer = whole[:10] + b"\0\2" + whole[12:40]
    path.write_bytes(newer + crc32c(newer).to_bytes(4, "big") + whole[44:])
    with pytest.raises(StoreFailed, match="use a newer Holdfast"):
        store.read(place, 5)


def test_files_with_other_names_are_not_listed(store: LocalStore, tmp_path: Path) -> None:
    """What is no carried file is nobody's business."""
    _write(tmp_path)
    for name in ("x.carried", "1.txt", "-3.carried"):
        (tmp_path / "carried" / name).write_bytes(b"")
    assert list_carried(tmp_path) == [NUMBER]


def test_a_directory_without_an_identity_takes_none(tmp_path: Path) -> None:
    """Who it belongs to would be a guess."""
    with pytest.raises(StoreFailed, match=r"store\.json is missing"):
        CarriedWriter(tmp_path, NUMBER)


def test_no_number_is_given_twice(store: LocalStore, tmp_path: Path) -> None:
    """Each lease has its own, and the next one follows the last that is there."""
    assert next_carried_number(tmp_path, 4) == carried_number(4, 0)
    for number in (carried_number(4, 0), carried_number(4, 1), carried_number(5, 7), carried_number(3, 9)):
        _write(tmp_path, number)
    assert next_carried_number(tmp_path, 4) == carried_number(4, 2)
    assert next_carried_number(tmp_path, 5) == carried_number(5, 8)
    assert next_carried_number(tmp_path, 6) == carried_number(6, 0)
    assert [lease_of_carried(number) for number in list_carried(tmp_path)] == [3, 4, 4, 5]


def test_a_file_is_deleted_once(store: LocalStore, tmp_path: Path) -> None:
    """What is not there frees nothing."""
    _write(tmp_path)
    assert delete_carried(tmp_path, NUMBER) == 44 + len(b"batch")
    assert delete_carried(tmp_path, NUMBER) == 0

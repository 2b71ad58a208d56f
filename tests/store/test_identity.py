"""Whose a store's directory is: what does not belong, or belongs to an earlier life, is refused."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.errors import StoreFailed
from holdfast.store import identity
from holdfast.store.carried import CarriedWriter, carried_number
from holdfast.store.identity import StoreIdentity, read_identity, wipe
from holdfast.store.local import LocalStore
from tests.store.frames import CLUSTER, frame_of
from tests.store.segments import write_segment

FIRST = StoreIdentity(cluster_id=CLUSTER, store=1, incarnation=1)
SECOND = StoreIdentity(cluster_id=CLUSTER, store=1, incarnation=2)


def _open(directory: Path, incarnation: int | None = None) -> LocalStore:
    return LocalStore(directory, store=1, cluster_id=CLUSTER, incarnation=incarnation)


def _fill(directory: Path) -> None:
    store = _open(directory)
    store.append(1, *frame_of(0, b"a"))
    store.snapshot_path(1).write_bytes(b"")
    write_segment(directory, [])
    CarriedWriter(directory, carried_number(1, 1)).finish()


def _holdings(directory: Path) -> tuple[object, ...]:
    store = _open(directory)
    return store.list_journals(), store.list_carried(), store.list_files(), store.list_snapshots()


class Killed(BaseException):
    """The process ends here."""


EMPTY: tuple[object, ...] = ([], [], set(), [])


@pytest.mark.parametrize("expected", [None, 1])
def test_a_new_store_is_in_its_first_life(tmp_path: Path, expected: int | None) -> None:
    """It says so in a file, and opens again as what it is."""
    store = _open(tmp_path / "new", expected)
    assert store.incarnation == 1
    assert read_identity(tmp_path / "new") == FIRST
    content = json.loads((tmp_path / "new" / "store.json").read_text())
    assert content == {"format": 1, "cluster_id": str(CLUSTER), "store": 1, "incarnation": 1}
    assert _open(tmp_path / "new", 1).incarnation == 1


def test_a_directory_from_before_is_in_its_first_life(tmp_path: Path) -> None:
    """It has journals and no identity; it gets one, and its frames stay."""
    frame = _open(tmp_path).append(1, *frame_of(0, b"a"))
    (tmp_path / "store.json").unlink()
    store = _open(tmp_path, 1)
    assert list(store.replay(None)) == [frame]
    assert read_identity(tmp_path) == FIRST


def test_another_store_or_cluster_is_refused(tmp_path: Path) -> None:
    """Both are named; nothing is changed."""
    _open(tmp_path)
    with pytest.raises(StoreFailed, match=f"belongs to store 1 of cluster {CLUSTER}.*not to store 2"):
        LocalStore(tmp_path, store=2, cluster_id=CLUSTER)
    other = uuid4()
    with pytest.raises(StoreFailed, match=f"not to store 1 of cluster {other}"):
        LocalStore(tmp_path, store=1, cluster_id=other)
    assert read_identity(tmp_path) == FIRST


def test_another_life_is_refused(tmp_path: Path) -> None:
    """An old copy, a fenced store, and an empty disk in the place of one that was rebuilt."""
    _open(tmp_path / "old")
    with pytest.raises(StoreFailed, match=r"life 1, where 2 is expected.*`holdfast store rebuild 1`"):
        _open(tmp_path / "old", 2)
    wipe(tmp_path / "new", SECOND)
    with pytest.raises(
        StoreFailed, match=r"life 2, where 1 is expected.*restored from an old copy or fenced"
    ):
        _open(tmp_path / "new", 1)
    with pytest.raises(StoreFailed, match=r"no store\.json, where life 2 is expected"):
        _open(tmp_path / "empty", 2)
    assert not (tmp_path / "empty" / "store.json").exists()
    assert _open(tmp_path / "new", 2).incarnation == 2
    assert _open(tmp_path / "new").incarnation == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"3",
        b"\xff\xfe",
        b"{}",
        b'{"format": 1}',
        b'{"format": "x", "cluster_id": "", "store": 1, "incarnation": 1}',
        b'{"format": 1, "cluster_id": "no uuid", "store": 1, "incarnation": 1}',
        b'{"format": 1, "cluster_id": 5, "store": 1, "incarnation": null}',
    ],
)
def test_a_damaged_identity_is_refused(tmp_path: Path, content: bytes) -> None:
    """Nobody guesses, and nothing is written over it."""
    (tmp_path / "store.json").write_bytes(content)
    with pytest.raises(StoreFailed, match=r"store\.json is not readable"):
        _open(tmp_path)
    with pytest.raises(StoreFailed, match=r"store\.json is not readable"):
        wipe(tmp_path, SECOND)
    assert (tmp_path / "store.json").read_bytes() == content


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """Whatever it may mean."""
    (tmp_path / "store.json").write_text('{"format": 2}')
    with pytest.raises(StoreFailed, match="format 2, newer than 1: use a newer Holdfast"):
        _open(tmp_path)


def test_a_wiped_store_is_empty_and_in_its_next_life(tmp_path: Path) -> None:
    """Whatever it held; wiped again before anything is in it, it is the same."""
    _fill(tmp_path)
    assert all(_holdings(tmp_path))
    wipe(tmp_path, SECOND)
    assert read_identity(tmp_path) == SECOND
    assert _holdings(tmp_path) == EMPTY
    wipe(tmp_path, SECOND)
    frame = _open(tmp_path, 2).append(40, *frame_of(0, b"a"))
    assert list(_open(tmp_path, 2).replay(None, first=40)) == [frame]


def test_a_store_is_wiped_for_its_next_life_only(tmp_path: Path) -> None:
    """Not in the life that it is in, not for an earlier one, not for another store."""
    _fill(tmp_path)
    before = _holdings(tmp_path)
    for wrong in (
        FIRST,
        StoreIdentity(cluster_id=CLUSTER, store=1, incarnation=0),
        StoreIdentity(cluster_id=CLUSTER, store=2, incarnation=2),
        StoreIdentity(cluster_id=uuid4(), store=1, incarnation=2),
    ):
        with pytest.raises(StoreFailed, match="is not emptied"):
            wipe(tmp_path, wrong)
    assert (_holdings(tmp_path), read_identity(tmp_path)) == (before, FIRST)


def test_a_crash_in_the_middle_of_a_wipe_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after each step, the store is what it was, or refused until it is wiped again."""

    steps = 0

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object, **options: object) -> object:
            nonlocal steps
            steps -= 1
            if steps == 0:
                raise Killed
            return call(*arguments, **options)

        return step

    for function in ("rename", "unlink", "rmdir", "fsync"):
        monkeypatch.setattr(os, function, counted(getattr(os, function)))
    seen = set()
    for crash_at in range(1, 60):
        directory = tmp_path / str(crash_at)
        steps = -1
        _fill(directory)
        steps = crash_at
        try:
            wipe(directory, SECOND)
        except Killed:
            steps = -1
        else:
            break
        try:
            found = read_identity(directory)
        except StoreFailed:
            with pytest.raises(StoreFailed, match="run `holdfast store rebuild 1` again"):
                _open(directory, 2)
            seen.add("refused")
        else:
            whole = _holdings(directory)
            assert all(whole) if found == FIRST else whole == EMPTY
            seen.add(f"life {found.incarnation}")
        wipe(directory, SECOND)
        assert (read_identity(directory), _holdings(directory)) == (SECOND, EMPTY)
    assert seen == {"refused", "life 1", "life 2"}
    assert crash_at > 10


def test_holdings_name_every_folder_of_a_store(tmp_path: Path) -> None:
    """A folder that `wipe` does not know would outlive it."""
    _fill(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*identity.HOLDINGS, "store.json"}


def test_a_disk_that_takes_no_writes_is_an_error(tmp_path: Path) -> None:
    """With the path; a file lies where the directory should be."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreFailed, match="cannot"):
        _open(tmp_path / "file" / "store")
    with pytest.raises(StoreFailed, match="cannot"):
        wipe(tmp_path / "file" / "store", SECOND)

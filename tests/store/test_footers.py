"""Footers are read as they lie there: every whole frame, none that is void, and nothing is changed."""

from pathlib import Path
from uuid import UUID

import pytest

from holdfast.errors import StoreFailed
from holdfast.store.footers import find_last_frame, read_footers
from holdfast.store.journals import list_journals
from holdfast.store.local import LocalStore

CLUSTER = UUID(int=5)


def write(directory: Path, *numbers: int, journal_bytes_max: int = 1 << 20) -> list[tuple[int, bytes]]:
    """Frames without batches, their footers an empty list of as many blanks as their number; what should be read."""
    store = LocalStore(directory, store=1, cluster_id=CLUSTER, journal_bytes_max=journal_bytes_max)
    told = [(number, b"[" + b" " * number + b"]") for number in numbers]
    for number, footer in told:
        store.append(number, [], footer)
    store.close()
    return told


def files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*.journal")}


def test_all_journals_in_order(tmp_path: Path) -> None:
    """However many there are."""
    told = write(tmp_path, *range(1, 12), journal_bytes_max=150)
    assert len(list_journals(tmp_path)) > 2
    assert list(read_footers(tmp_path)) == told
    assert find_last_frame(tmp_path) == 11


def test_a_gap(tmp_path: Path) -> None:
    """A store that was away lacks frames; the numbers tell."""
    told = write(tmp_path, 1, 2, 7, 8)
    assert list(read_footers(tmp_path)) == told


@pytest.mark.parametrize("cut_bytes", [1, 20, 44])
def test_a_torn_tail_is_the_end(tmp_path: Path, cut_bytes: int) -> None:
    """It may be one that is being written: it stays."""
    told = write(tmp_path, 1, 2, 3)
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    before = files(tmp_path)
    assert list(read_footers(tmp_path)) == told[:-1]
    assert find_last_frame(tmp_path) == 2
    assert files(tmp_path) == before


@pytest.mark.parametrize("size_bytes", [0, 10, 44])
def test_a_journal_that_was_only_begun_holds_nothing(tmp_path: Path, size_bytes: int) -> None:
    """A crash came before its header was durable, or before its first frame."""
    told = write(tmp_path, 1, 2, 3)
    (path,) = files(tmp_path)
    path.with_name("00000000000000000004.journal").write_bytes(path.read_bytes()[:size_bytes])
    assert list(read_footers(tmp_path)) == told
    assert find_last_frame(tmp_path) == 3


def test_void_frames_are_left_out(tmp_path: Path) -> None:
    """Those that the next journal begins with again, be they whole or not."""
    write(tmp_path, 1, 2, 3)
    (path,) = files(tmp_path)
    held = path.read_bytes()
    path.unlink()
    told = write(tmp_path / "other", 3, 4)
    (later,) = files(tmp_path / "other")
    later.rename(path.with_name(later.name))
    for content in (held, held[:-5]):
        path.write_bytes(content)
        found = list(read_footers(tmp_path))
        assert [number for number, _ in found] == [1, 2, 3, 4]
        assert found[2:] == told


def test_damage_in_the_middle(tmp_path: Path) -> None:
    """Is no end: it is named. So is a journal that cannot be read."""
    write(tmp_path, 1, 2, 3)
    (path,) = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreFailed, match="damaged in the middle"):
        list(read_footers(tmp_path))
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreFailed, match="cannot read"):
        list(read_footers(tmp_path))


def test_a_journal_that_was_just_begun(tmp_path: Path) -> None:
    """It has no frame yet; the last one is in the journal before."""
    told = write(tmp_path, 1, 2)
    (path,) = files(tmp_path)
    path.with_name(f"{3:020d}.journal").write_bytes(path.read_bytes()[:44])
    assert list(read_footers(tmp_path)) == told
    assert find_last_frame(tmp_path) == 2
    assert find_last_frame(tmp_path / "none") == 0

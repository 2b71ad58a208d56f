"""Files kept open: bounded, shared, and never closed under somebody's hands."""

import os
from pathlib import Path

import pytest

from holdfast.errors import StoreFailed
from holdfast.store.open_files import OpenFiles


def _is_open(descriptor: int, path: Path) -> bool:
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink() == path
    except FileNotFoundError:
        return False


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Ten files that hold their numbers."""
    paths = [tmp_path / str(number) for number in range(10)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%d" % number)
    return paths


def test_the_files_that_were_used_last_stay_open(paths: list[Path]) -> None:
    """As many as allowed; asking for one makes it the last."""
    files = OpenFiles(3)
    descriptors = {path: files.get(path).descriptor for path in paths[:3]}
    files.get(paths[0])
    descriptors[paths[3]] = files.get(paths[3]).descriptor
    assert [_is_open(descriptors[path], path) for path in paths[:4]] == [True, False, True, True]
    assert files.get(paths[0]).descriptor == descriptors[paths[0]]


def test_a_file_in_use_is_not_closed(paths: list[Path]) -> None:
    """However many others are opened, whether it is forgotten or all are closed."""
    files = OpenFiles(2)
    held = [files.get(path) for path in paths[:3]]
    for path in paths[3:]:
        files.get(path)
    files.forget(paths[2])
    files.close()
    assert [os.pread(file.descriptor, 1, 0) for file in held] == [b"0", b"1", b"2"]
    descriptors = [file.descriptor for file in held]
    del held
    assert not any(_is_open(descriptor, path) for descriptor, path in zip(descriptors, paths, strict=False))


def test_a_deleted_file_is_let_go_with_the_next_one(paths: list[Path]) -> None:
    """Its space comes back; who had asked before reads on."""
    files = OpenFiles()
    idle, used = files.get(paths[0]).descriptor, files.get(paths[1])
    paths[0].unlink()
    paths[1].unlink()
    files.get(paths[2])
    assert not _is_open(idle, paths[0])
    assert os.fstat(used.descriptor).st_nlink == 0
    assert os.pread(used.descriptor, 1, 0) == b"1"
    with pytest.raises(FileNotFoundError):
        files.get(paths[1])


def test_a_file_that_is_forgotten_is_opened_anew(paths: list[Path]) -> None:
    """Another file of the same name is another file."""
    files = OpenFiles()
    files.get(paths[0])
    paths[0].unlink()
    paths[0].write_bytes(b"new")
    files.forget(paths[0])
    assert os.pread(files.get(paths[0]).descriptor, 9, 0) == b"new"


def test_a_file_that_does_not_pass_its_check_is_not_kept(paths: list[Path]) -> None:
    """It is checked when it is opened, and only then."""
    files = OpenFiles()
    checked: list[int] = []

    def refuse(descriptor: int) -> None:
        checked.append(descriptor)
        raise StoreFailed("another file")

    for _ in range(2):
        with pytest.raises(StoreFailed):
            files.get(paths[0], refuse)
    assert len(checked) == 2
    assert not _is_open(checked[1], paths[0])
    files.get(paths[0], checked.append)
    files.get(paths[0], refuse)
    assert len(checked) == 3

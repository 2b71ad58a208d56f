"""Carried files: batches that were copied out of a journal, so that the journal can go before they do."""

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from holdfast.errors import CorruptFrame, FormatTooNew, StoreFailed
from holdfast.store.durable import make_directory, sync_directory, write_all
from holdfast.store.file_header import FILE_HEADER_BYTES, FileHeader, FileKind
from holdfast.store.identity import StoreIdentity, read_identity
from holdfast.store.journal import Buffer, journal_name
from holdfast.store.store import CARRIED

SERIALS_PER_LEASE = 1 << 24
PATHS_KEPT = 1_000


def carried_number(lease: int, serial: int) -> int:
    """The number of the carried file `serial` of a keeper's lease: none is used twice, even after it was deleted.

    A reader that planned before the deletion would otherwise find other bytes at its place.
    """
    assert 0 <= serial < SERIALS_PER_LEASE, serial
    return CARRIED + lease * SERIALS_PER_LEASE + serial


def lease_of_carried(number: int) -> int:
    """The lease that a carried file was written under."""
    return (number - CARRIED) // SERIALS_PER_LEASE


def next_carried_number(directory: Path, lease: int) -> int:
    """A number that no carried file of the lease has had.

    Whoever holds a lease deletes none of its files, so those that are there tell which have been used.
    """
    used = [number for number in list_carried(directory) if lease_of_carried(number) == lease]
    return used[-1] + 1 if used else carried_number(lease, 0)


def carried_path(directory: Path, number: int) -> Path:
    """Where a carried file lies in the store's directory; its name leaves CARRIED out."""
    assert number >= CARRIED, number
    return directory / "carried" / f"{number - CARRIED:020d}.carried"


@lru_cache(maxsize=PATHS_KEPT)
def batches_path(directory: str, journal: int) -> str:
    """The file of the store in `directory` that places of this number are in: a journal, or a carried file.

    Remembered, since thousands of extents follow each other in one file.
    """
    if journal >= CARRIED:
        return str(carried_path(Path(directory), journal))
    return str(Path(directory) / "journal" / journal_name(journal))


def list_carried(directory: Path) -> list[int]:
    """The numbers of the carried files that are on disk, also of those that nobody names."""
    names = (path.stem for path in (directory / "carried").glob("*.carried"))
    return sorted(CARRIED + int(name) for name in names if name.isdecimal())


def delete_carried(directory: Path, number: int) -> int:
    """Delete a carried file of the store in `directory`, if it is there, and return the bytes freed."""
    path = carried_path(directory, number)
    try:
        with suppress(FileNotFoundError):
            size_bytes = path.stat().st_size
            path.unlink()
            return size_bytes
    except OSError as failure:
        raise StoreFailed(f"cannot delete {path}: {failure.strerror}") from failure
    return 0


class CarriedWriter:
    """Writes the carried file `number` of the store in `directory`; nobody knows of it before `finish`.

    Used as a context, it abandons what was not finished. StoreFailed from every method: then abandon it.
    """

    def __init__(self, directory: Path, number: int) -> None:
        identity = read_identity(directory)
        self._path = carried_path(directory, number)
        header = FileHeader(
            kind=FileKind.CARRIED, store=identity.store, number=number, cluster_id=identity.cluster_id
        )
        self._file: int | None = None
        try:
            make_directory(self._path.parent)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            self._end = write_all(self._file, [header.encode()], 0)
        except OSError as failure:
            self.abandon()
            raise StoreFailed(f"cannot begin {self._path}: {failure.strerror}") from failure

    def append(self, batches: Buffer) -> int:
        """Append whole batches and return their position in the file."""
        assert self._file is not None, "the file is finished or abandoned"
        position = self._end
        try:
            self._end = write_all(self._file, [batches], position)
        except OSError as failure:
            raise StoreFailed(f"cannot write to {self._path}: {failure.strerror}") from failure
        return position

    def finish(self) -> int:
        """Make the file durable and return its length in bytes."""
        assert self._file is not None, "the file is finished or abandoned"
        try:
            os.fdatasync(self._file)
            sync_directory(self._path.parent)
        except OSError as failure:
            raise StoreFailed(f"cannot sync {self._path}: {failure.strerror}") from failure
        self._close()
        return self._end

    def abandon(self) -> None:
        """Take back what was written, as far as possible; the rest is collected some day. Twice is no harm."""
        if self._file is None:
            return
        self._close()
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return

    def __enter__(self) -> "CarriedWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def check_carried(file: int, path: Path, number: int, identity: StoreIdentity) -> None:
    """StoreFailed unless the open file is this store's carried file `number`."""
    try:
        header = FileHeader.decode(os.pread(file, FILE_HEADER_BYTES, 0), FileKind.CARRIED)
    except (CorruptFrame, FormatTooNew) as failure:
        raise StoreFailed(f"{path}: {failure}") from failure
    if (header.cluster_id, header.store) != (identity.cluster_id, identity.store):
        raise StoreFailed(f"{path} belongs to store {header.store} of cluster {header.cluster_id}")
    if header.number != number:
        raise StoreFailed(f"{path} says that it is number {header.number - CARRIED}: it was renamed")

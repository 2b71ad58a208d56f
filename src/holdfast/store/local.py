"""A store in a directory: journals, carried files, segments and snapshots, and whose they are."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from uuid import UUID

from holdfast.errors import StoreFailed
from holdfast.store.carried import carried_path, check_carried, delete_carried, list_carried
from holdfast.store.durable import make_directory
from holdfast.store.identity import open_identity, read_identity
from holdfast.store.journal import Buffer
from holdfast.store.journals import Journals
from holdfast.store.open_files import OpenFile, OpenFiles
from holdfast.store.segment_index import SegmentIndex
from holdfast.store.segments import Segments
from holdfast.store.snapshots import Snapshots
from holdfast.store.store import CARRIED, Checkpoint, Place, StoredFrame

JOURNAL_BYTES_MAX = 256 * 1024 * 1024


class LocalStore:
    """The files below `directory`; see `docs/formats.md`. Implements `Store`.

    `incarnation` is the life in which the store is expected; None takes it as it is. StoreFailed if the directory is
    another store's, or in another life.
    """

    def __init__(
        self,
        directory: Path,
        *,
        store: int,
        cluster_id: UUID,
        incarnation: int | None = None,
        journal_bytes_max: int = JOURNAL_BYTES_MAX,
    ) -> None:
        self.number = store
        self._directory = directory
        self._identity = open_identity(directory, cluster_id=cluster_id, store=store, incarnation=incarnation)
        self.incarnation = self._identity.incarnation
        self._place = self._find_place()
        self._files = OpenFiles()
        self._journals = Journals(directory, self._identity, self._files, journal_bytes_max=journal_bytes_max)
        self._segments = Segments(directory, self._files)
        self._snapshots = Snapshots(directory)

    def append(self, number: int, body: Sequence[Buffer], footer: bytes) -> StoredFrame:
        """Write one frame durably."""
        return self._journals.append(number, body, footer)

    def replay(self, after: Checkpoint | None, *, first: int | None = None) -> Iterator[StoredFrame]:
        """All whole frames after the checkpoint."""
        return self._journals.replay(after, first)

    def read(self, place: Place, length: int) -> bytes:
        """Exactly `length` bytes at `place`."""
        path = self._path(place.journal)
        try:
            data = self._open(place.journal, path).read(length, place.position)
        except OSError as failure:
            raise StoreFailed(f"cannot read {path}: {failure.strerror}") from failure
        if len(data) != length:
            raise StoreFailed(f"{path} ends before byte {place.position + length}")
        return data

    def begin_anew(self) -> None:
        """The next frame begins a new journal."""
        self._journals.begin_anew()

    def roll(self) -> None:
        """The next frame begins a new journal, for no other reason than that this one is to end."""
        self._journals.roll()

    def truncate_to(self, checkpoint: Checkpoint | None) -> None:
        """Cut off what lies beyond the checkpoint."""
        self._journals.truncate_to(checkpoint)

    def list_journals(self) -> list[int]:
        """The journals on disk."""
        return self._journals.numbers()

    def delete_journals(self, below: int) -> int:
        """Delete journals that nobody needs any more."""
        return self._journals.delete(min(below, self._snapshots.needed_from))

    def list_carried(self) -> list[int]:
        """The carried files on disk."""
        return list_carried(self._directory)

    def delete_carried(self, numbers: Iterable[int]) -> int:
        """Delete carried files."""
        freed_bytes = 0
        for number in numbers:
            freed_bytes += delete_carried(self._directory, number)
            self._files.forget(carried_path(self._directory, number))
        return freed_bytes

    def list_files(self) -> set[str]:
        """The segments on disk."""
        return self._segments.list_files()

    def read_segment(self, file: str, position: int, length: int) -> bytes:
        """Exactly `length` bytes of a segment."""
        return self._segments.read(file, position, length)

    def segment_index(self, file: str) -> SegmentIndex:
        """The index of a segment."""
        return self._segments.index(file)

    def check_segment(self, file: str, length_bytes: int) -> None:
        """Whether a segment is there, with all its bytes."""
        self._segments.check(file, length_bytes)

    def delete_segment(self, file: str) -> int:
        """Delete a segment and its index."""
        return self._segments.delete(file)

    def snapshot_path(self, frame: int) -> Path:
        """Where a snapshot of the control plane lies."""
        return self._snapshots.path_of(frame)

    def save_snapshot(self, write: Callable[[Path], int]) -> int:
        """Keep a snapshot of the control plane."""
        return self._snapshots.save(write)

    def list_snapshots(self) -> list[int]:
        """The snapshots, newest first."""
        return self._snapshots.frames()

    def keep_snapshots(self, count: int) -> int:
        """Delete all snapshots but the newest."""
        return self._snapshots.keep(count)

    def forget_deleted(self) -> None:
        """Close what somebody else has deleted."""
        self._files.drop_deleted()

    def check_in_place(self) -> None:
        """The same directory, and still this store's."""
        if read_identity(self._directory) != self._identity or self._find_place() != self._place:
            raise StoreFailed(f"{self._directory} is another one than was opened: put the right one back")

    def probe(self) -> None:
        """Write a few bytes durably and delete them."""
        path = self._directory / "probe"
        try:
            make_directory(self._directory)
            file = OpenFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
            os.pwrite(file.descriptor, b"probe", 0)
            os.fsync(file.descriptor)
            path.unlink()
        except OSError as failure:
            raise StoreFailed(f"store {self.number} takes no writes: {path}: {failure.strerror}") from failure

    def close(self) -> None:
        """Close all files."""
        self._journals.close()
        self._segments.close()
        self._files.close()

    def _find_place(self) -> tuple[int, int]:
        """Device and number of the directory: a copy has others."""
        try:
            found = self._directory.stat()
        except OSError as failure:
            raise StoreFailed(f"cannot look at {self._directory}: {failure.strerror}") from failure
        return found.st_dev, found.st_ino

    def _path(self, number: int) -> Path:
        return self._journals.path(number) if number < CARRIED else carried_path(self._directory, number)

    def _open(self, number: int, path: Path) -> OpenFile:
        if number < CARRIED:
            return self._files.get(path)
        return self._files.get(path, lambda file: check_carried(file, path, number, self._identity))

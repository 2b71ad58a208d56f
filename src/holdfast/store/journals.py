"""The rolling journal files of one store: frames appended with one `fdatasync` each, and replayed."""

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from holdfast.errors import CorruptData, CorruptFrame, FormatTooNew, StoreFailed
from holdfast.store import journal
from holdfast.store.durable import make_directory, sync_directory, write_all
from holdfast.store.file_header import FILE_HEADER_BYTES, FileHeader, FileKind
from holdfast.store.footer import decode_sound
from holdfast.store.identity import StoreIdentity
from holdfast.store.journal import Buffer, Frame
from holdfast.store.open_files import OpenFile, OpenFiles
from holdfast.store.store import Checkpoint, Place, StoredFrame
from holdfast.store.verify import verify_body

FIRST_FRAME = 1


def list_journals(directory: Path) -> list[int]:
    """The first frames of all journals of the store in `directory`, in order."""
    names = (path.stem for path in (directory / "journal").glob("*.journal"))
    return sorted(int(name) for name in names if name.isdecimal())


def measure_journals(directory: Path) -> dict[int, int]:
    """The sizes in bytes of all journals of the store in `directory`, by first frame, in order."""
    sizes: dict[int, int] = {}
    try:
        for first_frame in list_journals(directory):
            with suppress(FileNotFoundError):
                path = directory / "journal" / journal.journal_name(first_frame)
                sizes[first_frame] = path.stat().st_size
    except OSError as failure:
        raise StoreFailed(f"cannot look at the journals of {directory}: {failure.strerror}") from failure
    return sizes


class Journals:
    """Journal files below `directory`; see `docs/formats.md`. One thread at a time writes or replays."""

    def __init__(
        self, directory: Path, identity: StoreIdentity, files: OpenFiles, *, journal_bytes_max: int
    ) -> None:
        self._directory = directory / "journal"
        self._identity = identity
        self._files = files
        self._journal_bytes_max = journal_bytes_max
        # Where the next frame goes, if it has that number; None: it begins a new journal.
        self._tail: Place | None = None
        self._next = FIRST_FRAME
        self._tail_file: OpenFile | None = None
        # Set by any thread, and looked at by the one that appends.
        self._is_rolling = False
        try:
            make_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot make {self._directory}: {failure.strerror}") from failure

    def path(self, first_frame: int) -> Path:
        """Where a journal lies."""
        return self._directory / journal.journal_name(first_frame)

    def numbers(self) -> list[int]:
        """The first frames of all journals on disk, in order."""
        return list_journals(self._directory.parent)

    def append(self, number: int, body: Sequence[Buffer], footer: bytes) -> StoredFrame:
        """Write one frame durably: see `Store.append`."""
        body_bytes = sum(map(len, body))
        tail = self._tail
        is_full = tail is not None and tail.position >= self._journal_bytes_max
        if tail is None or number != self._next or is_full or self._is_rolling:
            tail = self._begin_journal(number)
        buffers = [journal.frame_head(number, body_bytes, len(footer)), *body, journal.frame_tail(footer)]
        try:
            file = self._open_tail(tail)
            end = write_all(file.descriptor, buffers, tail.position)
        except OSError as failure:
            self._take_back(tail)
            raise StoreFailed(f"cannot write to {self.path(tail.journal)}: {failure.strerror}") from failure
        try:
            os.fdatasync(file.descriptor)
        except OSError as failure:
            # After a failed sync the kernel may have dropped the pages: nothing more goes into this file.
            self._take_back(tail)
            self.begin_anew()
            raise StoreFailed(f"cannot sync {self.path(tail.journal)}: {failure.strerror}") from failure
        self._tail = Place(journal=tail.journal, position=end)
        self._next = number + 1
        body_place = Place(journal=tail.journal, position=tail.position + journal.FRAME_HEADER_BYTES)
        return StoredFrame(
            store=self._identity.store, number=number, body=body_place, footer=footer, end=self._tail
        )

    def replay(self, after: Checkpoint | None, first: int | None) -> Iterator[StoredFrame]:
        """All whole frames after the checkpoint, the torn tail cut off: see `Store.replay`."""
        try:
            yield from self._replay(after, first)
        except OSError as failure:
            raise StoreFailed(f"cannot replay {self._directory}: {failure}") from failure

    def truncate_to(self, checkpoint: Checkpoint | None) -> None:
        """Cut off what lies beyond the checkpoint: see `Store.truncate_to`."""
        self.begin_anew()
        kept = 0 if checkpoint is None else checkpoint.end.journal
        try:
            self._delete_from(kept + 1)
            if checkpoint is not None:
                self._cut(checkpoint.end)
        except OSError as failure:
            raise StoreFailed(f"cannot cut {self._directory}: {failure}") from failure

    def delete(self, below: int) -> int:
        """Delete the journals whose frames all lie below a number, and return the bytes freed.

        The last one stays: it is written to, or holds the checkpoint.
        """
        freed_bytes = 0
        try:
            for first_frame, successor in pairwise(self.numbers()):
                if successor > below:
                    break
                path = self.path(first_frame)
                freed_bytes += path.stat().st_size
                path.unlink()
                self._files.forget(path)
            if freed_bytes:
                sync_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot delete journals of {self._directory}: {failure}") from failure
        return freed_bytes

    def begin_anew(self) -> None:
        """The next frame begins a new journal: what the tail may hold by now is void."""
        self._tail = None
        self._tail_file = None

    def roll(self) -> None:
        """The next frame begins a new journal, though nothing is wrong with this one."""
        self._is_rolling = True

    def close(self) -> None:
        """Let go of the tail; a write that hangs keeps its file."""
        self._tail_file = None

    def _open_tail(self, tail: Place) -> OpenFile:
        file = self._tail_file
        if file is None:
            file = self._tail_file = OpenFile(os.open(self.path(tail.journal), os.O_RDWR))
        return file

    def _begin_journal(self, first_frame: int) -> Place:
        path = self.path(first_frame)
        header = FileHeader(
            kind=FileKind.JOURNAL,
            store=self._identity.store,
            number=first_frame,
            cluster_id=self._identity.cluster_id,
        )
        self.begin_anew()
        self._is_rolling = False
        try:
            # Journals from this number on can only hold frames that failed, or that nobody recorded. Left there, a
            # later one would make frames of this one void. The file of this name gets a successor, because a failed
            # sync may have been its own.
            self._delete_from(first_frame)
            file = OpenFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
            end = write_all(file.descriptor, [header.encode()], 0)
            os.fdatasync(file.descriptor)
            sync_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot begin {path}: {failure.strerror}") from failure
        self._tail_file = file
        self._tail = Place(journal=first_frame, position=end)
        self._next = first_frame
        return self._tail

    def _delete_from(self, number: int) -> None:
        """Delete the journals from a number on, the last one first, so that no gap is left by a crash."""
        stale = [first_frame for first_frame in self.numbers() if first_frame >= number]
        for first_frame in reversed(stale):
            path = self.path(first_frame)
            path.unlink()
            self._files.forget(path)
        if stale:
            sync_directory(self._directory)

    def _cut(self, end: Place) -> None:
        path = self.path(end.journal)
        if not path.exists():
            raise StoreFailed(f"{path} is missing; put it back before you start")
        self._check_size(path, end.position)
        file = OpenFile(os.open(path, os.O_RDWR))
        os.ftruncate(file.descriptor, end.position)
        os.fdatasync(file.descriptor)

    def _take_back(self, tail: Place) -> None:
        """After a failed write: cut the partial frame off, or give the file up."""
        try:
            file = self._open_tail(tail)
            os.ftruncate(file.descriptor, tail.position)
        except OSError:
            self.begin_anew()

    def _replay(self, after: Checkpoint | None, first: int | None) -> Iterator[StoredFrame]:
        journals, position, expected = self._begin_replay(after, first)
        has_begun = first is None
        successors: list[int | None] = [*journals[1:], None]
        for first_frame, successor in zip(journals, successors, strict=False):
            self._check_header(first_frame)
            for frame in self._frames(first_frame, position, successor, expected):
                expected = frame.number + 1
                if first is None or frame.number >= first:
                    has_begun = True
                    yield frame
            position = FILE_HEADER_BYTES
            if successor is not None and successor != expected:
                if has_begun:
                    raise StoreFailed(f"{self._directory}: frames {expected} to {successor - 1} are missing")
                expected = successor

    def _begin_replay(self, after: Checkpoint | None, first: int | None) -> tuple[list[int], int, int]:
        """(journals to read, position in the first of them, number of the frame that is expected there)."""
        journals = self._begun()
        if after is not None:
            if after.end.journal not in journals:
                raise StoreFailed(
                    f"{self.path(after.end.journal)} is missing; put it back before you start,"
                    " or run `holdfast recover`"
                )
            journals = journals[journals.index(after.end.journal) :]
        if first is not None:
            begin = sum(successor <= first for successor in journals[1:])
            if begin or after is None:
                return journals[begin:], FILE_HEADER_BYTES, journals[begin] if journals else first
        if after is not None:
            return journals, after.end.position, after.frame + 1
        if journals and journals[0] != FIRST_FRAME:
            raise StoreFailed(
                f"{self._directory} begins with frame {journals[0]}: without control.db, and without a snapshot"
                f" of it, frames {FIRST_FRAME} to {journals[0] - 1} are missing"
            )
        return journals, FILE_HEADER_BYTES, FIRST_FRAME

    def _begun(self) -> list[int]:
        """The journals; one that a crash left before its header was durable is deleted."""
        journals = self.numbers()
        if journals and self._was_never_begun(journals[-1]):
            self.path(journals.pop()).unlink()
        return journals

    def _was_never_begun(self, first_frame: int) -> bool:
        """Whether the crash came before the header was durable: cut off, or a length without its bytes."""
        with self.path(first_frame).open("rb") as file:
            data = file.read(FILE_HEADER_BYTES + journal.FRAME_HEADER_BYTES)
        return len(data) < FILE_HEADER_BYTES or not any(data)

    def _check_header(self, first_frame: int) -> None:
        path = self.path(first_frame)
        with path.open("rb") as file:
            try:
                header = FileHeader.decode(file.read(FILE_HEADER_BYTES), FileKind.JOURNAL)
            except (CorruptFrame, FormatTooNew) as failure:
                raise StoreFailed(f"{path}: {failure}") from failure
        if (header.cluster_id, header.store) != (self._identity.cluster_id, self._identity.store):
            raise StoreFailed(f"{path} belongs to store {header.store} of cluster {header.cluster_id}")
        if header.number != first_frame:
            raise StoreFailed(f"{path} says that it begins with frame {header.number}: it was renamed")

    def _check_size(self, path: Path, end: int) -> int:
        size_bytes = path.stat().st_size
        if size_bytes < end:
            raise StoreFailed(
                f"{path} ends at byte {size_bytes}, but {end} bytes were acknowledged: restore it"
            )
        return size_bytes

    def _frames(
        self, first_frame: int, position: int, successor: int | None, expected: int
    ) -> Iterator[StoredFrame]:
        """The frames of one journal from `position` on; those that the successor makes void are left out."""
        path = self.path(first_frame)
        size = self._check_size(path, position)
        tail = Place(journal=first_frame, position=position)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            while tail.position < size:
                frame = self._whole_frame(data, tail, expected, successor)
                if frame is None or (successor is not None and frame.number >= successor):
                    break
                body = Place(journal=first_frame, position=frame.body_position)
                tail = Place(journal=first_frame, position=frame.end)
                expected = frame.number + 1
                yield StoredFrame(
                    store=self._identity.store,
                    number=frame.number,
                    body=body,
                    footer=frame.footer,
                    end=tail,
                )
        if successor is None:
            if tail.position < size:
                self._cut(tail)
            self.begin_anew()
            self._tail, self._next = tail, expected

    def _whole_frame(self, data: mmap.mmap, at: Place, expected: int, successor: int | None) -> Frame | None:
        """The frame at `at`, None for a tail that nobody was promised, StoreFailed for damage elsewhere."""
        try:
            frame = journal.read_frame(data, at.position, expected)
            changes = decode_sound(frame.footer)
            with (
                memoryview(data) as view,
                view[frame.body_position : frame.body_position + frame.body_bytes] as body,
            ):
                verify_body(body, changes, self._identity.store)
        except FormatTooNew as failure:
            raise StoreFailed(f"{self.path(at.journal)}: {failure}") from failure
        except CorruptData as failure:
            voided = successor is not None and expected >= successor
            if voided or (successor is None and not journal.has_frame_after(data, at.position, expected)):
                return None
            raise StoreFailed(f"{self.path(at.journal)} is damaged in the middle: {failure}") from None
        return frame

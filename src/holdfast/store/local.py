"""A store in a directory: rolling journal files, one `fdatasync` per frame."""

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from holdfast.errors import CorruptData, CorruptFrame, FormatTooNew, StoreFailed
from holdfast.store import journal
from holdfast.store.durable import make_directory, sync_directory
from holdfast.store.footer import decode_sound
from holdfast.store.journal import Buffer, Frame, JournalHeader
from holdfast.store.store import Checkpoint, Place, StoredFrame
from holdfast.store.verify import verify_body

JOURNAL_BYTES_MAX = 256 * 1024 * 1024
# One system call takes at most IOV_MAX buffers (1024 on Linux).
BUFFERS_PER_WRITE_MAX = 1000


class LocalStore:
    """Journal files under `directory`; see `docs/formats.md`. Implements `Store`."""

    def __init__(
        self, directory: Path, *, store: int, cluster_id: UUID, journal_bytes_max: int = JOURNAL_BYTES_MAX
    ) -> None:
        self._directory = directory / "journal"
        self.number = store
        self._cluster_id = cluster_id
        self._journal_bytes_max = journal_bytes_max
        self._files: dict[int, int] = {}
        # Where the next frame goes; None: it begins a new journal.
        self._tail: Place | None = None
        try:
            make_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot make {self._directory}: {failure.strerror}") from failure

    def append(self, number: int, body: Sequence[Buffer], footer: bytes) -> StoredFrame:
        """Write one frame durably: see `Store.append`."""
        body_bytes = sum(map(len, body))
        if self._tail is None or self._tail.position >= self._journal_bytes_max:
            self._tail = self._begin_journal(number)
        tail = self._tail
        buffers = [journal.frame_head(number, body_bytes, len(footer)), *body, journal.frame_tail(footer)]
        try:
            file = self._file(tail.journal)
            end = _write_all(file, buffers, tail.position)
        except OSError as failure:
            self._take_back(tail)
            raise StoreFailed(f"cannot write to {self._path(tail.journal)}: {failure.strerror}") from failure
        try:
            os.fdatasync(file)
        except OSError as failure:
            # After a failed sync the kernel may have dropped the pages: nothing more goes into this file.
            self._take_back(tail)
            self._tail = None
            raise StoreFailed(f"cannot sync {self._path(tail.journal)}: {failure.strerror}") from failure
        self._tail = Place(journal=tail.journal, position=end)
        body_place = Place(journal=tail.journal, position=tail.position + journal.FRAME_HEADER_BYTES)
        return StoredFrame(store=self.number, number=number, body=body_place, footer=footer, end=self._tail)

    def replay(self, after: Checkpoint | None) -> Iterator[StoredFrame]:
        """All whole frames after the checkpoint, the torn tail cut off: see `Store.replay`."""
        journals = self._journals()
        if after is not None:
            if after.end.journal not in journals:
                raise StoreFailed(f"{self._path(after.end.journal)} is missing; put it back before you start")
            journals = journals[journals.index(after.end.journal) :]
        successors: list[int | None] = [*journals[1:], None]
        position = journal.FILE_HEADER_BYTES if after is None else after.end.position
        expected = after.frame + 1 if after is not None else journals[0] if journals else 1
        for first_frame, successor in zip(journals, successors, strict=False):
            self._check_header(first_frame)
            for frame in self._frames(first_frame, position, successor, expected):
                expected = frame.number + 1
                yield frame
            position = journal.FILE_HEADER_BYTES
            if successor is not None and successor != expected:
                raise StoreFailed(f"{self._directory}: frames {expected} to {successor - 1} are missing")

    def read(self, place: Place, length: int) -> bytes:
        """Exactly `length` bytes at `place`."""
        try:
            data = os.pread(self._file(place.journal), length, place.position)
        except OSError as failure:
            raise StoreFailed(f"cannot read {self._path(place.journal)}: {failure.strerror}") from failure
        if len(data) != length:
            raise StoreFailed(f"{self._path(place.journal)} ends before byte {place.position + length}")
        return data

    def begin_anew(self) -> None:
        """The next frame begins a new journal: what the tail may hold by now is void."""
        self._tail = None

    def close(self) -> None:
        """Close all files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def _path(self, first_frame: int) -> Path:
        return self._directory / f"{first_frame:020d}.journal"

    def _file(self, first_frame: int) -> int:
        file = self._files.get(first_frame)
        if file is None:
            file = self._files.setdefault(first_frame, os.open(self._path(first_frame), os.O_RDWR))
        return file

    def _begin_journal(self, first_frame: int) -> Place:
        path = self._path(first_frame)
        header = JournalHeader(
            store=self.number, first_frame=first_frame, cluster_id=self._cluster_id
        ).encode()
        try:
            # A file of this name can only hold a frame that failed: this append takes its number, and a file of
            # its own, because a failed sync may have been that of the old one.
            stale = self._files.pop(first_frame, None)
            if stale is not None:
                os.close(stale)
            path.unlink(missing_ok=True)
            file = self._files[first_frame] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            _write_all(file, [header], 0)
            os.fdatasync(file)
            sync_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot begin {path}: {failure.strerror}") from failure
        return Place(journal=first_frame, position=len(header))

    def _take_back(self, tail: Place) -> None:
        """After a failed write: cut the partial frame off, or give the file up."""
        try:
            os.ftruncate(self._file(tail.journal), tail.position)
        except OSError:
            self._tail = None

    def _journals(self) -> list[int]:
        journals = sorted(int(path.stem) for path in self._directory.glob("*.journal"))
        if journals and self._was_never_begun(journals[-1]):
            self._path(journals.pop()).unlink()
        return journals

    def _was_never_begun(self, first_frame: int) -> bool:
        """Whether the crash came before the header was durable: cut off, or a length without its bytes."""
        with self._path(first_frame).open("rb") as file:
            data = file.read(journal.FILE_HEADER_BYTES + journal.FRAME_HEADER_BYTES)
        return len(data) < journal.FILE_HEADER_BYTES or not any(data)

    def _check_header(self, first_frame: int) -> None:
        path = self._path(first_frame)
        with path.open("rb") as file:
            try:
                header = JournalHeader.decode(file.read(journal.FILE_HEADER_BYTES))
            except (CorruptFrame, FormatTooNew) as failure:
                raise StoreFailed(f"{path}: {failure}") from failure
        if header.cluster_id != self._cluster_id or header.store != self.number:
            raise StoreFailed(f"{path} belongs to store {header.store} of cluster {header.cluster_id}")
        if header.first_frame != first_frame:
            raise StoreFailed(f"{path} says that it begins with frame {header.first_frame}: it was renamed")

    def _frames(
        self, first_frame: int, position: int, successor: int | None, expected: int
    ) -> Iterator[StoredFrame]:
        """The frames of one journal from `position` on; those that the successor makes void are left out."""
        path = self._path(first_frame)
        size = path.stat().st_size
        if size < position:
            raise StoreFailed(
                f"{path} ends at byte {size}, but {position} bytes were acknowledged: restore it"
            )
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
                    store=self.number, number=frame.number, body=body, footer=frame.footer, end=tail
                )
        if successor is None:
            if tail.position < size:
                os.ftruncate(self._file(first_frame), tail.position)
                os.fdatasync(self._file(first_frame))
            self._tail = tail

    def _whole_frame(self, data: mmap.mmap, at: Place, expected: int, successor: int | None) -> Frame | None:
        """The frame at `at`, None for a tail that nobody was promised, StoreFailed for damage elsewhere."""
        try:
            frame = journal.read_frame(data, at.position, expected)
            changes = decode_sound(frame.footer)
            with (
                memoryview(data) as view,
                view[frame.body_position : frame.body_position + frame.body_bytes] as body,
            ):
                verify_body(body, changes, self.number)
        except FormatTooNew as failure:
            raise StoreFailed(f"{self._path(at.journal)}: {failure}") from failure
        except CorruptData as failure:
            voided = successor is not None and expected >= successor
            if voided or (successor is None and not journal.has_frame_after(data, at.position, expected)):
                return None
            raise StoreFailed(f"{self._path(at.journal)} is damaged in the middle: {failure}") from None
        return frame


def _write_all(file: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write the buffers one after the other from `position` on and return the position after them."""
    done = 0
    pending = list(buffers)
    while done < len(pending):
        written = os.pwritev(file, pending[done : done + BUFFERS_PER_WRITE_MAX], position)
        position += written
        while done < len(pending) and written >= len(pending[done]):
            written -= len(pending[done])
            done += 1
        if written:
            pending[done] = memoryview(pending[done])[written:]
    return position

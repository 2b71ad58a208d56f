"""A store that fails when a test says so, around any other store."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.errors import StoreFailed
from holdfast.store.journal import Buffer
from holdfast.store.segment_index import SegmentIndex
from holdfast.store.store import Checkpoint, Place, Store, StoredFrame

HANG_SECONDS_MAX = 60.0

Tear = Callable[[StoredFrame, int], None]
"""Takes so many bytes off the end of a frame that was appended last, as a crash in the middle of it would."""


class FaultyStore:
    """Passes everything on to the wrapped store, except for the faults that are switched on. Implements `Store`.

    Faults keep the contract of `Store.append`: what was left by an append that failed may turn up in a replay until
    a later append of the same number succeeds. Stores that write a frame whole or not at all have no `tear`.
    """

    def __init__(self, store: Store, *, tear: Tear | None = None) -> None:
        self.wrapped = store
        self._tear = tear
        self.fail_appends = 0
        """So many of the next appends fail before anything is written."""
        self.fail_after_appends = 0
        """So many of the next appends fail although the frame is durable."""
        self.tear_appends: list[int] = []
        """The next appends fail and leave all but so many bytes of their frame."""
        self.fail_reads = 0
        """So many of the next reads fail, of journals or segments."""
        self.is_read_only = False
        """While set, everything fails that writes or deletes."""
        self.durable: list[int] = []
        """The numbers of the frames that were acknowledged, in order."""
        self.waits = threading.Event()
        """Set once an append has come to a store that hangs."""
        self._gate = threading.Event()
        self._gate.set()

    @property
    def number(self) -> int:
        """The wrapped store's number."""
        return self.wrapped.number

    @property
    def incarnation(self) -> int:
        """The wrapped store's life."""
        return self.wrapped.incarnation

    def hang(self) -> None:
        """Appends do not come back until `release`."""
        self._gate.clear()

    def release(self) -> None:
        """Those that hang go on, and later ones do not stop."""
        self._gate.set()

    def append(self, number: int, body: Sequence[Buffer], footer: bytes) -> StoredFrame:
        """Append, or meet the fault that is next."""
        if not self._gate.is_set():
            self.waits.set()
            assert self._gate.wait(HANG_SECONDS_MAX), "the test never released the store"
        self._fail_write()
        if self.fail_appends:
            self.fail_appends -= 1
            raise StoreFailed(f"store {self.number}: No space left on device")
        frame = self.wrapped.append(number, body, footer)
        if self.tear_appends:
            assert self._tear is not None, "the wrapped store writes frames whole or not at all"
            self._tear(frame, self.tear_appends.pop(0))
            self._give_up("cut off")
        if self.fail_after_appends:
            self.fail_after_appends -= 1
            self._give_up("Input/output error")
        self.durable.append(number)
        return frame

    def replay(self, after: Checkpoint | None, *, first: int | None = None) -> Iterator[StoredFrame]:
        """What the wrapped store has."""
        return self.wrapped.replay(after, first=first)

    def read(self, place: Place, length: int) -> bytes:
        """Read, unless a fault is switched on."""
        self._fail_read()
        return self.wrapped.read(place, length)

    def begin_anew(self) -> None:
        """The wrapped store's next frame voids what the tail may hold."""
        self.wrapped.begin_anew()

    def roll(self) -> None:
        """The wrapped store's next frame begins a journal."""
        self.wrapped.roll()

    def truncate_to(self, checkpoint: Checkpoint | None) -> None:
        """Truncate, unless nothing can be written."""
        self._fail_write()
        self.wrapped.truncate_to(checkpoint)

    def list_journals(self) -> list[int]:
        """The wrapped store's."""
        return self.wrapped.list_journals()

    def delete_journals(self, below: int) -> int:
        """Delete, unless nothing can be written."""
        self._fail_write()
        return self.wrapped.delete_journals(below)

    def list_carried(self) -> list[int]:
        """The wrapped store's."""
        return self.wrapped.list_carried()

    def delete_carried(self, numbers: Iterable[int]) -> int:
        """Delete, unless nothing can be written."""
        self._fail_write()
        return self.wrapped.delete_carried(numbers)

    def list_files(self) -> set[str]:
        """The wrapped store's."""
        return self.wrapped.list_files()

    def read_segment(self, file: str, position: int, length: int) -> bytes:
        """Read, unless a fault is switched on."""
        self._fail_read()
        return self.wrapped.read_segment(file, position, length)

    def segment_index(self, file: str) -> SegmentIndex:
        """Read, unless a fault is switched on."""
        self._fail_read()
        return self.wrapped.segment_index(file)

    def check_segment(self, file: str, length_bytes: int) -> None:
        """What the wrapped store finds."""
        self.wrapped.check_segment(file, length_bytes)

    def delete_segment(self, file: str) -> int:
        """Delete, unless nothing can be written."""
        self._fail_write()
        return self.wrapped.delete_segment(file)

    def snapshot_path(self, frame: int) -> Path:
        """The wrapped store's."""
        return self.wrapped.snapshot_path(frame)

    def save_snapshot(self, write: Callable[[Path], int]) -> int:
        """Save, unless nothing can be written."""
        self._fail_write()
        return self.wrapped.save_snapshot(write)

    def list_snapshots(self) -> list[int]:
        """The wrapped store's."""
        return self.wrapped.list_snapshots()

    def keep_snapshots(self, count: int) -> int:
        """Delete, unless nothing can be written."""
        self._fail_write()
        return self.wrapped.keep_snapshots(count)

    def forget_deleted(self) -> None:
        """The wrapped store lets go."""
        self.wrapped.forget_deleted()

    def check_in_place(self) -> None:
        """What the wrapped store finds."""
        self.wrapped.check_in_place()

    def probe(self) -> None:
        """Probe, unless nothing can be written."""
        self._fail_write()
        self.wrapped.probe()

    def close(self) -> None:
        """Close the wrapped store."""
        self.wrapped.close()

    def _fail_read(self) -> None:
        if self.fail_reads:
            self.fail_reads -= 1
            raise StoreFailed(f"store {self.number}: Input/output error")

    def _fail_write(self) -> None:
        if self.is_read_only:
            raise StoreFailed(f"store {self.number}: Read-only file system")

    def _give_up(self, why: str) -> None:
        # The wrapped store believes that the frame is there. A store that failed would not write behind it.
        self.wrapped.begin_anew()
        raise StoreFailed(f"store {self.number}: {why}")

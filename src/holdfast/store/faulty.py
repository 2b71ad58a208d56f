"""A store that fails when a test says so, around any other store."""

import threading
from collections.abc import Callable, Iterator, Sequence

from holdfast.errors import StoreFailed
from holdfast.store.journal import Buffer
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
        """So many of the next reads fail."""
        self.is_read_only = False
        """While set, every append fails."""
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
        if self.is_read_only:
            raise StoreFailed(f"store {self.number}: Read-only file system")
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

    def replay(self, after: Checkpoint | None) -> Iterator[StoredFrame]:
        """What the wrapped store has."""
        return self.wrapped.replay(after)

    def read(self, place: Place, length: int) -> bytes:
        """Read, unless a fault is switched on."""
        if self.fail_reads:
            self.fail_reads -= 1
            raise StoreFailed(f"store {self.number}: Input/output error")
        return self.wrapped.read(place, length)

    def begin_anew(self) -> None:
        """The wrapped store's next frame voids what the tail may hold."""
        self.wrapped.begin_anew()

    def close(self) -> None:
        """Close the wrapped store."""
        self.wrapped.close()

    def _give_up(self, why: str) -> None:
        # The wrapped store believes that the frame is there. A store that failed would not write behind it.
        self.wrapped.begin_anew()
        raise StoreFailed(f"store {self.number}: {why}")

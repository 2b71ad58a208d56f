"""Files that readers have been promised: whoever collects leaves them alone until the promise has run out.

A promise has a time limit, because nobody says goodbye for a reader that has died. It need not outlive the process:
what collects begins to count the age of unused files anew then, too.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from holdfast.errors import ReadingOver, ReadingRefused

PINS_MAX = 10_000
"""Promises at the same time."""


@dataclass(frozen=True, slots=True)
class StoreFilesHeld:
    """Files of one store: segments by name, journals and carried files by number."""

    segments: set[str] = field(default_factory=set)
    journals: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Pin:
    files: Mapping[int, StoreFilesHeld]
    until: float


class Pins:
    """Any thread may ask.

    `lock` is held by who plans a reading from before it looks at the control plane until its files are pinned, and by
    who looks for unused files while it looks at both. So a file that was found unused was unused before the plan was
    made, and is not in it; or else it is found to be pinned.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.lock = threading.RLock()
        self._now = now
        self._pins: dict[str, _Pin] = {}

    def add(self, files: Mapping[int, StoreFilesHeld], seconds: float) -> str:
        """Hold the files, by store; the name of the promise."""
        with self.lock:
            self._forget_old()
            if len(self._pins) >= PINS_MAX:
                raise ReadingRefused(f"{PINS_MAX} readings are under way: try again when one is over")
            name = uuid4().hex
            self._pins[name] = _Pin(files, self._now() + seconds)
            return name

    def renew(self, name: str, seconds: float) -> None:
        """Hold them for so long from now on; ReadingOver if they are held no longer."""
        with self.lock:
            self._forget_old()
            if name not in self._pins:
                raise ReadingOver("the time for which its files were held is over")
            self._pins[name].until = self._now() + seconds

    def release(self, name: str) -> None:
        """They are not needed any more."""
        with self.lock:
            self._pins.pop(name, None)

    def find(self, store: int) -> StoreFilesHeld:
        """What is held of a store."""
        with self.lock:
            self._forget_old()
            held = StoreFilesHeld()
            for pin in self._pins.values():
                if files := pin.files.get(store):
                    held.segments.update(files.segments)
                    held.journals.update(files.journals)
            return held

    def _forget_old(self) -> None:
        now = self._now()
        self._pins = {name: pin for name, pin in self._pins.items() if pin.until > now}

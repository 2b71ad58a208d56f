"""Since when something is so, where nobody writes that down: as long as this process has seen it without a break."""

import threading
from collections.abc import Callable, Hashable, Iterable


class Sightings:
    """Remembers when each thing was first seen about a subject; what is no longer seen is forgotten.

    A lower bound: it may have begun before anybody looked, or before this process began. Any thread may ask.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._first_ms: dict[Hashable, dict[Hashable, int]] = {}

    def look(self, subject: Hashable, seen: Iterable[Hashable]) -> dict[Hashable, int]:
        """What is so of the subject now, each with the milliseconds for which it has been seen; at first 0."""
        now_ms = self._now_ms()
        with self._lock:
            before = self._first_ms.pop(subject, {})
            present = {each: before.get(each, now_ms) for each in seen}
            if present:
                self._first_ms[subject] = present
        return {each: now_ms - first_ms for each, first_ms in present.items()}

    def keep(self, is_there: Callable[[Hashable], bool]) -> None:
        """Forget the subjects that are gone."""
        with self._lock:
            for subject in [subject for subject in self._first_ms if not is_there(subject)]:
                del self._first_ms[subject]

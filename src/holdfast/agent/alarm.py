"""One timer for the next of many deadlines."""

import asyncio
import heapq
from collections.abc import Callable


class Alarm:
    """Calls back with a name at or after the earliest time that was set for it.

    Setting a later time changes nothing: the call comes early, and whoever is called sets the time anew. So
    a heartbeat, which only ever moves a deadline back, costs a comparison.
    """

    def __init__(self, *, now_ms: Callable[[], int], on_due: Callable[[str], None]) -> None:
        self._now_ms = now_ms
        self._on_due = on_due
        self._heap: list[tuple[int, str]] = []
        self._set: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._is_stopped = False

    def set(self, name: str, due_ms: int | None) -> None:
        """See to it that `name` is called by then."""
        current_ms = self._set.get(name)
        if due_ms is None or (current_ms is not None and current_ms <= due_ms):
            return
        self._set[name] = due_ms
        heapq.heappush(self._heap, (due_ms, name))
        self._schedule()

    def stop(self) -> None:
        """Call nobody any more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        if self._is_stopped or not self._heap:
            return
        due_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_s = max(0, due_ms - self._now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, name = heapq.heappop(self._heap)
            # An entry that is not the current one was replaced by an earlier one, which has rung.
            if self._set.get(name) == due_ms:
                del self._set[name]
                due.append(name)
        for name in due:
            self._on_due(name)
        self._schedule()

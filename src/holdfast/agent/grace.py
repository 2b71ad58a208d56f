"""The grace clock of a process: what it had counted before the last stop, and what has certainly passed since."""

from collections.abc import Callable

from holdfast.control.plane import ControlPlane
from holdfast.rules.clock import GraceClock

SAVE_MS = 10_000


class Grace:
    """Counts time for the graces of tombstones, and keeps what it has counted in the control plane."""

    def __init__(
        self, plane: ControlPlane, *, wall_ms: Callable[[], int], monotonic_ms: Callable[[], int]
    ) -> None:
        self._plane = plane
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._saved_ms = plane.find_elapsed()
        self._clock = GraceClock(elapsed_ms=self._saved_ms)

    def elapsed_ms(self) -> int:
        """Milliseconds that have certainly passed in the lives of this log."""
        self._clock = self._clock.observe(wall_ms=self._wall_ms(), monotonic_ms=self._monotonic_ms())
        elapsed_ms = self._clock.elapsed_ms
        if elapsed_ms - self._saved_ms >= SAVE_MS:
            self._saved_ms = elapsed_ms
            self._plane.save_elapsed(elapsed_ms)
        return elapsed_ms

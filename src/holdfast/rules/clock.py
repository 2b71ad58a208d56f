"""Time that has certainly passed, for what must not come early: graces of tombstones, time-outs of transactions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceClock:
    """Time that has certainly passed: it advances by the smaller of wall and monotonic time.

    A wall clock that jumps ahead, or a machine that slept, ends no grace early. After a restart the monotonic
    clock has nothing to compare with, so the time of the outage does not count: call `resume`, then `observe`
    again.
    """

    elapsed_ms: int = 0
    wall_ms: int | None = None
    monotonic_ms: int | None = None

    def observe(self, *, wall_ms: int, monotonic_ms: int) -> "GraceClock":
        """Count what passed since the last observation; a clock that went back adds nothing."""
        passed_ms = 0
        if self.wall_ms is not None and self.monotonic_ms is not None:
            passed_ms = max(0, min(wall_ms - self.wall_ms, monotonic_ms - self.monotonic_ms))
        return GraceClock(elapsed_ms=self.elapsed_ms + passed_ms, wall_ms=wall_ms, monotonic_ms=monotonic_ms)

    def resume(self) -> "GraceClock":
        """The persisted clock after a restart: what had passed is kept, the anchors are not."""
        return GraceClock(elapsed_ms=self.elapsed_ms)

"""Make a failing schedule as short as it can be while it still fails in the same way."""

from holdfast.lab import steps
from holdfast.lab.explore import Found, replay

REPLAYS_MAX = 4_000


def shrink(found: Found) -> Found:
    """Drop steps, in ever smaller runs, as long as the same invariant breaks in the same variant.

    Bounded by REPLAYS_MAX replays; the result is itself a schedule that was seen to fail.
    """
    replays = 0
    size = max(1, len(found.steps) // 2)
    while size:
        start, shorter = 0, False
        while start < len(found.steps) and replays < REPLAYS_MAX:
            replays += 1
            fewer = _without(found.steps, start, size)
            again = replay(found, fewer)
            if again is not None and again.kind == found.kind and len(again.steps) < len(found.steps):
                found, shorter = again, True
            else:
                start += size
        if not shorter or size > 1:
            size //= 2
    return found


def _without(schedule: tuple[steps.Step, ...], start: int, size: int) -> tuple[steps.Step, ...]:
    return schedule[:start] + schedule[start + size :]

"""How far a tenant's messages are complete: up to the last day before the first that is not closed."""

from collections.abc import Mapping
from datetime import date, timedelta

from holdfast.pipelines.recon.day import DayState


def completion_watermark(states: Mapping[date, DayState]) -> date | None:
    """The last day of the unbroken run of closed days that begins with the first day known; None if there is none.

    A day that nobody has judged is a hole like one that is open: the days behind it count when it is closed.
    """
    if not states:
        return None
    day = min(states)
    while states.get(day) is DayState.CLOSED:
        day += timedelta(days=1)
    return None if day == min(states) else day - timedelta(days=1)

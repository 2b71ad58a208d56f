"""Durations as people write and read them: 500ms, 90s, 15m, 2h, 1d."""

import re
from datetime import timedelta

import click

_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DurationType(click.ParamType[int]):
    """Reads a duration as milliseconds."""

    name = "duration"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Fails as click's own types do."""
        if isinstance(value, int):
            return value
        found = _DURATION.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is not a duration such as 500ms, 90s, 15m, 2h or 1d", param, ctx)
        return int(found[1]) * _UNIT_MS[found[2]]


def told(duration_ms: int | None) -> str | None:
    """Hours, minutes and seconds, with milliseconds where it is short; None stays None."""
    if duration_ms is None:
        return None
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    return str(timedelta(seconds=duration_ms // 1000))

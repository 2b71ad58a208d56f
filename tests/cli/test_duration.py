"""Durations, read and told."""

import click
import pytest

from holdfast.cli.duration import DurationType, told


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("0ms", 0), ("500ms", 500), ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_read(text: str, duration_ms: int) -> None:
    """A number and its unit."""
    assert DurationType().convert(text, None, None) == duration_ms


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1.5h", "1 h", "5M", "1h30m", "٣s", "9999999999999ms"])
def test_refused(text: str) -> None:
    """Anything else, a number without a unit among it: nobody can tell what it means."""
    with pytest.raises(click.BadParameter, match="500ms, 90s"):
        DurationType().convert(text, None, None)


def test_told() -> None:
    """Hours, minutes and seconds; what is short in milliseconds, what is unknown not at all."""
    assert told(None) is None
    assert told(999) == "999 ms"
    assert told(61_999) == "0:01:01"
    assert told(90_061_000) == "1 day, 1:01:01"

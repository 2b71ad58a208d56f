"""Shrinking: what is left of a failing schedule still fails, and nothing in it is superfluous."""

import pytest

from holdfast.lab.explore import Found, Search, explore_part, replay
from holdfast.lab.shrink import shrink
from holdfast.lab.transcript import lines

FOUND = list(explore_part(Search(policy="kafka", seeds=120)).first.values())


@pytest.mark.parametrize("found", FOUND, ids=lambda found: str(found.violation.variant))
def test_shrunk_schedule_fails_alike(found: Found) -> None:
    """It breaks the same invariant in the same variant, in fewer steps."""
    short = shrink(found)
    assert short.kind == found.kind
    assert len(short.steps) < len(found.steps)
    assert replay(short, short.steps) == short


@pytest.mark.parametrize("found", FOUND, ids=lambda found: str(found.violation.variant))
def test_shrunk_schedule_needs_every_step(found: Found) -> None:
    """Without any one of its steps it does not fail that way any more."""
    short = shrink(found)
    for index in range(len(short.steps)):
        again = replay(short, short.steps[:index] + short.steps[index + 1 :])
        assert again is None or again.kind != short.kind or len(again.steps) == len(short.steps)


def test_schedule_is_told_line_by_line() -> None:
    """A header with the setting, then one line for each step."""
    short = shrink(FOUND[0])
    told = lines(short)
    assert told[0] == f"replicas {short.setting.replicas}"
    assert sum(not line.startswith(("replicas", "set")) for line in told) == len(short.steps) + short.at_rest

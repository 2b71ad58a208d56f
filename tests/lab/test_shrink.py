"""Shrinking: what is left of a failing schedule still fails, and nothing in it is superfluous."""

import pytest

from holdfast.lab.account import run
from holdfast.lab.explore import Found, Search, explore_part, replay
from holdfast.lab.scenario import parse
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


@pytest.mark.parametrize("found", FOUND, ids=lambda found: str(found.violation.variant))
def test_told_schedule_is_a_scenario(found: Found) -> None:
    """What is printed is the scenario language: `lab run` sees the same harm, and none under coordination."""
    text = "\n".join(lines(shrink(found)))
    assert run(parse("found", text), policy="kafka").variant == found.violation.variant
    assert run(parse("found", text), policy="coordinated").agreed

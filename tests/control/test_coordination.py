"""Whom removal waits for: every member in production, and another answer in the lab alone."""

from pathlib import Path

import pytest

import holdfast
from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.replicas import StorePhase

SOURCE = Path(holdfast.__file__).parent


@pytest.mark.parametrize("phase", [None, *StorePhase])
def test_every_member_is_waited_for(phase: StorePhase | None) -> None:
    """Whether it is here or not; who is fenced is no member."""
    assert COORDINATED.counts(phase)
    here_only = Coordination(waits_for_absent=False)
    assert here_only.counts(phase) is (phase in (None, StorePhase.IN_SYNC))


def test_only_the_lab_asks_for_anything_else() -> None:
    """No code outside of it makes a coordination that does not wait."""
    naming = [path for path in SOURCE.rglob("*.py") if "waits_for_absent=" in path.read_text()]
    assert [path.relative_to(SOURCE).parts[0] for path in naming] == ["lab"]
    making = [path for path in SOURCE.rglob("*.py") if "Coordination(" in path.read_text()]
    assert {path.relative_to(SOURCE).as_posix() for path in making if path.parts[-2] == "control"} == {
        "control/coordination.py"
    }

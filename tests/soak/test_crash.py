"""`make soak`, the short version: the same code with fixed seeds."""

from pathlib import Path

import pytest

from soak import plan, play
from soak.disk import Garbage, LostPlane, StalePlane, TornTail

ONE_NODE = 1038
THREE_NODES = 5256


@pytest.mark.parametrize("seed", [ONE_NODE, THREE_NODES])
def test_killed_at_any_moment_the_log_is_what_its_clients_were_told(seed: int, tmp_path: Path) -> None:
    """Every acknowledged record once, in order, at its offset; nothing twice; what was read or committed stays."""
    report = play.run(plan.draw(seed), tmp_path / "round")
    assert not report.violations, "\n".join(map(str, [*report.plan.lines(), *report.violations]))
    assert report.acknowledged > sum(kill.after_acknowledged for kill in report.plan.kills)
    assert report.records >= play.ACKNOWLEDGED_AT_END


def test_the_fixed_seeds_have_all_faults_in_them() -> None:
    """Whoever changes how plans are drawn must look for others."""
    plans = [plan.draw(ONE_NODE), plan.draw(THREE_NODES)]
    assert [each.setting.nodes for each in plans] == [1, 3]
    for each in plans:
        faults = {type(fault) for kill in each.kills for fault in kill.faults}
        assert faults == {TornTail, Garbage, LostPlane, StalePlane}
        assert any(kill.is_at_write for kill in each.kills)
        assert any(kill.starts_killed_after_ms for kill in each.kills)
        assert each.rebuilds_at_end

"""Rounds over some stores only."""

from holdfast.keeper.round import Round
from holdfast.keeper.runner import InProcessRunner
from tests.keeper.engine import Engine


def test_a_round_for_some_stores_leaves_the_others_alone(engine: Engine) -> None:
    """Neither rewritten nor leased; a round without a choice does the rest."""
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    report = Round(engine.gateway, lambda size_bytes: InProcessRunner(), stores={2}).run()
    assert report.rewrites == 1
    settled = {replica.store: replica.settled_to for replica in engine.removal(key).replicas}
    assert settled == {1: 0, 2: 1, 3: 0}
    leases = {state.store: state.lease for state in engine.cluster.plane.list_stores()}
    assert leases == {1: 0, 2: 1, 3: 0}
    assert engine.round().rewrites == 2

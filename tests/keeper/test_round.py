"""Rounds over some stores only, and what a round looks at."""

from collections import Counter
from typing import Any

import pytest

from holdfast.control.replicas import StorePhase
from holdfast.keeper.gateway import Ask, Gateway
from holdfast.keeper.round import Round
from holdfast.keeper.runner import InProcessRunner
from tests.keeper.engine import Engine


def run_round(ask: Ask, *, waits: bool = False) -> Round:
    made = Round(Gateway(ask, holder="mine"), lambda size_bytes: InProcessRunner(), waits=waits)
    made.run()
    return made


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


def test_a_store_is_looked_at_once(engine: Engine) -> None:
    """A look lists every extent that is due: it is the largest of all answers."""
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    asked: Counter[str] = Counter()

    def ask(question: str, about: dict[str, Any]) -> Any:
        asked[question] += 1
        return engine._ask(question, about)

    assert run_round(ask).report.rewrites == 3
    assert asked["views"] == 3, "one for each store"


@pytest.mark.parametrize("waits", [False, True])
def test_what_another_keeper_has_done_since_the_look(engine: Engine, waits: bool) -> None:
    """It stays: a rewrite of what was there before is refused, and whoever waited for the lease finds nothing to do."""
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    engine.append(key, (b"a", b"2"))

    def ask(question: str, about: dict[str, Any]) -> Any:
        if question == "lease" and not others:
            others.append(engine.round())
        return engine._ask(question, about)

    others: list[Any] = []
    mine = run_round(ask, waits=waits).report
    assert (others[0].rewrites, mine.rewrites, mine.refused, mine.failed) == (3, 0, 0 if waits else 3, 0)
    assert {replica.generation for replica in engine.removal(key).replicas} == {1}
    for store in (1, 2, 3):
        assert engine.table(key, store) == {b"a": b"2"}


def test_who_has_brought_a_store_along_looks_again(engine: Engine) -> None:
    """That may take hours: what was due before need not be due any more."""
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    with engine.away(3):
        engine.append(key, (b"b", b"2"))
    engine.look()
    assert engine.phase(3) is StorePhase.JOINING

    def ask(question: str, about: dict[str, Any]) -> Any:
        answer = engine._ask(question, about)
        if question == "join":
            others.append(Round(engine.gateway, lambda size_bytes: InProcessRunner(), stores={1, 2}).run())
        return answer

    others: list[Any] = []
    mine = run_round(ask).report
    assert others[0].rewrites == 2
    assert (mine.stores_joined, mine.refused, mine.failed) == ([3], 0, 0)
    assert {replica.generation for replica in engine.removal(key).replicas if replica.store < 3} == {1}

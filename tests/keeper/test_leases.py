"""Who may rewrite a store: one keeper at a time, and the next one once the first is gone."""

from typing import NoReturn

import pytest

from holdfast.errors import StorageUnavailable, StoreFailed
from holdfast.keeper.gateway import Gateway, holder_name
from holdfast.keeper.round import Round
from holdfast.keeper.runner import InProcessRunner
from tests.keeper.engine import Engine


def fail() -> NoReturn:
    raise StoreFailed("no room")


def test_the_stores_of_a_dead_keeper_are_free_at_once(engine: Engine) -> None:
    """Under a later lease; another keeper's stores stay its own."""
    dead, living = (Gateway(engine.gateway._ask, holder=holder_name(pid)) for pid in (1, 2))
    first = dead.lease(1)
    assert first is not None
    assert living.lease(2) is not None
    assert living.lease(1) is None
    engine.cluster.desk.let_go(holder_name(1))
    assert living.lease(1) == first + 1
    assert dead.lease(2) is None


def test_several_stores_are_leased_in_one_frame(engine: Engine) -> None:
    """Those that nobody else has; who has them goes on holding them without a frame, and lets them go at once."""
    one, other = (Gateway(engine.gateway._ask, holder=holder_name(pid)) for pid in (1, 2))
    assert other.lease(2) == 1
    before = engine.cluster.commits.last_frame
    assert one.lease_all([1, 2, 3]) == {1: 1, 3: 1}
    assert one.lease_all([3, 1]) == {3: 1, 1: 1}
    assert engine.cluster.commits.last_frame == before + 1
    assert other.lease_all([1, 2, 3]) == {2: 1}
    one.release(1, 2, 3)
    assert other.lease_all([1, 2, 3]) == {1: 2, 2: 1, 3: 2}, "what it did not have, it did not let go"


def test_a_store_that_is_not_to_be_had_takes_no_other_down(engine: Engine) -> None:
    """Nobody knows it, or its next lease was given to somebody else meanwhile; nobody holds it then."""
    plane = engine.cluster.plane
    stale = plane.list_stores()
    engine.gateway.lease(2)
    engine.gateway.release(2)
    plane.list_stores = lambda: stale  # type: ignore[method-assign]
    try:
        assert engine.gateway.lease_all([1, 2, 3, 9]) == {1: 1, 3: 1}
    finally:
        del plane.list_stores
    assert Gateway(engine.gateway._ask, holder="other").lease_all([1, 2]) == {2: 2}


def test_leases_that_are_not_durable_are_not_held(engine: Engine) -> None:
    """A frame that fails gives nothing to anybody."""
    for store in engine.cluster.stores.by_number.values():
        store.append = lambda *frame: fail()  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        engine.gateway.lease_all([1, 2])
    assert not any(map(engine.cluster.desk._leases.is_held, (1, 2)))


def test_who_waits_takes_stores_in_order(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no store that comes after the one that it waits for: two such keepers never wait for each other."""
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    other = Gateway(engine.gateway._ask, holder="other")
    assert other.lease(2) == 1
    seen: list[dict[int, int]] = []

    def pause(seconds: float) -> None:
        seen.append(other.lease_all([1, 3]))
        # What it has is known at once: who waits for long has it renewed, or it would be somebody else's by then.
        assert a_round.leased == [1]
        other.release(2, 3)

    monkeypatch.setattr("holdfast.keeper.round.time.sleep", pause)
    a_round = Round(engine.gateway, lambda size_bytes: InProcessRunner(), waits=True)
    report = a_round.run()
    assert seen == [{3: 1}]
    assert (report.rewrites, report.stores_skipped) == (3, [])

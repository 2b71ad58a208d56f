"""Who may rewrite a store: one keeper at a time, and the next one once the first is gone."""

from holdfast.keeper.gateway import Gateway, holder_name
from tests.keeper.engine import Engine


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

"""What one group commit does to transactions: the guards that only a request which waited too long can meet."""

import pytest

from holdfast.agent.transactions.plan import KnownTransactions, Membership, TransactionPlan
from holdfast.control.memory import MemoryControlPlane
from holdfast.errors import InvalidTxnState
from holdfast.rules.transactional_id import TransactionalId

TURN = 2


@pytest.fixture
def plan() -> TransactionPlan:
    """An id in its second turn: one transaction of the same epoch has ended (TV1)."""
    known = KnownTransactions(MemoryControlPlane())
    known.by_name["x"] = TransactionalId(producer_id=1, epoch=0, timeout_ms=1, turn=TURN)
    return TransactionPlan(known, now_ms=0)


def test_what_waited_past_its_transaction_cannot_join_the_next(plan: TransactionPlan) -> None:
    """It was checked when the transaction before was open, under the same epoch; it begins nothing either."""
    with pytest.raises(InvalidTxnState, match="has ended"):
        plan.join(Membership("x", TURN - 1))
    assert not plan.begun


@pytest.mark.parametrize("turn", [TURN, None], ids=["TV1", "TV2"])
def test_what_belongs_to_the_present_transaction_joins_it(plan: TransactionPlan, turn: int | None) -> None:
    """The first begins it, the next find it open."""
    instance = plan.join(Membership("x", turn))
    assert plan.join(Membership("x", turn)) == instance
    assert [begun.instance for begun in plan.begun] == [instance]

"""A lost outcome is noticed, whether its producer goes on or not."""

from typing import Any

import pytest

from holdfast.errors import OutcomeMissing
from holdfast.rules.log_transactions import LogTransactions
from holdfast.rules.transaction import Outcome


def test_a_marker_decides_its_own_instance(log: Any) -> None:
    """COMMIT and ABORT of one producer reach only the data of the instance that they name."""
    transactions = LogTransactions()
    for entry in (
        log.txn("a", "1", instance=1),
        log.end(Outcome.ABORTED, instance=1),
        log.txn("b", "2", instance=2),
        log.end(Outcome.COMMITTED, instance=2),
    ):
        transactions.append(entry)
    assert transactions.instances.outcome(1) is Outcome.ABORTED
    assert transactions.instances.outcome(2) is Outcome.COMMITTED


def test_a_producer_that_goes_on_reveals_a_lost_outcome(log: Any) -> None:
    """The next instance of the producer begins while the first has no outcome: stop."""
    transactions = LogTransactions()
    transactions.append(log.txn("a", "1", instance=1))
    with pytest.raises(OutcomeMissing):
        transactions.append(log.txn("b", "2", instance=2))


def test_a_leader_that_is_past_it_reveals_a_lost_outcome(log: Any) -> None:
    """Nothing is left to fetch and the leader's LSO lies above an instance without outcome: stop."""
    transactions = LogTransactions()
    transactions.append(log.txn("a", "1", instance=1))
    transactions.require_decided(0)
    with pytest.raises(OutcomeMissing):
        transactions.require_decided(1)


def test_a_marker_without_data_decides_nothing(log: Any) -> None:
    """All data of the instance was settled at the source: its marker is harmless."""
    transactions = LogTransactions()
    transactions.append(log.end(Outcome.COMMITTED, instance=1))
    assert transactions.unstable.first() is None

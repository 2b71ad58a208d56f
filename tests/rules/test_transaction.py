"""Transaction instances: one batch, one instance, one outcome."""

import pytest

from holdfast.errors import InvalidTxnState, OutcomeMissing
from holdfast.rules.transaction import Instances, Outcome


def test_an_instance_is_open_until_it_is_decided() -> None:
    """The first batch opens an instance, the outcome closes it and names where it began."""
    instances = Instances()
    assert instances.join(1, 10)
    assert not instances.join(1, 11)
    assert instances.outcome(1) is Outcome.OPEN
    assert instances.decide(1, Outcome.COMMITTED) == 10
    assert instances.outcome(1) is Outcome.COMMITTED


def test_absence_never_decides() -> None:
    """An instance that nobody knows is an error, not an open, committed or aborted one."""
    with pytest.raises(OutcomeMissing):
        Instances().outcome(1)


def test_no_late_batch_joins_a_decided_instance() -> None:
    """A batch that arrives after the outcome is refused, so it can never be decided by the next one."""
    instances = Instances()
    instances.join(1, 10)
    instances.decide(1, Outcome.ABORTED)
    with pytest.raises(InvalidTxnState):
        instances.join(1, 12)


def test_an_outcome_is_final() -> None:
    """To decide again alike is a retry; to decide otherwise is refused."""
    instances = Instances()
    instances.join(1, 10)
    instances.decide(1, Outcome.COMMITTED)
    assert instances.decide(1, Outcome.COMMITTED) == 10
    with pytest.raises(InvalidTxnState):
        instances.decide(1, Outcome.ABORTED)


def test_an_outcome_decides_its_own_instance_only() -> None:
    """Two instances of one producer do not touch each other."""
    instances = Instances()
    instances.join(1, 10)
    instances.join(2, 11)
    instances.decide(2, Outcome.COMMITTED)
    assert instances.outcome(1) is Outcome.OPEN


def test_only_decided_instances_can_be_forgotten() -> None:
    """A forgotten instance is unknown again; an open one cannot be forgotten."""
    instances = Instances()
    instances.join(1, 10)
    with pytest.raises(InvalidTxnState):
        instances.forget(1)
    instances.decide(1, Outcome.ABORTED)
    instances.forget(1)
    assert 1 not in instances

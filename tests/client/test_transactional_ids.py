"""Whether a transaction is still the one that somebody looked at."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.client.groups import TopicPartition
from holdfast.client.transactional_ids import TransactionDescription
from holdfast.errors import InvalidTxnState

CONFIRMED = TransactionDescription(
    name="tx",
    state="Ongoing",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=1000,
    started_ms=1_700_000_000_000,
    partitions=(),
)


@pytest.mark.parametrize(
    "changed",
    [
        {"producer_id": 8},
        {"producer_epoch": 4},
        {"started_ms": 1_700_000_000_001},
        {"state": "PrepareCommit"},
    ],
)
def test_another_transaction(changed: dict[str, Any]) -> None:
    """Told by any of these alone; both are named in words."""
    now = replace(CONFIRMED, **changed)
    with pytest.raises(InvalidTxnState) as refusal:
        now.check_same(CONFIRMED)
    assert "Ongoing since 2023-11-14 22:13:20.000+00:00, of producer 7 epoch 3" in str(refusal.value)
    assert str(next(iter(changed.values())))[-3:] in str(refusal.value).split(" and is ")[1]


def test_the_same_transaction() -> None:
    """It may have written to more partitions meanwhile."""
    replace(CONFIRMED, partitions=(TopicPartition("t", 0),), timeout_ms=2000).check_same(CONFIRMED)

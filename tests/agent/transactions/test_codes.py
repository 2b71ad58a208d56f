"""What clients are told of a refusal."""

import pytest

from holdfast.agent.transactions.codes import code_of
from holdfast.errors import (
    CoordinatorNotAvailable,
    HoldfastError,
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    StorageUnavailable,
    TransactionAbortable,
)


@pytest.mark.parametrize(
    ("refusal", "knows", "told"),
    [
        (ProducerFenced("x"), {}, ProducerFenced),
        (ProducerFenced("x"), {"fenced": False}, InvalidProducerEpoch),
        (TransactionAbortable("x"), {}, TransactionAbortable),
        (TransactionAbortable("x"), {"abortable": False}, InvalidTxnState),
        (StorageUnavailable("x"), {}, CoordinatorNotAvailable),
        (StorageUnavailable("x"), {"of_coordinator": False}, StorageUnavailable),
    ],
)
def test_each_version_hears_what_it_knows(
    refusal: HoldfastError, knows: dict[str, bool], told: type[HoldfastError]
) -> None:
    """An end whose fate is open is asked for again: librdkafka would take a storage error for an abort."""
    assert code_of(refusal, **knows) == told.kafka_code

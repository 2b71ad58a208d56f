"""How clients of transactions are told of a refusal, which depends on the version that they speak."""

from holdfast.errors import (
    CoordinatorNotAvailable,
    HoldfastError,
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    StorageUnavailable,
    TransactionAbortable,
)


def code_of(
    refusal: HoldfastError, *, fenced: bool = True, abortable: bool = True, of_coordinator: bool = True
) -> int:
    """The error code, also for a version from before PRODUCER_FENCED (KIP-588) or TRANSACTION_ABORTABLE (KIP-890)."""
    if isinstance(refusal, ProducerFenced) and not fenced:
        return InvalidProducerEpoch.kafka_code
    if isinstance(refusal, TransactionAbortable) and not abortable:
        return InvalidTxnState.kafka_code
    if isinstance(refusal, StorageUnavailable) and of_coordinator:
        # Whether it happened is open: clients ask again upon this one, and take a storage error for a failure.
        return CoordinatorNotAvailable.kafka_code
    return refusal.kafka_code

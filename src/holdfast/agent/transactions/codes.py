"""How clients of transactions are told of a refusal, which depends on the version that they speak."""

from holdfast.agent.coordinator_codes import coordinator_code_of
from holdfast.errors import (
    HoldfastError,
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
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
    return coordinator_code_of(refusal) if of_coordinator else refusal.kafka_code

"""How a coordinator, of groups or of transactions, tells clients of a refusal."""

from holdfast.errors import CoordinatorNotAvailable, HoldfastError, StorageUnavailable


def coordinator_code_of(refusal: HoldfastError) -> int:
    """The error code; of a write whose fate is open, the one upon which every client asks again.

    Java's consumers take a storage error in OffsetCommit for final, librdkafka's give up after the third within 0.3 s,
    and its producers take one for an abort. Kafka's coordinators hide it behind such a code as well.
    """
    if isinstance(refusal, StorageUnavailable):
        return CoordinatorNotAvailable.kafka_code
    return refusal.kafka_code

"""Ending what a producer has open in a partition: all of it by its coordinator, or that part where none knows it."""

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.hanging import TIMEOUT_MS_MAX, OpenWrite, abort_in_partition, find_open_write
from holdfast.client.transactional_ids import (
    TransactionDescription,
    abort_transaction,
    describe_open,
    list_transactional_ids,
)
from holdfast.errors import RepairRefused

OpenTransaction = TransactionDescription | OpenWrite


def find_open(
    cluster: Cluster, place: TopicPartition, producer_id: int, *, now_ms: int
) -> OpenTransaction | None:
    """The transaction as its coordinator has it; what the partition's leader holds of it where none knows it.

    RepairRefused where nobody can tell whether one knows it.
    """
    # The partition first: the other way round, a transaction that begins in between would seem to have no coordinator.
    write = find_open_write(cluster, place, producer_id)
    owner = _find_owner(cluster, place, producer_id)
    if owner is None and write is not None:
        _check_orphaned(cluster, write, now_ms)
    return owner or write


def abort_open(cluster: Cluster, found: OpenTransaction) -> OpenTransaction:
    """Abort it, as it was then; InvalidTxnState, and nothing is aborted, if another has taken its place since."""
    if isinstance(found, OpenWrite):
        abort_in_partition(cluster, found)
        return found
    return abort_transaction(cluster, found)


def _find_owner(cluster: Cluster, place: TopicPartition, producer_id: int) -> TransactionDescription | None:
    """The transactional id whose coordinator has the transaction open: a marker past it would tear it."""
    for each in describe_open(cluster):
        if each.producer_id == producer_id and place in each.partitions:
            return each
    return None


def _check_orphaned(cluster: Cluster, write: OpenWrite, now_ms: int) -> None:
    """Brokers leave transactional ids that one may not describe out of their answers: silence alone proves nothing.

    An id that is listed for the producer, and does not have this open, does. So does an age that no transaction comes
    to: its coordinator would have ended it.
    """
    age_ms = write.age_ms(now_ms)
    # By the times that records bear: of one that bears none nothing is known.
    if write.last_ms >= 0 and age_ms > TIMEOUT_MS_MAX:
        return
    if any(each.producer_id == write.producer_id for each in list_transactional_ids(cluster)):
        return
    raise RepairRefused(
        f"what producer {write.producer_id} has open in {write.place.topic}:{write.place.partition} may be part of a"
        f" transaction that is alive: its last record is {age_ms // 1000} s old, and brokers tell of a transactional id"
        " only to those who have the right Describe on it; an abort in this partition alone would tear it. Come back"
        f" with that right, or when the record is older than {TIMEOUT_MS_MAX // 60_000} min, Kafka's"
        " transaction.max.timeout.ms"
    )

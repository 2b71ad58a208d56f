"""Ending what a producer has open in a partition: all of it by its coordinator, or that part where none knows it."""

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.hanging import OpenWrite, abort_in_partition, find_open_write
from holdfast.client.transactional_ids import TransactionDescription, abort_transaction, describe_open

OpenTransaction = TransactionDescription | OpenWrite


def find_open(cluster: Cluster, place: TopicPartition, producer_id: int) -> OpenTransaction | None:
    """The transaction as its coordinator has it; what the partition's leader holds of it where none knows it."""
    # The partition first: the other way round, a transaction that begins in between would seem to have no coordinator.
    write = find_open_write(cluster, place, producer_id)
    return _find_owner(cluster, place, producer_id) or write


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

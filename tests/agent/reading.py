"""A topic's values as a reader of either isolation level sees them."""

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.records.build import read_records


def values(
    cluster: Cluster, topic: str, partitions: int, isolation: Isolation = Isolation.READ_COMMITTED
) -> list[list[str]]:
    """Up to the end that the level lets see, by partition."""
    ends = list_offsets(cluster, topic, dict.fromkeys(range(partitions), LATEST), isolation=isolation)
    return [_values(cluster, topic, partition, ends[partition], isolation) for partition in range(partitions)]


def _values(cluster: Cluster, topic: str, partition: int, end: int, isolation: Isolation) -> list[str]:
    seen: list[str] = []
    for chunk in read_range(
        cluster, OffsetRange(topic=topic, partition=partition, start=0, end=end), isolation=isolation
    ):
        hidden = chunk.aborted if isolation is Isolation.READ_COMMITTED else ()
        for batch in without_aborted(chunk.batches, hidden):
            if not batch.is_control:
                seen += [(record.value or b"").decode() for record in read_records(batch)]
    return seen

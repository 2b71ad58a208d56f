"""Where partitions begin and end, and where a moment lies in them."""

from collections import defaultdict
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from holdfast.client.cluster import Cluster
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed, HoldfastError

LATEST: Final = -1
EARLIEST: Final = -2
NOT_FOUND: Final = -1

LIST_OFFSETS_VERSIONS: Final = (2, 7)
"""From 2 on the request carries an isolation level."""


class Isolation(IntEnum):
    """Kafka's isolation levels, by their number on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def list_offsets(
    cluster: Cluster,
    topic: str,
    times: Mapping[int, int],
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[int, int]:
    """The offset for each partition's `times` entry: EARLIEST, LATEST or a timestamp in milliseconds.

    LATEST is the last stable offset under READ_COMMITTED, else the high watermark. A timestamp gives the
    first record at or after it, and NOT_FOUND if there is none.
    """
    patience = cluster.patience()
    found: dict[int, int] = {}
    while missing := {partition: time for partition, time in times.items() if partition not in found}:
        try:
            _ask_leaders(cluster, topic, missing, isolation, found)
        except HoldfastError as failure:
            cluster.forget_leaders()
            patience.wait(failure)
    return found


def _ask_leaders(
    cluster: Cluster, topic: str, times: Mapping[int, int], isolation: Isolation, found: dict[int, int]
) -> None:
    """Asks each leader once; what it learned stands in `found` also when one of them fails."""
    by_leader: dict[int, list[int]] = defaultdict(list)
    for partition in times:
        by_leader[cluster.leader_of(topic, partition)].append(partition)
    for leader, partitions in by_leader.items():
        request = _request(topic, [(partition, times[partition]) for partition in partitions], isolation)
        answer = cluster.broker(leader).send(request, versions=LIST_OFFSETS_VERSIONS)
        for each in answer.topics[0].partitions if answer.topics else ():
            if each.error_code == 0:
                found[each.partition_index] = each.offset
                partitions.remove(each.partition_index)
            else:
                raise refusal(each.error_code, f"offsets of {topic}-{each.partition_index}")
        if partitions:
            raise ConnectionFailed(f"node {leader} left partitions {partitions} of {topic} out of its answer")


def _request(topic: str, wanted: list[tuple[int, int]], isolation: Isolation) -> Any:
    topic_part = ListOffsetsRequest.ListOffsetsTopic
    partitions = [
        topic_part.ListOffsetsPartition(partition_index=partition, timestamp=time, current_leader_epoch=-1)
        for partition, time in wanted
    ]
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(isolation),
        topics=[topic_part(name=topic, partitions=partitions)],
    )

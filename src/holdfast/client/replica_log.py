"""One replica's own log, whoever leads: what lies on that broker, and what it makes of it.

A broker answers a plain fetch of version 11 or later from whatever replica it has, in sync or not, up to that
replica's own high watermark or last stable offset; before 11 a follower refuses. No setting of the broker is needed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from holdfast.client.aborted import AbortedTransaction
from holdfast.client.cluster import Cluster
from holdfast.client.fetching import FetchedPartition, fetch
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import EARLIEST, LATEST, LIST_OFFSETS_VERSIONS, Isolation
from holdfast.client.reader import FETCH_BYTES, OffsetRange, fetch_request
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed, CorruptBatch
from holdfast.records.batch import BatchView
from holdfast.records.walk import walk_valid, whole_bytes

REPLICA_FETCH_VERSIONS: Final = (11, 11)
"""From 12 on headers are flexible, and 13 names topics by id."""

DEBUGGING_REPLICA: Final = -2
"""As the replica id of ListOffsets: whoever is asked answers for its own log. With -1 only a leader does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBounds:
    """Where one replica's log begins and ends."""

    log_start: int
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChunk:
    """One answer of one replica: whole, checked batches, and where that replica stands.

    `aborted` is told to readers of committed records only, from the replica's own index.
    """

    batches: tuple[BatchView, ...]
    aborted: tuple[AbortedTransaction, ...]
    high_watermark: int
    last_stable_offset: int


def fetch_replica(
    cluster: Cluster,
    node: int,
    place: TopicPartition,
    offset: int,
    *,
    isolation: Isolation,
    fetch_bytes: int = FETCH_BYTES,
) -> ReplicaChunk:
    """What a broker's replica has from an offset on; no batches where a reader of this isolation ends."""
    wanted = OffsetRange(topic=place.topic, partition=place.partition, start=offset, end=offset)
    request = fetch_request(wanted, offset, isolation, fetch_bytes, wait_ms=0)
    answer = fetch(cluster.broker(node), request, versions=REPLICA_FETCH_VERSIONS)
    where = f"fetching {wanted} from node {node}"
    if answer.error_code:
        raise refusal(answer.error_code, where)
    found = answer.find(place.topic, place.partition)
    if found is None:
        raise ConnectionFailed(f"node {node} left {wanted} out of its answer")
    if found.error_code:
        raise refusal(found.error_code, f"{where} at offset {offset}")
    return ReplicaChunk(
        batches=_batches(found, where, offset),
        aborted=found.aborted,
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
    )


def read_replica(
    cluster: Cluster,
    node: int,
    place: TopicPartition,
    start: int,
    *,
    isolation: Isolation,
    fetch_bytes: int = FETCH_BYTES,
) -> Iterator[ReplicaChunk]:
    """From an offset on to where a reader of this isolation ends; the last chunk has no batches."""
    position = start
    while True:
        chunk = fetch_replica(cluster, node, place, position, isolation=isolation, fetch_bytes=fetch_bytes)
        yield chunk
        if not chunk.batches:
            return
        position = chunk.batches[-1].next_offset


def find_bounds(cluster: Cluster, node: int, place: TopicPartition) -> ReplicaBounds:
    """The first offset and the end of a broker's replica, beyond its high watermark, too."""
    return ReplicaBounds(
        log_start=_find_offset(cluster, node, place, EARLIEST),
        log_end=_find_offset(cluster, node, place, LATEST),
    )


def find_ends(cluster: Cluster, node: int, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The ends of a broker's replicas of a topic, by partition; one that it does not tell is left out."""
    answer = _ask_offsets(cluster, node, topic, partitions, LATEST)
    return {
        each.partition_index: int(each.offset)
        for found in answer.topics
        for each in found.partitions
        if not each.error_code
    }


def _ask_offsets(cluster: Cluster, node: int, topic: str, partitions: Iterable[int], time: int) -> Any:
    topic_part = ListOffsetsRequest.ListOffsetsTopic
    wanted = [
        topic_part.ListOffsetsPartition(partition_index=number, timestamp=time, current_leader_epoch=-1)
        for number in partitions
    ]
    request = ListOffsetsRequest(
        replica_id=DEBUGGING_REPLICA,
        isolation_level=int(Isolation.READ_UNCOMMITTED),
        topics=[topic_part(name=topic, partitions=wanted)],
    )
    return cluster.broker(node).send(request, versions=LIST_OFFSETS_VERSIONS)


def _find_offset(cluster: Cluster, node: int, place: TopicPartition, time: int) -> int:
    answer = _ask_offsets(cluster, node, place.topic, [place.partition], time)
    if not (answer.topics and answer.topics[0].partitions):
        raise ConnectionFailed(f"node {node} left {place.topic}-{place.partition} out of its answer")
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise refusal(found.error_code, f"offsets of {place.topic}-{place.partition} on node {node}")
    return int(found.offset)


def _batches(found: FetchedPartition, where: str, position: int) -> tuple[BatchView, ...]:
    records = found.records
    whole = whole_bytes(records)
    if records and not whole:
        raise CorruptBatch(f"{where}: only the beginning of a batch was sent", position)
    return tuple(batch for batch in walk_valid(records, end=whole) if batch.next_offset > position)

"""Reads a range of a partition as the record batches that the broker stores."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.consumer import FetchRequest

from holdfast.client.aborted import AbortedTransaction
from holdfast.client.cluster import Cluster
from holdfast.client.connection import Allocate, allocate
from holdfast.client.fetching import FetchedPartition, fetch
from holdfast.client.offsets import EARLIEST, Isolation, list_offsets
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed, CorruptBatch, HoldfastError, OffsetOutOfRange, TransientRefusal
from holdfast.records.batch import BatchView
from holdfast.records.walk import walk_valid, whole_bytes

FETCH_BYTES: Final = 8 << 20
FETCH_WAIT_MS_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One fetch answer: whole, checked batches in offset order, and what a read_committed reader leaves out.

    The first batch may begin before the offset that was asked for and the last may end behind the range.
    """

    batches: tuple[BatchView, ...]
    aborted: tuple[AbortedTransaction, ...]

    @property
    def next_offset(self) -> int:
        """Where reading goes on."""
        return self.batches[-1].next_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The offsets from `start` up to but not including `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def read_range(
    cluster: Cluster,
    wanted: OffsetRange,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    node_id: int | None = None,
    fetch_bytes: int = FETCH_BYTES,
    allocate: Allocate = allocate,
) -> Iterator[Chunk]:
    """Fetches from the leader, or from the replica on `node_id`, until every offset in the range is passed.

    Offsets that hold no record are passed by what batch headers say. Moved leaders and broken connections are
    followed for as long as the cluster's patience lasts without progress. Removed offsets and a partition
    that ends too early are errors: a range is read whole or not at all.
    """
    position = wanted.start
    patience = cluster.patience()
    while position < wanted.end:
        try:
            chunk = _fetch(
                cluster,
                wanted,
                position,
                isolation=isolation,
                node_id=node_id,
                fetch_bytes=fetch_bytes,
                allocate=allocate,
            )
        except HoldfastError as failure:
            cluster.forget_leaders()
            patience.wait(failure)
            continue
        patience.renew()
        position = chunk.next_offset
        yield chunk


def _fetch(
    cluster: Cluster,
    wanted: OffsetRange,
    position: int,
    *,
    isolation: Isolation,
    node_id: int | None,
    fetch_bytes: int,
    allocate: Allocate,
) -> Chunk:
    node = cluster.leader_of(wanted.topic, wanted.partition) if node_id is None else node_id
    request = fetch_request(wanted, position, isolation, fetch_bytes)
    answer = fetch(cluster.broker(node), request, allocate=allocate)
    if answer.error_code:
        raise refusal(answer.error_code, f"fetching {wanted}")
    found = answer.find(wanted.topic, wanted.partition)
    if found is None:
        raise ConnectionFailed(f"node {node} left {wanted} out of its answer")
    if found.error_code == OffsetOutOfRange.kafka_code:
        raise _out_of_range(cluster, wanted, position)
    if found.error_code:
        raise refusal(found.error_code, f"fetching {wanted} at offset {position}")
    return Chunk(batches=_batches(found, wanted, position), aborted=found.aborted)


def _batches(found: FetchedPartition, wanted: OffsetRange, position: int) -> tuple[BatchView, ...]:
    records = found.records
    whole = whole_bytes(records)
    if records and not whole:
        raise CorruptBatch(f"{wanted} at offset {position}: only the beginning of a batch was sent")
    batches = tuple(batch for batch in walk_valid(records, end=whole) if batch.next_offset > position)
    if not batches:
        raise TransientRefusal(
            f"{wanted} holds nothing at offset {position}, though it was to be read up to {wanted.end} "
            f"(high watermark {found.high_watermark}, last stable offset {found.last_stable_offset}): "
            "was the topic deleted and created anew, or cut off?"
        )
    return batches


def _out_of_range(cluster: Cluster, wanted: OffsetRange, position: int) -> HoldfastError:
    """Removed for good, or only not yet known to a new leader."""
    log_start = list_offsets(cluster, wanted.topic, {wanted.partition: EARLIEST})[wanted.partition]
    if position < log_start:
        return OffsetOutOfRange(
            f"offsets {position} to {log_start - 1} of {wanted} were removed before they were read "
            "(retention or DeleteRecords): read again from the earliest offset"
        )
    return TransientRefusal(
        f"{wanted} does not reach offset {position}, though it was to be read up to {wanted.end}"
    )


def fetch_request(
    wanted: OffsetRange,
    position: int,
    isolation: Isolation,
    fetch_bytes: int,
    *,
    wait_ms: int = FETCH_WAIT_MS_MAX,
) -> Any:
    """Outside of any session, as a plain consumer without a rack: no leader sends it to another replica."""
    topic_part = FetchRequest.FetchTopic
    partition = topic_part.FetchPartition(
        partition=wanted.partition,
        current_leader_epoch=-1,
        fetch_offset=position,
        log_start_offset=-1,
        partition_max_bytes=fetch_bytes,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=fetch_bytes,
        isolation_level=int(isolation),
        session_id=0,
        session_epoch=-1,
        topics=[topic_part(topic=wanted.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )

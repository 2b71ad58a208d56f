"""Transactions that hold readers back for longer than they should, and the end of those that nobody coordinates."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.client.retry import refusal
from holdfast.client.transactional_ids import TransactionDescription, describe_open
from holdfast.errors import ConnectionFailed, HoldfastError, InvalidTxnState, UnknownTopicOrPartition

DESCRIBE_PRODUCERS_VERSIONS: Final = (0, 0)
WRITE_TXN_MARKERS_VERSIONS: Final = (1, 1)
"""From 2 on a marker names the generation of the protocol, and in the second one must have a later epoch."""

TIMEOUT_MS_MAX: Final = 15 * 60_000
"""Kafka's `transaction.max.timeout.ms`: no transaction that somebody coordinates is older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWrite:
    """What a partition holds of a transaction without an outcome."""

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start: int
    """The first offset: readers of committed records do not get past it."""
    last_ms: int
    """The timestamp of the last batch; -1 where it is unknown."""
    last_sequence: int = -1

    def age_ms(self, now_ms: int) -> int:
        """How long ago its producer wrote last, by the times that records bear."""
        return max(0, now_ms - self.last_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """A partition that is held back from `start` on; `held` offsets are behind that."""

    place: TopicPartition
    start: int
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction that is older than it should be."""

    name: str | None
    """None if no coordinator knows it."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int | None
    age_ms: int
    partitions: tuple[HeldPartition, ...]


def find_hanging(cluster: Cluster, *, now_ms: int, longer_than_ms: int | None) -> list[HangingTransaction]:
    """Open transactions older than `longer_than_ms`, or than their own timeout; the oldest first."""
    known = describe_open(cluster)
    writes = list_open_writes(cluster)
    ends = _find_ends(cluster, writes)
    found = [
        _hanging(each, each.age_ms(now_ms) or 0, writes, ends)
        for each in known
        if (each.age_ms(now_ms) or 0) > (each.timeout_ms if longer_than_ms is None else longer_than_ms)
    ]
    limit_ms = TIMEOUT_MS_MAX if longer_than_ms is None else longer_than_ms
    for write in _without_coordinator(cluster, writes, known):
        age_ms = write.age_ms(now_ms)
        if age_ms > limit_ms:
            found.append(
                HangingTransaction(
                    name=None,
                    producer_id=write.producer_id,
                    producer_epoch=write.producer_epoch,
                    timeout_ms=None,
                    age_ms=age_ms,
                    partitions=_held([write], ends),
                )
            )
    return sorted(found, key=lambda each: -each.age_ms)


def list_open_writes(cluster: Cluster, places: Collection[TopicPartition] | None = None) -> list[OpenWrite]:
    """What partitions hold of open transactions, as their leaders tell; all partitions unless some are named."""
    patience = cluster.patience()
    while True:
        try:
            return list(_ask_leaders(cluster, places))
        except ConnectionFailed:
            raise
        except HoldfastError as failure:
            patience.wait(failure)


def list_open_writes_on(cluster: Cluster, node: int, places: Iterable[TopicPartition]) -> Iterator[OpenWrite]:
    """What the replicas of one broker hold of open transactions, whether they lead or not."""
    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    topic_part = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(
        topics=[topic_part(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
    )
    answer = cluster.broker(node).send(request, versions=DESCRIBE_PRODUCERS_VERSIONS)
    for topic in answer.topics:
        for part in topic.partitions:
            place = TopicPartition(topic.name, part.partition_index)
            if part.error_code == UnknownTopicOrPartition.kafka_code:
                continue  # deleted since it was listed
            if part.error_code:
                where = f"producers of {place.topic}:{place.partition}"
                raise refusal(part.error_code, where, part.error_message)
            yield from (
                _read(place, each) for each in part.active_producers if each.current_txn_start_offset >= 0
            )


def find_open_write(cluster: Cluster, place: TopicPartition, producer_id: int) -> OpenWrite | None:
    """What a producer has open in a partition."""
    found = (each for each in list_open_writes(cluster, [place]) if each.producer_id == producer_id)
    return next(found, None)


def abort_in_partition(cluster: Cluster, confirmed: OpenWrite) -> None:
    """Write an abort marker for what a producer has open in a partition.

    For a transaction that no coordinator knows any more: one that is known is aborted by its transactional id.
    InvalidTxnState if nothing is open there any more, or another one.
    """
    place, producer_id = confirmed.place, confirmed.producer_id
    found = find_open_write(cluster, place, producer_id)
    if found is None:
        raise InvalidTxnState(
            f"producer {producer_id} has no open transaction in {place.topic}:{place.partition}"
        )
    if (found.producer_epoch, found.start) != (confirmed.producer_epoch, confirmed.start):
        raise InvalidTxnState(
            f"what producer {producer_id} has open in {place.topic}:{place.partition} has changed since it was looked"
            f" at: it began at offset {confirmed.start} and begins at {found.start}; nothing was aborted"
        )
    _write_abort(cluster, found)


def _ask_leaders(cluster: Cluster, places: Collection[TopicPartition] | None) -> Iterator[OpenWrite]:
    topics = cluster.metadata(None if places is None else {place.topic for place in places}).topics
    if places is None:
        places = [TopicPartition(name, number) for name in topics for number in topics[name].partitions]
    by_leader: dict[int, list[TopicPartition]] = {}
    for place in sorted(places):
        by_leader.setdefault(cluster.leader_of(*place), []).append(place)
    for leader, led in by_leader.items():
        yield from list_open_writes_on(cluster, leader, led)


def _read(place: TopicPartition, found: Any) -> OpenWrite:
    return OpenWrite(
        place=place,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        coordinator_epoch=found.coordinator_epoch,
        start=found.current_txn_start_offset,
        last_ms=found.last_timestamp,
        last_sequence=found.last_sequence,
    )


def _without_coordinator(
    cluster: Cluster, writes: list[OpenWrite], known: list[TransactionDescription]
) -> list[OpenWrite]:
    """Those whose transaction no coordinator has open, seen twice: one may begin or end between two questions."""
    strays = _strays(writes, known)
    if not strays:
        return []
    strays = _strays(strays, describe_open(cluster))
    still = {(each.place, each.start) for each in list_open_writes(cluster, {each.place for each in strays})}
    return [each for each in strays if (each.place, each.start) in still]


def _strays(writes: list[OpenWrite], known: list[TransactionDescription]) -> list[OpenWrite]:
    coordinated = {(each.producer_id, place) for each in known for place in each.partitions}
    return [write for write in writes if (write.producer_id, write.place) not in coordinated]


def _hanging(
    found: TransactionDescription, age_ms: int, writes: list[OpenWrite], ends: dict[TopicPartition, int]
) -> HangingTransaction:
    mine = [
        write
        for write in writes
        if write.producer_id == found.producer_id and write.place in found.partitions
    ]
    return HangingTransaction(
        name=found.name,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.timeout_ms,
        age_ms=age_ms,
        partitions=_held(mine, ends),
    )


def _held(writes: list[OpenWrite], ends: dict[TopicPartition, int]) -> tuple[HeldPartition, ...]:
    return tuple(
        HeldPartition(
            place=write.place,
            start=write.start,
            held=max(0, ends.get(write.place, write.start) - write.start),
        )
        for write in sorted(writes, key=lambda write: write.place)
    )


def _find_ends(cluster: Cluster, writes: Iterable[OpenWrite]) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[int]] = {}
    for write in writes:
        by_topic.setdefault(write.place.topic, []).append(write.place.partition)
    return {
        TopicPartition(topic, partition): end
        for topic, numbers in by_topic.items()
        for partition, end in list_offsets(cluster, topic, dict.fromkeys(numbers, LATEST)).items()
    }


def _write_abort(cluster: Cluster, write: OpenWrite) -> None:
    marker_part = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker_part.WritableTxnMarkerTopic(
        name=write.place.topic, partition_indexes=[write.place.partition]
    )
    marker = marker_part(
        producer_id=write.producer_id,
        producer_epoch=write.producer_epoch,
        transaction_result=False,
        topics=[topic],
        # -1 if its producer never ended a transaction there; 0 is below every real one, as Kafka's tool has it.
        coordinator_epoch=max(0, write.coordinator_epoch),
    )
    where = f"abort in {write.place.topic}:{write.place.partition}"
    patience = cluster.patience()
    while True:
        try:
            leader = cluster.broker(cluster.leader_of(*write.place))
            answer = leader.send(
                WriteTxnMarkersRequest(markers=[marker]), versions=WRITE_TXN_MARKERS_VERSIONS
            )
            code = answer.markers[0].topics[0].partitions[0].error_code
            if not code:
                return
            raise refusal(code, where)
        except ConnectionFailed:
            raise
        except HoldfastError as failure:
            cluster.forget_leaders()
            patience.wait(failure)

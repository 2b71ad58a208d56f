"""The requests of transactions, one function each, and what their answers say; `Connection.send` carries them.

A request says nothing about its version: whoever sends it does. The same request may be sent again, later or
on another connection, as packets are in a network.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from holdfast.client.cluster import Cluster
from holdfast.client.groups import NO_MEMBER_GENERATION, TopicPartition
from holdfast.errors import ConnectionFailed

TRANSACTION_VERSION: Final = "transaction.version"
"""The cluster's feature that says which generation of the protocol it has finalized (KIP-890)."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
ACKS_ALL: Final = -1
REQUEST_MS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A generation of the protocol as ranges of versions: a broker tells them apart by nothing else."""

    level: int
    init_producer_id: tuple[int, int]
    resume_producer_id: tuple[int, int]
    produce: tuple[int, int]
    txn_offset_commit: tuple[int, int]
    end_txn: tuple[int, int]
    add_partitions: tuple[int, int] = (0, 3)
    """From 4 on brokers speak to brokers."""
    add_offsets: tuple[int, int] = (0, 4)

    @property
    def adds_by_itself(self) -> bool:
        """Whether a batch or a staged offset joins the transaction without being announced."""
        return self.level >= TV2_LEVEL


TV2_LEVEL: Final = 2
TV1: Final = Generation(
    level=1,
    init_producer_id=(0, 4),
    resume_producer_id=(3, 4),
    produce=(3, 11),
    txn_offset_commit=(0, 4),
    end_txn=(0, 4),
)
TV2: Final = Generation(
    level=TV2_LEVEL,
    init_producer_id=(0, 5),
    resume_producer_id=(3, 5),
    produce=(12, 12),
    txn_offset_commit=(5, 5),
    end_txn=(5, 5),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whom a producer claims to be."""

    transactional_id: str
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """The consumer whose offsets are staged: a group that has moved on refuses them (KIP-447)."""

    member_id: str = ""
    generation: int = NO_MEMBER_GENERATION
    instance_id: str | None = None


NO_MEMBER: Final = GroupMember()


class Verdict(NamedTuple):
    """An error code of an answer, 0 for good, and the partition that it is about unless it is about all."""

    place: TopicPartition | None = None
    code: int = 0
    detail: str | None = None


def generation_of(cluster: Cluster) -> Generation:
    """The newest generation that the cluster has finalized; asked again while its patience lasts."""
    patience = cluster.patience()
    while True:
        try:
            level = cluster.any_broker().finalized_features().get(TRANSACTION_VERSION, 0)
        except ConnectionFailed as failure:
            patience.wait(failure)
        else:
            return TV2 if level >= TV2_LEVEL else TV1


def init_producer_id(identity: Identity, *, timeout_ms: int) -> Any:
    """Takes the transactional id over, or from version 3 on resumes the producer that is named (KIP-360)."""
    return InitProducerIdRequest(
        transactional_id=identity.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
    )


def add_partitions(identity: Identity, places: Iterable[TopicPartition]) -> Any:
    """Announces partitions; versions up to 3."""
    topic_part = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[
            topic_part(name=topic, partitions=sorted(parts)) for topic, parts in _by_topic(places).items()
        ],
    )


def add_offsets(identity: Identity, group: str) -> Any:
    """Announces that offsets of the group will be staged."""
    return AddOffsetsToTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        group_id=group,
    )


def txn_offset_commit(
    identity: Identity,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    member: GroupMember = NO_MEMBER,
    metadata: str = "",
) -> Any:
    """Stages offsets: they count from the moment the transaction commits."""
    topic_part = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    topics = [
        topic_part(
            name=topic,
            partitions=[
                topic_part.TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offsets[TopicPartition(topic, partition)],
                    committed_leader_epoch=-1,
                    committed_metadata=metadata,
                )
                for partition in sorted(parts)
            ],
        )
        for topic, parts in _by_topic(offsets).items()
    ]
    return TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=topics,
    )


def produce(transactional_id: str | None, batches: Mapping[TopicPartition, bytes | bytearray]) -> Any:
    """Whole batches, which carry producer id, epoch and sequence themselves; versions up to 12."""
    topic_part = ProduceRequest.TopicProduceData
    topics = [
        topic_part(
            name=topic,
            partition_data=[
                topic_part.PartitionProduceData(
                    index=partition, records=batches[TopicPartition(topic, partition)]
                )
                for partition in sorted(parts)
            ],
        )
        for topic, parts in _by_topic(batches).items()
    ]
    return ProduceRequest(
        transactional_id=transactional_id, acks=ACKS_ALL, timeout_ms=REQUEST_MS_MAX, topic_data=topics
    )


def end_txn(identity: Identity, *, committed: bool) -> Any:
    """Commits or aborts."""
    return EndTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=committed,
    )


def verdicts(answer: Any) -> Iterator[Verdict]:
    """Everything that an answer says of success and failure, in its order."""
    if hasattr(answer, "error_code"):
        yield Verdict(code=answer.error_code)
    for topic in getattr(answer, "responses", ()):
        for each in topic.partition_responses:
            yield Verdict(TopicPartition(topic.name, each.index), each.error_code, each.error_message)
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        for each in topic.results_by_partition:
            yield Verdict(TopicPartition(topic.name, each.partition_index), each.partition_error_code)
    for topic in getattr(answer, "topics", ()):
        for each in topic.partitions:
            yield Verdict(TopicPartition(topic.name, each.partition_index), each.error_code)


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found

"""AddPartitionsToTxn (key 24), v0-5.

Behaviour: announces the partitions that a producer is about to write to in its transaction. Costs no durable
commit: what a restart forgets is forgiven (see `transactions.coordinator`). All partitions are taken, or none:
beside one that is not there the others are OPERATION_NOT_ATTEMPTED.

Versions: v2 PRODUCER_FENCED where it was INVALID_PRODUCER_EPOCH; v3 flexible; v4 several transactional ids, and
only to verify (what Kafka's brokers ask each other, KIP-890); v5 the same.
"""

import struct
from collections.abc import Awaitable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kafka.protocol.producer import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_partition
from holdfast.agent.deferred import Deferred
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.registry import Handler, Payload, Request, by_message, frame_head, serves_bytes
from holdfast.agent.transactions.codes import code_of
from holdfast.agent.transactions.names import check_transactional_id
from holdfast.agent.wire import Reader, Writer
from holdfast.errors import HoldfastError, InvalidRequest, TransactionAbortable

FENCED_SINCE = 2
FLEXIBLE_SINCE = 3
SEVERAL_SINCE = 4
OPERATION_NOT_ATTEMPTED = 55

REMEMBERED_MAX, REMEMBERED_BYTES_MAX = 1024, 1024
"""So many requests are remembered as they were read, none longer than that."""

_PRODUCER = struct.Struct(">qh")
_PARTITION_CODE = struct.Struct(">ih")
_NO_THROTTLING = bytes(4)

_Result: Any = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Topic = _Result.AddPartitionsToTxnTopicResult
_Partition = _Topic.AddPartitionsToTxnPartitionResult


class TopicPartitions(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: tuple[int, ...]


class Announcement(NamedTuple):
    """A request of one producer, and the answer to it if all of it is taken."""

    transactional_id: str
    producer_id: int
    epoch: int
    topics: tuple[TopicPartitions, ...]
    all_taken: bytes


@serves_bytes(24, first=0, last=5, flexible_since=FLEXIBLE_SINCE)
def add_partitions_to_txn(agent: Agent, request: Request) -> Payload | Deferred | Awaitable[Payload]:
    """Take the partitions into their transactions."""
    if request.version >= SEVERAL_SINCE:
        return _add_to_several(agent, request)
    return _add_to_one(agent, request)


def _add_to_one(agent: Agent, request: Request) -> Payload:
    """By hand: most clients send this once in every transaction, and each time the same."""
    flexible = request.version >= FLEXIBLE_SINCE
    body = bytes(request.body)
    read = _read_again if len(body) <= REMEMBERED_BYTES_MAX else _read
    announced = read(body, flexible)
    codes = _add(agent, request, *announced[:4])
    answer = (
        _answer(announced.topics, codes, flexible=flexible) if any(codes.values()) else announced.all_taken
    )
    return [frame_head(request, flexible=flexible, body_bytes=len(answer)), answer]


def _read(body: bytes, flexible: bool) -> Announcement:
    """What is asked for; whether it may be had is looked at each time."""
    reader = Reader(memoryview(body), flexible=flexible)
    transactional_id = reader.string()
    if transactional_id is None:
        raise InvalidRequest("a transactional id that is null")
    producer_id, epoch = reader.fields(_PRODUCER)
    topics = []
    for _ in range(reader.present_count()):
        name = reader.string()
        if name is None:
            raise InvalidRequest("a topic without a name")
        partitions = tuple(reader.int32() for _ in range(reader.present_count()))
        topics.append(TopicPartitions(name, partitions))
        reader.tags()
    reader.tags()
    all_taken = _answer(topics, None, flexible=flexible)
    return Announcement(transactional_id, producer_id, epoch, tuple(topics), all_taken)


_read_again = lru_cache(REMEMBERED_MAX)(_read)
"""For a request that may have come before."""


def _answer(
    topics: Sequence[TopicPartitions], codes: dict[tuple[str, int], int] | None, *, flexible: bool
) -> bytes:
    """A code for each partition; without any, all are taken."""
    writer = Writer(flexible=flexible)
    writer.raw(_NO_THROTTLING)
    writer.count(len(topics))
    for topic in topics:
        writer.string(topic.name)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.pack(_PARTITION_CODE, partition, codes[topic.name, partition] if codes else 0)
            writer.tags()
        writer.tags()
    writer.tags()
    return b"".join(writer.finish())


async def _add_to_each(agent: Agent, message: Any, request: Request) -> Any:
    results = [_transaction(agent, request, each, request.version) for each in message.transactions]
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0, error_code=0, results_by_transaction=results, version=request.version
    )


_add_to_several: Handler = by_message(AddPartitionsToTxnRequest, _add_to_each, with_request=True)


def _transaction(agent: Agent, request: Request, each: Any, version: int) -> Any:
    codes = _add(
        agent,
        request,
        each.transactional_id,
        each.producer_id,
        each.producer_epoch,
        each.topics,
        verify_only=each.verify_only,
    )
    return _Result(
        transactional_id=each.transactional_id,
        topic_results=_topics(each.topics, codes, version),
        version=version,
    )


def _add(
    agent: Agent,
    request: Request,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    topics: Sequence[Any],
    *,
    verify_only: bool = False,
) -> dict[tuple[str, int], int]:
    """Error codes by topic and partition."""
    wanted = [(topic.name, partition) for topic in topics for partition in topic.partitions]
    places, codes = [], {}
    for name, partition in wanted:
        try:
            topic = agent.catalog.get(name)
            check_partition(topic, partition)
            places.append(PartitionKey(topic.topic_id, partition))
        except HoldfastError as refusal:
            codes[name, partition] = refusal.kafka_code
    if codes:
        return dict.fromkeys(wanted, OPERATION_NOT_ATTEMPTED) | codes
    try:
        check_transactional_id(transactional_id)
        transactions = agent.transactions
        if not verify_only:
            transactions.announce(
                transactional_id, producer_id, epoch, session=request.session, partitions=places
            )
        elif not all(
            transactions.has_partition(transactional_id, producer_id, epoch, place) for place in places
        ):
            raise TransactionAbortable("not all partitions are part of the transaction")
        code = 0
    except HoldfastError as refusal:
        code = code_of(refusal, fenced=request.version >= FENCED_SINCE)
    return dict.fromkeys(wanted, code)


def _topics(topics: list[Any], codes: dict[tuple[str, int], int], version: int) -> list[Any]:
    return [
        _Topic(
            name=topic.name,
            results_by_partition=[
                _Partition(
                    partition_index=partition,
                    partition_error_code=codes[topic.name, partition],
                    version=version,
                )
                for partition in topic.partitions
            ],
            version=version,
        )
        for topic in topics
    ]

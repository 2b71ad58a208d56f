"""AddPartitionsToTxn (key 24), v0-5.

Behaviour: announces the partitions that a producer is about to write to in its transaction. Costs no durable
commit: what a restart forgets is forgiven (see `transactions.coordinator`). All partitions are taken, or none:
beside one that is not there the others are OPERATION_NOT_ATTEMPTED.

Versions: v2 PRODUCER_FENCED where it was INVALID_PRODUCER_EPOCH; v3 flexible; v4 several transactional ids, and
only to verify (what Kafka's brokers ask each other, KIP-890); v5 the same.
"""

from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_partition
from holdfast.agent.registry import Request, serves
from holdfast.agent.transactions.codes import code_of
from holdfast.errors import HoldfastError, InvalidRequest, TransactionAbortable

FENCED_SINCE = 2
SEVERAL_SINCE = 4
OPERATION_NOT_ATTEMPTED = 55

_Result: Any = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
# The same fields, but kafka-python has a class for either range of versions.
_TOPIC: Any = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_TOPIC_OF_SEVERAL: Any = _Result.AddPartitionsToTxnTopicResult


@serves(AddPartitionsToTxnRequest, first=0, last=5, with_request=True)
async def add_partitions_to_txn(agent: Agent, message: Any, request: Request) -> Any:
    """Take the partitions into their transactions."""
    version: int = message.API_VERSION
    if version < SEVERAL_SINCE:
        codes = _add(
            agent,
            request,
            message.v3_and_below_transactional_id,
            message.v3_and_below_producer_id,
            message.v3_and_below_producer_epoch,
            message.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(
            throttle_time_ms=0,
            results_by_topic_v3_and_below=_topics(message.v3_and_below_topics, codes, version),
            version=version,
        )
    results = [_transaction(agent, request, each, version) for each in message.transactions]
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0, error_code=0, results_by_transaction=results, version=version
    )


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
    topics: list[Any],
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
            places.append((topic.topic_id, partition))
        except HoldfastError as refusal:
            codes[name, partition] = refusal.kafka_code
    if codes:
        return dict.fromkeys(wanted, OPERATION_NOT_ATTEMPTED) | codes
    try:
        if not transactional_id:
            raise InvalidRequest("a transactional id without letters")
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
    topic_class = _TOPIC if version < SEVERAL_SINCE else _TOPIC_OF_SEVERAL
    return [
        topic_class(
            name=topic.name,
            results_by_partition=[
                topic_class.AddPartitionsToTxnPartitionResult(
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

"""DescribeTransactions (key 65), v0.

Behaviour: where transactional ids stand; an open one with the partitions that were announced or written to.
"""

from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.agent.transactions.names import check_transactional_id
from holdfast.errors import HoldfastError

_State: Any = DescribeTransactionsResponse.TransactionState


@serves(DescribeTransactionsRequest, first=0, last=0)
async def describe_transactions(agent: Agent, request: Any) -> Any:
    """One answer for each id, in order."""
    states = [_describe(agent, name) for name in request.transactional_ids]
    return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states, version=0)


def _describe(agent: Agent, name: str) -> Any:
    try:
        check_transactional_id(name)
        standing, partitions = agent.transactions.standings.describe(name)
    except HoldfastError as refusal:
        return _State(
            error_code=refusal.kafka_code,
            transactional_id=name,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
            version=0,
        )
    topics: dict[str, list[int]] = {}
    for key in sorted(partitions):
        topic = agent.catalog.find_id(key.topic_id)
        if topic is not None:
            topics.setdefault(topic.name, []).append(key.partition)
    return _State(
        error_code=0,
        transactional_id=name,
        transaction_state=standing.phase.value,
        transaction_timeout_ms=standing.state.timeout_ms,
        transaction_start_time_ms=standing.started_ms,
        producer_id=standing.state.producer_id,
        producer_epoch=standing.state.epoch,
        topics=[
            _State.TopicData(topic=name, partitions=numbers, version=0)
            for name, numbers in sorted(topics.items())
        ],
        version=0,
    )

"""ListTransactions (key 66), v0-1.

Behaviour: the transactional ids that this node is the coordinator of, filtered by state, producer id and age of the
open transaction. State names that Kafka does not have are told back.

Versions: v1 duration filter (KIP-994). v2 has a pattern (KIP-1152), and is not served: a client's regular expression
may take for ever, and everybody would wait for it.
"""

import asyncio
from typing import Any

from kafka.protocol.admin import ListTransactionsRequest, ListTransactionsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.cluster import wall_clock_ms
from holdfast.agent.registry import serves
from holdfast.agent.transactions.standing import Standing
from holdfast.rules.transactional_id import KAFKA_STATES


@serves(ListTransactionsRequest, first=0, last=1)
async def list_transactions(agent: Agent, request: Any) -> Any:
    """All that pass the filters, by name."""
    return await asyncio.to_thread(_list, agent, request)


def _list(agent: Agent, request: Any) -> Any:
    """In a thread: there may be very many ids, and everybody would wait."""
    version: int = request.API_VERSION
    item: Any = ListTransactionsResponse.TransactionState
    states = [
        item(
            transactional_id=name,
            producer_id=standing.state.producer_id,
            transaction_state=standing.phase.value,
            version=version,
        )
        for name, standing in agent.transactions.standings.list_all().items()
        if agent.coordinator_of(name) is agent and _passes(request, standing)
    ]
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=0,
        unknown_state_filters=[name for name in request.state_filters if name not in KAFKA_STATES],
        transaction_states=states,
        version=version,
    )


def _passes(request: Any, standing: Standing) -> bool:
    if request.state_filters and standing.phase.value not in request.state_filters:
        return False
    if request.producer_id_filters and standing.state.producer_id not in request.producer_id_filters:
        return False
    # Null before v1, which has no such field.
    duration_ms = -1 if request.duration_filter is None else request.duration_filter
    return duration_ms < 0 or wall_clock_ms() - standing.started_ms > duration_ms

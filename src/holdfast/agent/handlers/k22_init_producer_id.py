"""InitProducerId (key 22), v0-5.

Behaviour: without a transactional id, a new producer id with epoch 0. With one, the id's producer under its next
epoch; whoever had it before is fenced, and what it left open is aborted in the same commit, so that nobody is sent
away with CONCURRENT_TRANSACTIONS. When the epochs of a producer id are used up, a new one is given.

Versions: v2 flexible; v3 a producer may name what it has, and gets the next epoch of that (KIP-360); v4
PRODUCER_FENCED where it was INVALID_PRODUCER_EPOCH; v5 TRANSACTION_ABORTABLE (KIP-890), never answered here.
"""

from typing import Any

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.agent.transactions.codes import code_of
from holdfast.agent.transactions.names import check_transactional_id
from holdfast.errors import HoldfastError, InvalidRequest

FENCED_SINCE = 4


@serves(InitProducerIdRequest, first=0, last=5)
async def init_producer_id(agent: Agent, request: Any) -> Any:
    """An id that nobody has had, or a transactional id's next epoch."""
    code, producer_id, epoch = 0, -1, -1
    try:
        producer_id, epoch = await _initialise(agent, request)
    except HoldfastError as refusal:
        code = code_of(refusal, fenced=request.API_VERSION >= FENCED_SINCE)
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch,
        version=request.API_VERSION,
    )


async def _initialise(agent: Agent, request: Any) -> tuple[int, int]:
    # Null before v3, which has no such fields.
    known_id, known_epoch = (-1 if n is None else n for n in (request.producer_id, request.producer_epoch))
    if (known_id < 0) != (known_epoch < 0):
        raise InvalidRequest("a producer id without an epoch, or an epoch without a producer id")
    if request.transactional_id is None:
        return await agent.producer_ids.allot(), 0
    check_transactional_id(request.transactional_id)
    claimed = None if known_id < 0 else (known_id, known_epoch)
    state = await agent.transactions.initialise(
        request.transactional_id, claimed, request.transaction_timeout_ms
    )
    return state.producer_id, state.epoch

"""EndTxn (key 26), v0-5.

Behaviour: commits or aborts, in one step that also publishes the staged positions; the answer is sent when the
outcome is visible, so the next transaction never meets CONCURRENT_TRANSACTIONS. A retry is answered once more.

Versions: v2 PRODUCER_FENCED where it was INVALID_PRODUCER_EPOCH; v3 flexible; v5 the producer goes on under the
next epoch, or under a new id when the epochs are used up, and is told so (TV2, KIP-890).
"""

from typing import Any

from kafka.protocol.producer import EndTxnRequest, EndTxnResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import Request, serves
from holdfast.agent.transactions.codes import code_of
from holdfast.errors import HoldfastError, InvalidRequest

FENCED_SINCE = 2
BUMP_SINCE = 5


@serves(EndTxnRequest, first=0, last=5, with_request=True)
async def end_txn(agent: Agent, message: Any, request: Request) -> Any:
    """Decide the producer's transaction."""
    code, producer_id, epoch = 0, -1, -1
    try:
        if not message.transactional_id:
            raise InvalidRequest("a transactional id without letters")
        state = await agent.transactions.end(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            commit=message.committed,
            bump=request.version >= BUMP_SINCE,
            session=request.session,
        )
        producer_id, epoch = state.producer_id, state.epoch
    except HoldfastError as refusal:
        code = code_of(refusal, fenced=request.version >= FENCED_SINCE)
    return EndTxnResponse(
        throttle_time_ms=0,
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch,
        version=request.version,
    )

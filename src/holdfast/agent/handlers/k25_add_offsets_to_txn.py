"""AddOffsetsToTxn (key 25), v0-4.

Behaviour: announces that positions of a group are about to be staged in the producer's transaction. Costs no
durable commit, as AddPartitionsToTxn.

Versions: v2 PRODUCER_FENCED where it was INVALID_PRODUCER_EPOCH; v3 flexible.
"""

from typing import Any

from kafka.protocol.producer import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import Request, serves
from holdfast.agent.transactions.codes import code_of
from holdfast.agent.transactions.names import check_group, check_transactional_id
from holdfast.errors import HoldfastError

FENCED_SINCE = 2


@serves(AddOffsetsToTxnRequest, first=0, last=4, with_request=True)
async def add_offsets_to_txn(agent: Agent, message: Any, request: Request) -> Any:
    """Take the group into the transaction."""
    code = 0
    try:
        check_transactional_id(message.transactional_id)
        check_group(message.group_id)
        agent.transactions.announce(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            session=request.session,
            groups=[message.group_id],
        )
    except HoldfastError as refusal:
        code = code_of(refusal, fenced=request.version >= FENCED_SINCE)
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code, version=request.version)

"""InitProducerId (key 22), v0-5.

Behaviour: a new producer id with epoch 0 for an idempotent producer. Transactional ids are refused with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: there are no transactions yet, and that is the error after which
clients stop.

Versions: v2 flexible; v3 a producer may name the id it has (a new one is given all the same).
"""

from typing import Any

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.errors import HoldfastError, InvalidRequest

TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53


@serves(InitProducerIdRequest, first=0, last=5)
async def init_producer_id(agent: Agent, request: Any) -> Any:
    """An id that nobody has had."""
    code, producer_id = 0, -1
    # Null before v3, which has no such fields.
    known_id, known_epoch = (-1 if n is None else n for n in (request.producer_id, request.producer_epoch))
    if (known_id < 0) != (known_epoch < 0):
        code = InvalidRequest.kafka_code
    elif request.transactional_id is not None:
        code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        try:
            producer_id = await agent.producer_ids.allot()
        except HoldfastError as refusal:
            code = refusal.kafka_code
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=code,
        producer_id=producer_id,
        producer_epoch=0 if code == 0 else -1,
        version=request.API_VERSION,
    )

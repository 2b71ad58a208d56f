"""EndTxn (key 26), v0-5.

Behaviour: commits or aborts, in one step that also publishes the staged positions; the answer is sent when the
outcome is visible, so the next transaction never meets CONCURRENT_TRANSACTIONS. A retry is answered once more.

Versions: v2 PRODUCER_FENCED where it was INVALID_PRODUCER_EPOCH; v3 flexible; v5 the producer goes on under the
next epoch, or under a new id when the epochs are used up, and is told so (TV2, KIP-890).
"""

import struct

from holdfast.agent.agent import Agent
from holdfast.agent.deferred import Deferred
from holdfast.agent.registry import Payload, Request, frame_head, serves_bytes
from holdfast.agent.transactions.codes import code_of
from holdfast.agent.transactions.names import check_transactional_id
from holdfast.agent.wire import Reader
from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.rules.transactional_id import TransactionalId

FENCED_SINCE = 2
FLEXIBLE_SINCE = 3
BUMP_SINCE = 5

_AFTER_ID = struct.Struct(">qh?")
"""Producer id, epoch, whether to commit."""
_ANSWER = struct.Struct(">ih")
"""Throttle time, error code."""
_PRODUCER = struct.Struct(">qh")


@serves_bytes(26, first=0, last=5, flexible_since=FLEXIBLE_SINCE)
def end_txn(agent: Agent, request: Request) -> Deferred:
    """Decide the producer's transaction."""
    reader = Reader(request.body, flexible=request.version >= FLEXIBLE_SINCE)
    transactional_id = reader.string()
    if transactional_id is None:
        raise InvalidRequest("a transactional id that is null")
    producer_id, epoch, committed = reader.fields(_AFTER_ID)
    reader.tags()
    answer = Deferred()
    try:
        agent.transactions.end(
            check_transactional_id(transactional_id),
            producer_id,
            epoch,
            commit=bool(committed),
            bump=request.version >= BUMP_SINCE,
            session=request.session,
            deliver=lambda outcome: answer.settle(_answer(request, outcome)),
        )
    except HoldfastError as refusal:
        answer.settle(_answer(request, refusal))
    return answer


def _answer(request: Request, outcome: object) -> Payload:
    code, next_producer = 0, (-1, -1)
    if isinstance(outcome, TransactionalId):
        next_producer = (outcome.producer_id, outcome.epoch)
    else:
        assert isinstance(outcome, HoldfastError), outcome
        code = code_of(outcome, fenced=request.version >= FENCED_SINCE)
    body = _ANSWER.pack(0, code)
    if request.version >= BUMP_SINCE:
        body += _PRODUCER.pack(*next_producer)
    flexible = request.version >= FLEXIBLE_SINCE
    if flexible:
        body += b"\0"
    return [frame_head(request, flexible=flexible, body_bytes=len(body)), body]

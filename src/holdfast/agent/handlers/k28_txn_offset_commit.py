"""TxnOffsetCommit (key 28), v0-5.

Behaviour: stages positions of a group, durably; they count from the moment that the transaction is committed. A
member is fenced as in OffsetCommit, except that a rebalance under way does not matter.

Versions: v3 flexible, member, generation and instance (KIP-447); v4 TRANSACTION_ABORTABLE where it was
INVALID_TXN_STATE; v5 the group need not have been announced (TV2, KIP-890).
"""

from typing import Any

from kafka.protocol.producer import TxnOffsetCommitRequest, TxnOffsetCommitResponse

from holdfast.agent.agent import Agent
from holdfast.agent.groups.messages import Caller
from holdfast.agent.handlers.k08_offset_commit import Codes, plan_offset
from holdfast.agent.registry import serves
from holdfast.agent.transactions.codes import code_of
from holdfast.errors import GroupIdNotFound, HoldfastError, IllegalGeneration, InvalidGroupId, InvalidRequest
from holdfast.store.footer import GroupOffsetCommitted

ABORTABLE_SINCE = 4
IMPLICIT_SINCE = 5


@serves(TxnOffsetCommitRequest, first=0, last=5)
async def txn_offset_commit(agent: Agent, request: Any) -> Any:
    """Stage all positions that may be staged, in one commit."""
    codes: Codes = {}
    offsets: list[GroupOffsetCommitted] = []
    for place, topic in enumerate(request.topics):
        for part in topic.partitions:
            try:
                offsets.append(plan_offset(agent, request.group_id, topic.name, part))
                codes[place, part.partition_index] = 0
            except HoldfastError as refusal:
                codes[place, part.partition_index] = refusal.kafka_code
    try:
        await _stage(agent, request, offsets)
    except HoldfastError as refusal:
        code = code_of(refusal, abortable=request.API_VERSION >= ABORTABLE_SINCE)
        codes = {key: known or code for key, known in codes.items()}
    return _response(request, codes)


async def _stage(agent: Agent, request: Any, offsets: list[GroupOffsetCommitted]) -> None:
    if not request.group_id:
        raise InvalidGroupId("a group without a name")
    if not request.transactional_id:
        raise InvalidRequest("a transactional id without letters")
    _check_caller(agent, request)
    if offsets:
        implicit = request.API_VERSION >= IMPLICIT_SINCE
        membership = agent.transactions.join(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            implicit=implicit,
            group=request.group_id,
        )
        await agent.transactions.stage(membership, request.producer_id, request.producer_epoch, offsets)


def _check_caller(agent: Agent, request: Any) -> None:
    # Null before v3, which has no such fields.
    caller = Caller(
        member_id=request.member_id or "",
        generation=-1 if request.generation_id is None else request.generation_id,
        instance_id=request.group_instance_id,
    )
    try:
        agent.groups.check_commit(request.group_id, caller, transactional=True)
    except GroupIdNotFound as refusal:
        raise IllegalGeneration(str(refusal)) from refusal


def _response(request: Any, codes: Codes) -> Any:
    version: int = request.API_VERSION
    topic_class: Any = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            topic_class(
                name=topic.name,
                partitions=[
                    topic_class.TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index,
                        error_code=codes[place, part.partition_index],
                        version=version,
                    )
                    for part in topic.partitions
                ],
                version=version,
            )
            for place, topic in enumerate(request.topics)
        ],
        version=version,
    )

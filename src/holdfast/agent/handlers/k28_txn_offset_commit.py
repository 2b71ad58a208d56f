"""TxnOffsetCommit (key 28), v0-5.

Behaviour: stages positions of a group, durably; they count from the moment that the transaction is committed. A
member is fenced as in OffsetCommit, except that a rebalance under way does not matter.

Versions: v3 flexible, member, generation and instance (KIP-447); v4 TRANSACTION_ABORTABLE where it was
INVALID_TXN_STATE; v5 the group need not have been announced (TV2, KIP-890).
"""

from typing import Any

from kafka.protocol.producer import TxnOffsetCommitRequest, TxnOffsetCommitResponse

from holdfast.agent.agent import Agent
from holdfast.agent.cluster import wall_clock_ms
from holdfast.agent.groups.messages import Caller
from holdfast.agent.groups.positions import answer_positions, plan_positions
from holdfast.agent.registry import serves
from holdfast.agent.transactions.codes import code_of
from holdfast.agent.transactions.names import check_transactional_id
from holdfast.errors import GroupIdNotFound, HoldfastError, IllegalGeneration, InvalidGroupId
from holdfast.store.footer import GroupOffsetCommitted

ABORTABLE_SINCE = 4
IMPLICIT_SINCE = 5

_Topic: Any = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic


@serves(TxnOffsetCommitRequest, first=0, last=5)
async def txn_offset_commit(agent: Agent, request: Any) -> Any:
    """Stage all positions that may be staged, in one commit."""
    planned = plan_positions(
        agent.catalog,
        request,
        metadata_bytes_max=agent.settings.offset_metadata_bytes_max,
        now_ms=wall_clock_ms(),
    )
    codes = planned.codes
    try:
        await _stage(agent, request, planned.offsets)
    except HoldfastError as refusal:
        codes = planned.all_refused(code_of(refusal, abortable=request.API_VERSION >= ABORTABLE_SINCE))
    return answer_positions(
        request,
        codes,
        response_class=TxnOffsetCommitResponse,
        topic_class=_Topic,
        partition_class=_Topic.TxnOffsetCommitResponsePartition,
    )


async def _stage(agent: Agent, request: Any, offsets: list[GroupOffsetCommitted]) -> None:
    if not request.group_id:
        raise InvalidGroupId("a group without a name")
    check_transactional_id(request.transactional_id)
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

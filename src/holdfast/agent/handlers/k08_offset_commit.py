"""OffsetCommit (key 8), v2-10.

Behaviour: stores positions, durably, all of a request in one commit. A member commits in its generation and
not while it has yet to ask for its assignment; its commit counts as a heartbeat. A consumer that assigns
partitions to itself (generation -1) may commit while the group has no members.

Versions: v7 static members (KIP-345); v8 flexible; v9 GROUP_ID_NOT_FOUND where it was ILLEGAL_GENERATION
(KIP-848); v10 names topics by id (KIP-516).
"""

from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from holdfast.agent.agent import Agent
from holdfast.agent.cluster import wall_clock_ms
from holdfast.agent.coordinator_codes import coordinator_code_of
from holdfast.agent.groups.messages import Caller
from holdfast.agent.groups.positions import answer_positions, plan_positions
from holdfast.agent.registry import serves
from holdfast.agent.writes import CommitGroupOffsets
from holdfast.errors import GroupIdNotFound, HoldfastError, IllegalGeneration

NOT_FOUND_SINCE = 9
TOPIC_IDS_SINCE = 10

_Topic: Any = OffsetCommitResponse.OffsetCommitResponseTopic


@serves(OffsetCommitRequest, first=2, last=10)
async def offset_commit(agent: Agent, request: Any) -> Any:
    """Store all positions that may be stored, in one commit."""
    planned = plan_positions(
        agent.catalog,
        request,
        metadata_bytes_max=agent.settings.offset_metadata_bytes_max,
        now_ms=wall_clock_ms(),
        by_topic_id=request.API_VERSION >= TOPIC_IDS_SINCE,
    )
    codes = planned.codes
    try:
        _check_caller(agent, request)
        if planned.offsets:
            await agent.commits.submit(CommitGroupOffsets(planned.offsets))
    except HoldfastError as refusal:
        codes = planned.all_refused(coordinator_code_of(refusal))
    return answer_positions(
        request,
        codes,
        response_class=OffsetCommitResponse,
        topic_class=_Topic,
        partition_class=_Topic.OffsetCommitResponsePartition,
        topic_fields=("name", "topic_id"),
    )


def _check_caller(agent: Agent, request: Any) -> None:
    caller = Caller(
        member_id=request.member_id,
        generation=request.generation_id_or_member_epoch,
        instance_id=request.group_instance_id,
    )
    try:
        agent.groups.check_commit(request.group_id, caller)
    except GroupIdNotFound as refusal:
        if request.API_VERSION >= NOT_FOUND_SINCE:
            raise
        raise IllegalGeneration(str(refusal)) from refusal

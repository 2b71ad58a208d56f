"""OffsetCommit (key 8), v2-10.

Behaviour: stores positions, durably, all of a request in one commit. A member commits in its generation and
not while it has yet to ask for its assignment; its commit counts as a heartbeat. A consumer that assigns
partitions to itself (generation -1) may commit while the group has no members.

Versions: v7 static members (KIP-345); v8 flexible; v9 GROUP_ID_NOT_FOUND where it was ILLEGAL_GENERATION
(KIP-848); v10 names topics by id (KIP-516).
"""

from typing import Any
from uuid import UUID

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_partition
from holdfast.agent.cluster import wall_clock_ms
from holdfast.agent.groups.messages import Caller
from holdfast.agent.registry import serves
from holdfast.agent.writes import CommitGroupOffsets
from holdfast.errors import GroupIdNotFound, HoldfastError, IllegalGeneration, OffsetMetadataTooLarge
from holdfast.store.footer import GroupOffsetCommitted

NOT_FOUND_SINCE = 9
TOPIC_IDS_SINCE = 10

Codes = dict[tuple[int, int], int]
"""Error codes by place of the topic in the request and partition."""


@serves(OffsetCommitRequest, first=2, last=10)
async def offset_commit(agent: Agent, request: Any) -> Any:
    """Store all positions that may be stored, in one commit."""
    codes: Codes = {}
    offsets: list[GroupOffsetCommitted] = []
    for place, topic in enumerate(request.topics):
        for part in topic.partitions:
            try:
                named = topic.topic_id if request.API_VERSION >= TOPIC_IDS_SINCE else topic.name
                offsets.append(plan_offset(agent, request.group_id, named, part))
                codes[place, part.partition_index] = 0
            except HoldfastError as refusal:
                codes[place, part.partition_index] = refusal.kafka_code
    try:
        _check_caller(agent, request)
        if offsets:
            await agent.commits.submit(CommitGroupOffsets(offsets))
    except HoldfastError as refusal:
        codes = {key: code or refusal.kafka_code for key, code in codes.items()}
    return _response(request, codes)


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


def plan_offset(agent: Agent, group: str, named: str | UUID, part: Any) -> GroupOffsetCommitted:
    """One position as it would be stored; raises why it cannot be."""
    topic = agent.catalog.get(named)
    check_partition(topic, part.partition_index)
    bytes_max = agent.settings.offset_metadata_bytes_max
    # Null comes back as the empty string, as in Kafka.
    metadata = part.committed_metadata or ""
    if len(metadata.encode()) > bytes_max:
        raise OffsetMetadataTooLarge(f"metadata of an offset may take {bytes_max} bytes")
    leader_epoch = part.committed_leader_epoch
    return GroupOffsetCommitted(
        group,
        topic.topic_id,
        part.partition_index,
        part.committed_offset,
        -1 if leader_epoch is None else leader_epoch,
        metadata,
        wall_clock_ms(),
    )


def _response(request: Any, codes: Codes) -> Any:
    version: int = request.API_VERSION
    topic_class: Any = OffsetCommitResponse.OffsetCommitResponseTopic
    return OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            topic_class(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    topic_class.OffsetCommitResponsePartition(
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

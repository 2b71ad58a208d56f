"""OffsetCommit (key 8), v2-9.

Behaviour: stores positions of consumers that assign partitions themselves (generation -1). Members of a
managed group are answered with UNKNOWN_MEMBER_ID: there are no managed groups yet.

Versions: v8 flexible; v9 KIP-848 error codes, which do not arise here.
"""

from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from holdfast.agent.agent import Agent, wall_clock_ms
from holdfast.agent.catalog import check_partition
from holdfast.agent.registry import serves
from holdfast.agent.writes import CommitGroupOffsets
from holdfast.errors import HoldfastError, OffsetMetadataTooLarge
from holdfast.store.footer import GroupOffsetCommitted

UNKNOWN_MEMBER_ID = 25
METADATA_BYTES_MAX = 4096
"""Kafka's default for offset.metadata.max.bytes."""


@serves(OffsetCommitRequest, first=2, last=9)
async def offset_commit(agent: Agent, request: Any) -> Any:
    """Store all known partitions' positions in one commit."""
    version: int = request.API_VERSION
    codes: dict[tuple[str, int], int] = {}
    offsets: list[GroupOffsetCommitted] = []
    is_simple = request.generation_id_or_member_epoch < 0
    for topic in request.topics:
        for part in topic.partitions:
            key = (topic.name, part.partition_index)
            try:
                offsets.append(_planned(agent, request.group_id, topic.name, part))
                codes[key] = 0 if is_simple else UNKNOWN_MEMBER_ID
            except HoldfastError as refusal:
                codes[key] = refusal.kafka_code
    if offsets and is_simple:
        try:
            await agent.commits.submit(CommitGroupOffsets(offsets))
        except HoldfastError as refusal:
            codes = {key: code or refusal.kafka_code for key, code in codes.items()}
    return _response(request, codes, version)


def _planned(agent: Agent, group: str, name: str, part: Any) -> GroupOffsetCommitted:
    topic = agent.catalog.get(name)
    check_partition(topic, part.partition_index)
    if len((part.committed_metadata or "").encode()) > METADATA_BYTES_MAX:
        raise OffsetMetadataTooLarge(f"metadata of an offset may take {METADATA_BYTES_MAX} bytes")
    leader_epoch = part.committed_leader_epoch
    return GroupOffsetCommitted(
        group,
        topic.topic_id,
        part.partition_index,
        part.committed_offset,
        -1 if leader_epoch is None else leader_epoch,
        part.committed_metadata,
        wall_clock_ms(),
    )


def _response(request: Any, codes: dict[tuple[str, int], int], version: int) -> Any:
    topic_class: Any = OffsetCommitResponse.OffsetCommitResponseTopic
    return OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            topic_class(
                name=topic.name,
                partitions=[
                    topic_class.OffsetCommitResponsePartition(
                        partition_index=part.partition_index,
                        error_code=codes[topic.name, part.partition_index],
                        version=version,
                    )
                    for part in topic.partitions
                ],
                version=version,
            )
            for topic in request.topics
        ],
        version=version,
    )

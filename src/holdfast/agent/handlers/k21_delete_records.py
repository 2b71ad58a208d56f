"""DeleteRecords (key 21), v0-2.

Behaviour: a partition's log begins at the offset from then on, durably; -1: at its high watermark. Earlier records
are gone for readers at once. A log that begins later already stays as it is. Beyond the high watermark:
OFFSET_OUT_OF_RANGE. Records of a topic that is compacted and nothing else are not to be deleted: POLICY_VIOLATION.

Versions: v2 flexible.
"""

import asyncio
from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.registry import serves
from holdfast.agent.topic_config import COMPACT, cleanup_policies
from holdfast.agent.writes import MoveLogStart
from holdfast.errors import HoldfastError, OffsetOutOfRange, PolicyViolation

HIGH_WATERMARK = -1
NO_OFFSET = -1

TOPIC: Any = DeleteRecordsResponse.DeleteRecordsTopicResult


@serves(DeleteRecordsRequest, first=0, last=2)
async def delete_records(agent: Agent, request: Any) -> Any:
    """All partitions in one commit, if it can be."""
    version: int = request.API_VERSION
    topics = []
    for topic in request.topics:
        parts = await asyncio.gather(
            *(_delete(agent, topic.name, part, version) for part in topic.partitions)
        )
        topics.append(TOPIC(name=topic.name, partitions=parts, version=version))
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics, version=version)


async def _delete(agent: Agent, name: str, part: Any, version: int) -> Any:
    code, log_start = 0, NO_OFFSET
    try:
        topic = agent.catalog.get(name)
        agent.check_leads(topic, part.partition_index)
        if cleanup_policies(topic) == [COMPACT]:
            raise PolicyViolation(f"the policy of topic {name!r} is to compact, not to delete")
        if part.offset < HIGH_WATERMARK:
            raise OffsetOutOfRange(f"there is no offset {part.offset}")
        offset = None if part.offset == HIGH_WATERMARK else part.offset
        moved = await agent.commits.submit(
            MoveLogStart(PartitionKey(topic.topic_id, part.partition_index), offset)
        )
        assert isinstance(moved, int)
        log_start = moved
    except HoldfastError as refusal:
        code = refusal.kafka_code
    return TOPIC.DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=log_start, error_code=code, version=version
    )

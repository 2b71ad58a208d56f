"""OffsetForLeaderEpoch (key 23), v2-4.

Behaviour: where the given leader epoch, or the greatest one before it, ended (KIP-320): what a client truncates its
view to after a change of leaders. (-1, -1) if no epoch up to that one is known.

Versions: v3 replica id; v4 flexible.
"""

from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_leader_epoch
from holdfast.agent.registry import serves
from holdfast.errors import HoldfastError


@serves(OffsetForLeaderEpochRequest, first=2, last=4)
async def offset_for_leader_epoch(agent: Agent, request: Any) -> Any:
    """An epoch and its end for each partition asked for."""
    version: int = request.API_VERSION
    topics = [
        OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[_answer(agent, topic.topic, part, version) for part in topic.partitions],
            version=version,
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics, version=version)


def _answer(agent: Agent, name: str, part: Any, version: int) -> Any:
    code, epoch, end = 0, -1, -1
    try:
        topic = agent.catalog.get(name)
        check_leader_epoch(agent.check_leads(topic, part.partition), part.current_leader_epoch)
        epoch, end = agent.plane.find_epoch_end(topic.topic_id, part.partition, part.leader_epoch)
    except HoldfastError as refusal:
        code = refusal.kafka_code
    return OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset(
        error_code=code, partition=part.partition, leader_epoch=epoch, end_offset=end, version=version
    )

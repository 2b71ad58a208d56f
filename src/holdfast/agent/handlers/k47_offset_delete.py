"""OffsetDelete (key 47), v0.

Behaviour: a group's positions are forgotten, durably, in topics that no member subscribes to:
GROUP_SUBSCRIBED_TO_TOPIC otherwise. Members that are no consumers make it NON_EMPTY_GROUP. A position that is
not there is deleted with success.

Versions: only v0, not flexible.
"""

from typing import Any

from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_partition
from holdfast.agent.coordinator_codes import coordinator_code_of
from holdfast.agent.registry import serves
from holdfast.errors import GroupSubscribedToTopic, HoldfastError, KafkaRefusal
from holdfast.store.footer import GroupOffsetDeleted


@serves(OffsetDeleteRequest, first=0, last=0)
async def offset_delete(agent: Agent, request: Any) -> Any:
    """Delete all positions that may go, in one commit."""
    codes: dict[tuple[str, int], int] = {}
    offsets: list[GroupOffsetDeleted] = []
    try:
        reads = agent.groups.subscription(request.group_id)
        for topic in request.topics:
            for part in topic.partitions:
                key = (topic.name, part.partition_index)
                try:
                    offsets.append(_planned(agent, request.group_id, *key, is_read=reads(topic.name)))
                    codes[key] = 0
                except KafkaRefusal as refusal:
                    codes[key] = refusal.kafka_code
        if offsets:
            await agent.groups.delete_offsets(offsets)
    except HoldfastError as refusal:
        code = coordinator_code_of(refusal)
        return OffsetDeleteResponse(error_code=code, throttle_time_ms=0, topics=[], version=0)
    return _response(request, codes)


def _planned(agent: Agent, group: str, name: str, partition: int, *, is_read: bool) -> GroupOffsetDeleted:
    topic = agent.catalog.get(name)
    check_partition(topic, partition)
    if is_read:
        raise GroupSubscribedToTopic(f"group {group!r} reads {name!r}")
    return GroupOffsetDeleted(group, topic.topic_id, partition)


def _response(request: Any, codes: dict[tuple[str, int], int]) -> Any:
    topic_class: Any = OffsetDeleteResponse.OffsetDeleteResponseTopic
    topics = [
        topic_class(
            name=topic.name,
            partitions=[
                topic_class.OffsetDeleteResponsePartition(
                    partition_index=part.partition_index,
                    error_code=codes[topic.name, part.partition_index],
                    version=0,
                )
                for part in topic.partitions
            ],
            version=0,
        )
        for topic in request.topics
    ]
    return OffsetDeleteResponse(error_code=0, throttle_time_ms=0, topics=topics, version=0)

"""OffsetFetch (key 9), v1-10.

Behaviour: the positions that a group has committed; -1 and no error where there is none, be it for want of
the group. Topics null: all that the group has.

Versions: v6 flexible; v8 several groups at once; v9 KIP-848 members, who are treated like everybody; v10
names topics by id (KIP-516): UNKNOWN_TOPIC_ID for one that is not there.
"""

from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.control.plane import GroupOffset
from holdfast.errors import KafkaRefusal, UnknownTopicId

SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10


class TopicPositions(NamedTuple):
    """What is answered for one topic, named as the client named it."""

    named: dict[str, str | UUID]
    error_code: int
    positions: dict[int, GroupOffset | None]


@serves(OffsetFetchRequest, first=1, last=10)
async def offset_fetch(agent: Agent, request: Any) -> Any:
    """Positions for one group, or for several."""
    version: int = request.API_VERSION
    if version < SEVERAL_GROUPS_SINCE:
        topic_class: Any = OffsetFetchResponse.OffsetFetchResponseTopic
        part_class = topic_class.OffsetFetchResponsePartition
        found = _find(agent, request.group_id, request.topics, version)
        topics = [_topic(topic_class, part_class, topic, version) for topic in found]
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=0, version=version)
    groups = [_group(agent, group, version) for group in request.groups]
    return OffsetFetchResponse(throttle_time_ms=0, groups=groups, version=version)


def _group(agent: Agent, group: Any, version: int) -> Any:
    group_class: Any = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_class = group_class.OffsetFetchResponseTopics
    part_class = topic_class.OffsetFetchResponsePartitions
    found = _find(agent, group.group_id, group.topics, version)
    return group_class(
        group_id=group.group_id,
        topics=[_topic(topic_class, part_class, topic, version) for topic in found],
        error_code=0,
        version=version,
    )


def _find(agent: Agent, group: str, wanted: list[Any] | None, version: int) -> list[TopicPositions]:
    committed: dict[UUID, dict[int, GroupOffset]] = {}
    for position in agent.plane.find_group_offsets(group):
        committed.setdefault(position.topic_id, {})[position.partition] = position
    by_id = version >= TOPIC_IDS_SINCE
    if wanted is None:
        topics = [topic for topic in agent.catalog.all() if topic.topic_id in committed]
        return [
            TopicPositions(_named(topic, by_id=by_id), 0, {**committed[topic.topic_id]}) for topic in topics
        ]
    answers = []
    for each in wanted:
        error_code, positions = 0, {}
        try:
            topic = agent.catalog.get(each.topic_id if by_id else each.name)
            positions = committed.get(topic.topic_id, {})
        except KafkaRefusal:
            # By name, a topic that is not there simply has no position.
            error_code = UnknownTopicId.kafka_code if by_id else 0
        found = {partition: positions.get(partition) for partition in each.partition_indexes}
        answers.append(TopicPositions(_named(each, by_id=by_id), error_code, found))
    return answers


def _named(topic: Any, *, by_id: bool) -> dict[str, str | UUID]:
    return {"topic_id": topic.topic_id} if by_id else {"name": topic.name}


def _topic(topic_class: Any, part_class: Any, topic: TopicPositions, version: int) -> Any:
    return topic_class(
        **topic.named,
        partitions=[
            part_class(
                partition_index=partition,
                committed_offset=-1 if position is None else position.offset,
                committed_leader_epoch=-1 if position is None else position.leader_epoch,
                metadata="" if position is None else position.metadata,
                error_code=topic.error_code,
                version=version,
            )
            for partition, position in topic.positions.items()
        ],
        version=version,
    )

"""OffsetFetch (key 9), v1-10.

Behaviour: the positions that a group has committed; -1 and no error where there is none, be it for want of
the group. Topics null: all that the group has. A reader that wants stable positions is told
UNSTABLE_OFFSET_COMMIT where a transaction that is still open has staged one: it will be decided soon.

Versions: v6 flexible; v7 stable positions (KIP-447); v8 several groups at once; v9 KIP-848 members, who are treated
like everybody; v10 names topics by id (KIP-516): UNKNOWN_TOPIC_ID for one that is not there.
"""

from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.control.plane import GroupOffset
from holdfast.errors import KafkaRefusal, UnknownTopicId, UnstableOffsetCommit

SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10


class TopicPositions(NamedTuple):
    """What is answered for one topic, named as the client named it."""

    named: dict[str, str | UUID]
    error_code: int
    positions: dict[int, GroupOffset | None]
    unstable: set[int]
    """Partitions for which an open transaction has staged a position."""


@serves(OffsetFetchRequest, first=1, last=10)
async def offset_fetch(agent: Agent, request: Any) -> Any:
    """Positions for one group, or for several."""
    version: int = request.API_VERSION
    if version < SEVERAL_GROUPS_SINCE:
        topic_class: Any = OffsetFetchResponse.OffsetFetchResponseTopic
        part_class = topic_class.OffsetFetchResponsePartition
        found = _find(agent, request.group_id, request.topics, version, stable=request.require_stable)
        topics = [_topic(topic_class, part_class, topic, version) for topic in found]
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=0, version=version)
    groups = [_group(agent, group, version, stable=request.require_stable) for group in request.groups]
    return OffsetFetchResponse(throttle_time_ms=0, groups=groups, version=version)


def _group(agent: Agent, group: Any, version: int, *, stable: bool) -> Any:
    group_class: Any = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_class = group_class.OffsetFetchResponseTopics
    part_class = topic_class.OffsetFetchResponsePartitions
    found = _find(agent, group.group_id, group.topics, version, stable=stable)
    return group_class(
        group_id=group.group_id,
        topics=[_topic(topic_class, part_class, topic, version) for topic in found],
        error_code=0,
        version=version,
    )


def _find(
    agent: Agent, group: str, wanted: list[Any] | None, version: int, *, stable: bool
) -> list[TopicPositions]:
    staged = agent.plane.find_staged(group) if stable else set()
    committed: dict[UUID, dict[int, GroupOffset]] = {}
    for position in agent.plane.find_group_offsets(group):
        committed.setdefault(position.topic_id, {})[position.partition] = position
    by_id = version >= TOPIC_IDS_SINCE
    if wanted is None:
        topics = [topic for topic in agent.catalog.all() if topic.topic_id in committed]
        return [
            TopicPositions(
                _named(topic, by_id=by_id),
                0,
                {**committed[topic.topic_id]},
                {partition for topic_id, partition in staged if topic_id == topic.topic_id},
            )
            for topic in topics
        ]
    answers = []
    for each in wanted:
        error_code, positions = 0, {}
        unstable: set[int] = set()
        try:
            topic = agent.catalog.get(each.topic_id if by_id else each.name)
            positions = committed.get(topic.topic_id, {})
            unstable = {partition for topic_id, partition in staged if topic_id == topic.topic_id}
        except KafkaRefusal:
            # By name, a topic that is not there simply has no position.
            error_code = UnknownTopicId.kafka_code if by_id else 0
        found = {partition: positions.get(partition) for partition in each.partition_indexes}
        answers.append(TopicPositions(_named(each, by_id=by_id), error_code, found, unstable))
    return answers


def _named(topic: Any, *, by_id: bool) -> dict[str, str | UUID]:
    return {"topic_id": topic.topic_id} if by_id else {"name": topic.name}


def _topic(topic_class: Any, part_class: Any, topic: TopicPositions, version: int) -> Any:
    return topic_class(
        **topic.named,
        partitions=[
            _partition(part_class, topic, partition, position, version)
            for partition, position in topic.positions.items()
        ],
        version=version,
    )


def _partition(
    part_class: Any, topic: TopicPositions, partition: int, position: GroupOffset | None, version: int
) -> Any:
    error_code = topic.error_code
    if partition in topic.unstable:
        error_code, position = UnstableOffsetCommit.kafka_code, None
    return part_class(
        partition_index=partition,
        committed_offset=-1 if position is None else position.offset,
        committed_leader_epoch=-1 if position is None else position.leader_epoch,
        metadata="" if position is None else position.metadata,
        error_code=error_code,
        version=version,
    )

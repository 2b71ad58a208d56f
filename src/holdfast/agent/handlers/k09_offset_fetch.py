"""OffsetFetch (key 9), v1-9.

Behaviour: the positions that a group has committed; -1 and no error where there is none, be it for want of
the group. Topics null: all that the group has.

Versions: v6 flexible; v8 several groups at once; v9 KIP-848 members, who are treated like everybody.
"""

from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.control.plane import GroupOffset
from holdfast.errors import UnknownTopicId

SEVERAL_GROUPS_SINCE = 8


@serves(OffsetFetchRequest, first=1, last=9)
async def offset_fetch(agent: Agent, request: Any) -> Any:
    """Positions for one group, or for several."""
    version: int = request.API_VERSION
    if version < SEVERAL_GROUPS_SINCE:
        topic_class: Any = OffsetFetchResponse.OffsetFetchResponseTopic
        part_class = topic_class.OffsetFetchResponsePartition
        topics = _topics(agent, request.group_id, request.topics, topic_class, part_class, version)
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=0, version=version)
    group_class: Any = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_class = group_class.OffsetFetchResponseTopics
    part_class = topic_class.OffsetFetchResponsePartitions
    groups = [
        group_class(
            group_id=group.group_id,
            topics=_topics(agent, group.group_id, group.topics, topic_class, part_class, version),
            error_code=0,
            version=version,
        )
        for group in request.groups
    ]
    return OffsetFetchResponse(throttle_time_ms=0, groups=groups, version=version)


def _topics(
    agent: Agent, group: str, wanted: list[Any] | None, topic_class: Any, part_class: Any, version: int
) -> list[Any]:
    committed = _committed(agent, group)
    if wanted is None:
        names: dict[str, list[int]] = {}
        for name, partition in committed:
            names.setdefault(name, []).append(partition)
    else:
        names = {topic.name: topic.partition_indexes for topic in wanted}
    return [
        topic_class(
            name=name,
            partitions=[
                _part(part_class, partition, committed.get((name, partition)), version)
                for partition in partitions
            ],
            version=version,
        )
        for name, partitions in names.items()
    ]


def _committed(agent: Agent, group: str) -> dict[tuple[str, int], GroupOffset]:
    committed = {}
    for position in agent.plane.find_group_offsets(group):
        try:
            name = agent.catalog.get(position.topic_id).name
        except UnknownTopicId:
            continue
        committed[name, position.partition] = position
    return committed


def _part(part_class: Any, partition: int, position: GroupOffset | None, version: int) -> Any:
    return part_class(
        partition_index=partition,
        committed_offset=-1 if position is None else position.offset,
        committed_leader_epoch=-1 if position is None else position.leader_epoch,
        metadata="" if position is None else position.metadata,
        error_code=0,
        version=version,
    )

"""DescribeTopicPartitions (key 75), v0.

Behaviour: like Metadata, page by page (KIP-966): topics by name from the cursor on, at most as many partitions as the
client takes; `next_cursor` says where to go on. No topics named: all of them. Nothing is created.
"""

from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.control.plane import Topic
from holdfast.errors import HoldfastError

PARTITIONS_PER_PAGE_MAX = 2000
NO_TOPIC_ID = UUID(int=0)
NO_OPERATIONS = -(2**31)

_TOPIC: Any = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic


@serves(DescribeTopicPartitionsRequest, first=0, last=0)
async def describe_topic_partitions(agent: Agent, request: Any) -> Any:
    """One page."""
    first_topic = request.cursor.topic_name if request.cursor is not None else ""
    first_partition = request.cursor.partition_index if request.cursor is not None else 0
    names = sorted({asked.name for asked in request.topics} or {topic.name for topic in agent.catalog.all()})
    left = min(max(request.response_partition_limit, 1), PARTITIONS_PER_PAGE_MAX)
    topics = []
    cursor = None
    for name in (name for name in names if name >= first_topic):
        if left == 0:
            cursor = _cursor(name, 0)
            break
        start = first_partition if name == first_topic else 0
        described, count, is_whole = _describe(agent, name, start, left)
        topics.append(described)
        left -= count
        if not is_whole:
            cursor = _cursor(name, start + count)
            break
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=topics, next_cursor=cursor, version=0)


def _cursor(topic: str, partition: int) -> Any:
    return DescribeTopicPartitionsResponse.Cursor(topic_name=topic, partition_index=partition, version=0)


def _describe(agent: Agent, name: str, start: int, count_max: int) -> tuple[Any, int, bool]:
    """(the topic's part of the page, how many partitions, whether that is the rest of them)."""
    try:
        topic = agent.catalog.get(name)
    except HoldfastError as refusal:
        return _topic(refusal.kafka_code, name, NO_TOPIC_ID, []), 0, True
    end = min(start + count_max, len(topic.partitions))
    parts = [_partition(agent, topic, number) for number in range(start, end)]
    return _topic(0, name, topic.topic_id, parts), len(parts), end == len(topic.partitions)


def _topic(code: int, name: str, topic_id: UUID, partitions: list[Any]) -> Any:
    return _TOPIC(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=partitions,
        topic_authorized_operations=NO_OPERATIONS,
        version=0,
    )


def _partition(agent: Agent, topic: Topic, number: int) -> Any:
    partition = topic.partitions[number]
    return _TOPIC.DescribeTopicPartitionsResponsePartition(
        error_code=0,
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=[node for node in partition.replicas if agent.catalog.has_all(partition, node)],
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[node for node in partition.replicas if node not in agent.catalog.in_sync],
        version=0,
    )

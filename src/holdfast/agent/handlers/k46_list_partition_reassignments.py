"""ListPartitionReassignments (key 46), v0 (KIP-455).

Behaviour: the partitions that are on their way to other nodes, of those asked for or of all: where they lie now, who
is yet to be in sync, and who goes then. What is not on its way, or not there, is left out.
"""

from typing import Any

from kafka.protocol.admin import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.reassignment import is_under_way
from holdfast.agent.registry import serves
from holdfast.control.plane import Topic


@serves(ListPartitionReassignmentsRequest, first=0, last=0)
async def list_partition_reassignments(agent: Agent, request: Any) -> Any:
    """Those under way."""
    topics = [
        found
        for topic in agent.catalog.all()
        if (found := _describe(topic, _wanted(request, topic))) is not None
    ]
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=0, error_message=None, topics=topics, version=request.API_VERSION
    )


def _wanted(request: Any, topic: Topic) -> set[int]:
    if request.topics is None:
        return set(range(len(topic.partitions)))
    return {
        number
        for wanted in request.topics
        if wanted.name == topic.name
        for number in wanted.partition_indexes
    }


def _describe(topic: Topic, wanted: set[int]) -> Any:
    topic_class: Any = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    partitions = [
        topic_class.OngoingPartitionReassignment(
            partition_index=number,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
        )
        for number, partition in enumerate(topic.partitions)
        if number in wanted and is_under_way(partition)
    ]
    return topic_class(name=topic.name, partitions=partitions) if partitions else None

"""AlterPartitionReassignments (key 45), v0-1 (KIP-455).

Behaviour: a partition comes to lie on the nodes that are named, the preferred leader first. New replicas copy it from
those that are there; what it leaves goes once all the new ones are in sync, also after a restart. Replicas null: what
is under way is taken back. What is answered is durable; ListPartitionReassignments shows how far it is.

Versions: v1 may forbid another replication factor (KIP-860).
"""

from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.errors import HoldfastError, InvalidRequest


@serves(AlterPartitionReassignmentsRequest, first=0, last=1)
async def alter_partition_reassignments(agent: Agent, request: Any) -> Any:
    """One change for each partition asked for."""
    version: int = request.API_VERSION
    topic_class: Any = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    named = [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    topics = []
    for topic in request.topics:
        parts = []
        for part in topic.partitions:
            code, message = 0, None
            try:
                if named.count((topic.name, part.partition_index)) > 1:
                    raise InvalidRequest(f"{topic.name}:{part.partition_index} is named twice")
                await _reassign(agent, topic.name, part, may_change_factor=_may_change_factor(request))
            except HoldfastError as refusal:
                code, message = refusal.kafka_code, str(refusal)
            parts.append(
                topic_class.ReassignablePartitionResponse(
                    partition_index=part.partition_index,
                    error_code=code,
                    error_message=message,
                    version=version,
                )
            )
        topics.append(topic_class(name=topic.name, partitions=parts, version=version))
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=_may_change_factor(request),
        error_code=0,
        error_message=None,
        responses=topics,
        version=version,
    )


def _may_change_factor(request: Any) -> bool:
    return request.API_VERSION < 1 or bool(request.allow_replication_factor_change)


async def _reassign(agent: Agent, name: str, part: Any, *, may_change_factor: bool) -> None:
    topic_id = agent.catalog.get(name).topic_id
    reassignment = agent.cluster.reassignment
    if part.replicas is None:
        await reassignment.cancel(topic_id, part.partition_index)
        return
    await reassignment.begin(
        topic_id, part.partition_index, tuple(part.replicas), may_change_factor=may_change_factor
    )

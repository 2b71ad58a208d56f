"""CreateTopics (key 19), v2-7.

Behaviour: each topic is created durably, or refused on its own. One node: the replication factor is 1 (or -1,
the default); manual assignments must name node 1. A topic that is named twice is refused once.
`validate_only` checks and changes nothing.

Versions: v5 flexible, partitions and configs in the answer; v7 topic ids.
"""

from typing import Any
from uuid import UUID

from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

from holdfast.agent.agent import NODE_ID, Agent
from holdfast.agent.registry import serves
from holdfast.errors import (
    HoldfastError,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    TopicAlreadyExists,
)

NO_TOPIC_ID = UUID(int=0)


@serves(CreateTopicsRequest, first=2, last=7)
async def create_topics(agent: Agent, request: Any) -> Any:
    """Create the topics one after the other."""
    version: int = request.API_VERSION
    names = [topic.name for topic in request.topics]
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        code, message, topic_id, partitions = 0, None, NO_TOPIC_ID, -1
        try:
            if names.count(topic.name) > 1:
                raise InvalidRequest(f"{topic.name!r} is named twice")
            topic_id, partitions = await _create(agent, topic, validate_only=request.validate_only)
        except HoldfastError as refusal:
            code, message = refusal.kafka_code, str(refusal)
        results.append(
            CreateTopicsResponse.CreatableTopicResult(
                name=topic.name,
                topic_id=topic_id,
                error_code=code,
                error_message=message,
                topic_config_error_code=0,
                num_partitions=partitions,
                replication_factor=1 if code == 0 else -1,
                configs=[],
                version=version,
            )
        )
    return CreateTopicsResponse(throttle_time_ms=0, topics=results, version=version)


async def _create(agent: Agent, topic: Any, *, validate_only: bool) -> tuple[UUID, int]:
    partitions = _partitions(topic)
    configs = {config.name: config.value for config in topic.configs}
    if validate_only:
        planned = agent.plan_topic(topic.name, partitions, configs)
        if agent.catalog.find(topic.name) is not None:
            raise TopicAlreadyExists(f"topic {topic.name!r} exists already")
        return planned.topic_id, planned.partitions
    created = await agent.create_topic(topic.name, partitions, configs)
    return created.topic_id, created.partitions


def _partitions(topic: Any) -> int:
    if not topic.assignments:
        if topic.replication_factor not in (-1, 1):
            raise InvalidReplicationFactor(f"{topic.replication_factor} replicas on one node")
        return int(topic.num_partitions)
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        raise InvalidRequest("either an assignment or counts of partitions and replicas, not both")
    if sorted(a.partition_index for a in topic.assignments) != list(range(len(topic.assignments))):
        raise InvalidReplicaAssignment("an assignment must name partitions 0, 1, 2 and so on")
    if any(a.broker_ids != [NODE_ID] for a in topic.assignments):
        raise InvalidReplicaAssignment(f"only node {NODE_ID} is there to assign to")
    return len(topic.assignments)

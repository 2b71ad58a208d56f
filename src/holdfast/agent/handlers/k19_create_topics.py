"""CreateTopics (key 19), v2-7.

Behaviour: each topic is created durably, or refused on its own. Replication factor -1 is the lesser of 3 and the
number of nodes. A topic that is named twice is refused once. `validate_only` checks and changes nothing.

Versions: v5 flexible, partitions and configs in the answer; v7 topic ids.
"""

from typing import Any
from uuid import UUID

from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.config_view import describe_topic
from holdfast.agent.registry import serves
from holdfast.control.plane import Partition, Topic
from holdfast.errors import (
    HoldfastError,
    InvalidReplicaAssignment,
    InvalidRequest,
    TopicAlreadyExists,
)

NO_TOPIC_ID = UUID(int=0)
CONFIGS_SINCE = 5

RESULT: Any = CreateTopicsResponse.CreatableTopicResult


@serves(CreateTopicsRequest, first=2, last=7)
async def create_topics(agent: Agent, request: Any) -> Any:
    """Create the topics one after the other."""
    version: int = request.API_VERSION
    names = [topic.name for topic in request.topics]
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        code, message, created = 0, None, None
        try:
            if names.count(topic.name) > 1:
                raise InvalidRequest(f"{topic.name!r} is named twice")
            created = await _create(agent, topic, validate_only=request.validate_only)
        except HoldfastError as refusal:
            code, message = refusal.kafka_code, str(refusal)
        results.append(
            RESULT(
                name=topic.name,
                topic_id=created.topic_id if created else NO_TOPIC_ID,
                error_code=code,
                error_message=message,
                topic_config_error_code=0,
                num_partitions=len(created.partitions) if created else -1,
                replication_factor=len(created.partitions[0].replicas) if created else -1,
                configs=_configs(agent, created, version) if created and version >= CONFIGS_SINCE else [],
                version=version,
            )
        )
    return CreateTopicsResponse(throttle_time_ms=0, topics=results, version=version)


async def _create(agent: Agent, topic: Any, *, validate_only: bool) -> Topic:
    """The topic as it is, or would be."""
    cluster = agent.cluster
    configs = {config.name: config.value for config in topic.configs}
    placing: Any = {"replication_factor": topic.replication_factor, "assignment": _assignment(agent, topic)}
    if not validate_only:
        return await cluster.create_topic(topic.name, topic.num_partitions, configs, **placing)
    planned = cluster.plan_topic(topic.name, topic.num_partitions, configs, **placing)
    if agent.catalog.find(topic.name) is not None:
        raise TopicAlreadyExists(f"topic {topic.name!r} exists already")
    partitions = [
        Partition(replicas=tuple(nodes), leader=nodes[0], leader_epoch=0) for nodes in planned.replicas
    ]
    return Topic(
        topic_id=planned.topic_id, name=topic.name, partitions=tuple(partitions), configs=planned.configs
    )


def _configs(agent: Agent, topic: Topic, version: int) -> list[Any]:
    return [
        RESULT.CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=False,
            version=version,
        )
        for entry in describe_topic(topic, agent.settings)
    ]


def _assignment(agent: Agent, topic: Any) -> list[list[int]] | None:
    """The replicas that the client chose, if it did."""
    if not topic.assignments:
        return None
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        raise InvalidRequest("either an assignment or counts of partitions and replicas, not both")
    chosen = {assigned.partition_index: assigned.broker_ids for assigned in topic.assignments}
    if sorted(chosen) != list(range(len(topic.assignments))):
        raise InvalidReplicaAssignment("an assignment must name partitions 0, 1, 2 and so on")
    nodes = {peer.node_id for peer in agent.peers}
    for replicas in chosen.values():
        if not replicas or len(set(replicas)) != len(replicas) or not nodes.issuperset(replicas):
            raise InvalidReplicaAssignment(f"replicas {replicas}: the nodes are {sorted(nodes)}")
    return [chosen[partition] for partition in range(len(chosen))]

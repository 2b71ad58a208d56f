"""Metadata (key 3), v0-13.

Behaviour: a replica whose store is out of sync is shown as offline. A topic that does not exist is created if the
client allows it (always before v4, as in Kafka). v0 reads an empty list as "all topics", later versions read null so.

Versions: v9 flexible; v10 topic ids; v12 look-up by id; v13 a top-level error code.
"""

from typing import Any
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_name
from holdfast.agent.registry import serves
from holdfast.control.plane import Topic
from holdfast.errors import HoldfastError, TopicAlreadyExists

NO_TOPIC_ID = UUID(int=0)
NO_OPERATIONS: Any = -(2**31)


@serves(MetadataRequest, first=0, last=13)
async def metadata(agent: Agent, request: Any) -> Any:
    """Nodes, and the topics asked for."""
    version: int = request.API_VERSION
    brokers = [
        MetadataResponse.MetadataResponseBroker(
            node_id=peer.node_id, host=peer.host, port=peer.port, rack=None, version=version
        )
        for peer in agent.peers
    ]
    wants_all = request.topics is None or (version == 0 and not request.topics)
    if wants_all:
        topics = [_describe(agent, topic, version) for topic in agent.catalog.all()]
    else:
        # Each topic once, however often it was asked for.
        wanted_once = {(wanted.name, wanted.topic_id): wanted for wanted in request.topics}
        topics = [await _find(agent, request, wanted, version) for wanted in wanted_once.values()]
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=brokers,
        cluster_id=str(agent.cluster_id),
        controller_id=agent.peers[0].node_id,
        topics=topics,
        version=version,
    )


async def _find(agent: Agent, request: Any, wanted: Any, version: int) -> Any:
    topic_id: UUID = wanted.topic_id or NO_TOPIC_ID
    by_id = version >= 10 and wanted.name is None
    try:
        if by_id:
            return _describe(agent, agent.catalog.get(topic_id), version)
        topic = agent.catalog.find(wanted.name)
        if topic is None and (version < 4 or request.allow_auto_topic_creation):
            topic = await _create(agent, wanted.name)
        if topic is None:
            check_name(wanted.name)
        return _describe(agent, topic or agent.catalog.get(wanted.name), version)
    except HoldfastError as refusal:
        return MetadataResponse.MetadataResponseTopic(
            error_code=refusal.kafka_code,
            name=wanted.name,
            topic_id=topic_id,
            is_internal=False,
            partitions=[],
            version=version,
        )


async def _create(agent: Agent, name: str) -> Topic:
    try:
        return await agent.cluster.create_topic(name)
    except TopicAlreadyExists:
        # Somebody else asked for it at the same moment.
        agent.catalog.refresh()
        return agent.catalog.get(name)


def _describe(agent: Agent, topic: Topic, version: int) -> Any:
    in_sync = agent.catalog.in_sync
    part: Any = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition
    return MetadataResponse.MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=False,
        partitions=[
            part(
                error_code=0,
                partition_index=number,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=[node for node in partition.replicas if agent.catalog.has_all(partition, node)],
                offline_replicas=[node for node in partition.replicas if node not in in_sync],
                version=version,
            )
            for number, partition in enumerate(topic.partitions)
        ],
        version=version,
    )

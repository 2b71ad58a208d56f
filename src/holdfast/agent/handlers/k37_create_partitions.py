"""CreatePartitions (key 37), v0-3.

Behaviour: a topic grows to the count asked for, durably; existing partitions stay as they are. New ones go to the
nodes that the client names for each, or are spread as those of a new topic are. `validate_only` changes nothing.

Versions: v2 flexible.
"""

from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest, CreatePartitionsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.cluster import PARTITIONS_MAX
from holdfast.agent.registry import serves
from holdfast.agent.writes import AddPartitions
from holdfast.control.plane import Topic
from holdfast.errors import (
    HoldfastError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    PolicyViolation,
)


@serves(CreatePartitionsRequest, first=0, last=3)
async def create_partitions(agent: Agent, request: Any) -> Any:
    """Let the topics grow one after the other."""
    version: int = request.API_VERSION
    names = [topic.name for topic in request.topics]
    results = []
    for wanted in {topic.name: topic for topic in request.topics}.values():
        code, message = 0, None
        try:
            if names.count(wanted.name) > 1:
                raise InvalidRequest(f"{wanted.name!r} is named twice")
            topic = agent.catalog.get(wanted.name)
            replicas = _plan(agent, topic, wanted)
            if not request.validate_only:
                await agent.commits.submit(AddPartitions(topic.topic_id, len(topic.partitions), replicas))
        except HoldfastError as refusal:
            code, message = refusal.kafka_code, str(refusal)
        results.append(
            CreatePartitionsResponse.CreatePartitionsTopicResult(
                name=wanted.name, error_code=code, error_message=message, version=version
            )
        )
    return CreatePartitionsResponse(throttle_time_ms=0, results=results, version=version)


def _plan(agent: Agent, topic: Topic, wanted: Any) -> list[list[int]]:
    """The replicas of each new partition."""
    added = wanted.count - len(topic.partitions)
    if added <= 0:
        raise InvalidPartitions(
            f"{topic.name!r} has {len(topic.partitions)} partitions: it can only get more"
        )
    if wanted.count > PARTITIONS_MAX:
        raise PolicyViolation(f"{wanted.count} partitions: {PARTITIONS_MAX} at most")
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        # On from the node that leads the last one: partitions that follow each other are led by different nodes.
        return agent.cluster.assign(added, factor, first=topic.partitions[-1].replicas[0])
    chosen: list[list[int]] = [assigned.broker_ids for assigned in wanted.assignments]
    if len(chosen) != added:
        raise InvalidReplicaAssignment(f"{len(chosen)} assignments for {added} new partitions")
    nodes = {peer.node_id for peer in agent.peers}
    for replicas in chosen:
        if len(replicas) != factor or len(set(replicas)) != factor or not nodes.issuperset(replicas):
            raise InvalidReplicaAssignment(f"replicas {replicas}: {factor} of the nodes {sorted(nodes)}")
    return chosen

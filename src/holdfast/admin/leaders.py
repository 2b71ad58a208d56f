"""Moving leadership to a node that somebody names: Kafka's ElectLeaders cannot name one."""

import asyncio
from http import HTTPStatus
from typing import Any, TypeGuard

from holdfast.admin.http import Refused, Response, json_response
from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_partition
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.writes import MoveLeader
from holdfast.control.plane import Topic
from holdfast.errors import ElectionNotNeeded, HoldfastError, UnknownTopicOrPartition


async def move_leaders(agent: Agent, wanted: dict[str, Any]) -> Response:
    """`{"topic": name, "partition": number or null for all, "node": number}`.

    Nothing is moved unless the node can lead all that it is to lead. A move that is refused later than that
    stands beside its partition.
    """
    name, partition, node = _checked(wanted)
    try:
        topic = agent.catalog.get(name)
        if partition is not None:
            check_partition(topic, partition)
    except UnknownTopicOrPartition as refusal:
        raise Refused(HTTPStatus.NOT_FOUND, str(refusal)) from None
    partitions = list(range(len(topic.partitions))) if partition is None else [partition]
    _check_node(agent, topic, partitions, node)
    moves = await asyncio.gather(*(_move(agent, topic, number, node) for number in partitions))
    return json_response({"topic": name, "node": node, "partitions": moves})


async def _move(agent: Agent, topic: Topic, partition: int, node: int) -> dict[str, object]:
    was = topic.partitions[partition].leader
    moved, error = True, None
    try:
        await agent.commits.submit(MoveLeader(PartitionKey(topic.topic_id, partition), node))
    except ElectionNotNeeded:
        moved = False
    except HoldfastError as refusal:
        moved, error = False, str(refusal)
    return {"partition": partition, "was": was, "moved": moved, "error": error}


def _checked(wanted: dict[str, Any]) -> tuple[str, int | None, int]:
    if unknown := sorted(wanted.keys() - {"topic", "partition", "node"}):
        raise Refused(HTTPStatus.BAD_REQUEST, f"unknown: {', '.join(unknown)}")
    name, partition, node = wanted.get("topic"), wanted.get("partition"), wanted.get("node")
    if not isinstance(name, str):
        raise Refused(HTTPStatus.BAD_REQUEST, "topic is a name")
    if partition is not None and not _is_number(partition):
        raise Refused(HTTPStatus.BAD_REQUEST, "partition is a number, or null for all of them")
    if not _is_number(node):
        raise Refused(HTTPStatus.BAD_REQUEST, "node is a number")
    return name, partition, node


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_node(agent: Agent, topic: Topic, partitions: list[int], node: int) -> None:
    nodes = [peer.node_id for peer in agent.peers]
    if node not in nodes:
        raise Refused(HTTPStatus.NOT_FOUND, f"no node {node}: there are {', '.join(map(str, nodes))}")
    if node not in agent.catalog.in_sync:
        raise Refused(HTTPStatus.CONFLICT, f"node {node} is not in sync: it lacks what was acknowledged")
    without = [number for number in partitions if node not in topic.partitions[number].replicas]
    if without:
        raise Refused(
            HTTPStatus.CONFLICT,
            f"node {node} has no replica of {topic.name}:{without[0]}"
            + (f" and {len(without) - 1} more" if len(without) > 1 else ""),
        )

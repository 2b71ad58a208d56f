"""Stores over HTTP: how they are, and what operators do to them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from holdfast.admin.http import Refused, Response, json_response
from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_partition
from holdfast.errors import HoldfastError, UnknownTopicOrPartition


async def list_stores(agent: Agent, query: Mapping[str, str]) -> Response:
    """All stores: phase, life, what they lack, and why one that is away stays so."""
    return json_response({"stores": await asyncio.to_thread(_describe, agent)})


async def care_for_store(agent: Agent, wanted: dict[str, Any]) -> Response:
    """`{"action": "fence" | "rebuild" | "remove", "store": number}`."""
    care = agent.cluster.care
    actions: dict[str, Callable[[int], Awaitable[None]]] = {
        "fence": care.fence,
        "rebuild": care.rebuild,
        "remove": care.remove,
    }
    action, store = wanted.get("action"), wanted.get("store")
    if action not in actions or not isinstance(store, int) or isinstance(store, bool):
        raise Refused(HTTPStatus.BAD_REQUEST, f"action is one of {', '.join(actions)}, store a number")
    return await _done(actions[action](store))


async def assign_replicas(agent: Agent, wanted: dict[str, Any]) -> Response:
    """`{"topic": name, "partition": number, "replicas": [numbers]}`."""
    name, partition, replicas = wanted.get("topic"), wanted.get("partition"), wanted.get("replicas")
    if not isinstance(name, str) or not isinstance(partition, int) or not isinstance(replicas, list):
        raise Refused(
            HTTPStatus.BAD_REQUEST, "topic is a name, partition a number, replicas a list of numbers"
        )
    try:
        topic = agent.catalog.get(name)
        check_partition(topic, partition)
    except UnknownTopicOrPartition as refusal:
        raise Refused(HTTPStatus.NOT_FOUND, str(refusal)) from None
    return await _done(agent.cluster.care.assign(topic.topic_id, partition, tuple(map(int, replicas))))


async def _done(work: Awaitable[None]) -> Response:
    try:
        await work
    except HoldfastError as refusal:
        raise Refused(HTTPStatus.CONFLICT, str(refusal)) from None
    return json_response({})


def _describe(agent: Agent) -> list[dict[str, object]]:
    nodes = {peer.node_id: peer.address for peer in agent.peers}
    return [
        {
            "store": state.store,
            "phase": state.phase.value,
            "life": state.incarnation,
            "address": nodes.get(state.store),
            "partitions": sum(
                state.store in partition.replicas
                for topic in agent.catalog.all()
                for partition in topic.partitions
            ),
            "behind": len(agent.plane.list_behind(state.store)),
            "reason": agent.cluster.returning.reasons.get(state.store),
        }
        for state in agent.plane.list_stores()
    ]

"""What `holdfast status` tells of a running agent."""

import os
from importlib.metadata import version

from holdfast.admin import process
from holdfast.agent.agent import Agent
from holdfast.agent.cluster import wall_clock_ms
from holdfast.keeper import messages


def status(agent: Agent) -> dict[str, object]:
    """One JSON object. Asks the control plane for every partition: not for the event loop's thread."""
    topics = agent.catalog.all()
    bounds = [
        agent.plane.find_bounds(topic.topic_id, partition)
        for topic in topics
        for partition in range(len(topic.partitions))
    ]
    return {
        "version": version("holdfast"),
        "cluster_id": str(agent.cluster_id),
        "pid": os.getpid(),
        "data": str(agent.settings.data.resolve()),
        "uptime_seconds": round(process.uptime_seconds(), 3),
        "resident_memory_bytes": process.resident_bytes(),
        "nodes": [
            {"id": peer.node_id, "address": peer.address, "in_sync": peer.node_id in agent.catalog.in_sync}
            for peer in agent.peers
        ],
        "stores": [messages.plain(each) for each in agent.cluster.coordination.read_stores()],
        "keeper": _keeper(agent),
        "topics": len(topics),
        "partitions": len(bounds),
        "log_start_sum": sum(each.start for each in bounds),
        "log_end_sum": sum(each.end for each in bounds),
        "last_frame": agent.commits.last_frame,
        "commit_queue": {"writes": agent.commits.queued_writes, "bytes": agent.commits.queued_bytes},
        "transactions": _transactions(agent),
        "connections": sum(len(peer.connections) for peer in agent.peers),
    }


def _keeper(agent: Agent) -> dict[str, object]:
    activity = agent.cluster.desk.activity
    ended_ms = activity.round_ended_ms
    return {
        "rewrites": activity.published,
        "refused": activity.refused,
        "last_round_seconds_ago": None if ended_ms is None else max(0, wall_clock_ms() - ended_ms) / 1000,
    }


def _transactions(agent: Agent) -> dict[str, object]:
    found = agent.transactions.standings.list_open()
    oldest = None
    if found:
        oldest = {
            "transactional_id": found[0].transactional_id,
            "producer_id": found[0].producer_id,
            "producer_epoch": found[0].epoch,
            "age_seconds": max(0, wall_clock_ms() - found[0].started_ms) / 1000,
        }
    return {"open": len(found), "oldest": oldest}

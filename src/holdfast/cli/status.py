"""`holdfast status`: how a running Holdfast is."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from holdfast.cli import present
from holdfast.cli.admin_option import admin_options, find_admin
from holdfast.cli.present import json_option


@click.command()
@admin_options
@json_option
def status(data: Path, admin: str | None, as_json: bool) -> None:
    """Show version, nodes, topics and load of a running Holdfast."""
    from holdfast.client.admin import get_json

    found = get_json(find_admin(data, admin), "/status")
    if as_json:
        present.print_json(found)
    else:
        present.print_facts(_facts(found))


def _facts(found: dict[str, Any]) -> dict[str, object]:
    queue = found["commit_queue"]
    return {
        "version": found["version"],
        "cluster": found["cluster_id"],
        "nodes": ", ".join(map(_node, found["nodes"])),
        "stores": _stores(found["stores"]),
        "keeper": _keeper(found["keeper"]),
        "data": found["data"],
        "process": found["pid"],
        "up for": timedelta(seconds=round(found["uptime_seconds"])),
        "memory": f"{found['resident_memory_bytes'] / 2**20:,.0f} MiB",
        "topics": f"{found['topics']:,} with {present.count(found['partitions'], 'partition')}",
        "offsets": f"{found['log_end_sum'] - found['log_start_sum']:,} between log starts and ends",
        "last frame": f"{found['last_frame']:,}",
        "commit queue": f"{present.count(queue['writes'], 'write')}, {present.count(queue['bytes'], 'byte')}",
        "transactions": _transactions(found["transactions"]),
        "connections": found["connections"],
    }


def _node(node: dict[str, Any]) -> str:
    return f"{node['id']} at {node['address']}{'' if node['in_sync'] else ' (not in sync)'}"


def _stores(stores: list[dict[str, Any]]) -> str:
    """How many are in each phase; those that are not in sync by name."""
    by_phase: dict[str, list[int]] = {}
    for each in stores:
        by_phase.setdefault(each["phase"], []).append(each["store"])
    in_sync = len(by_phase.pop("in sync", []))
    others = (f"{', '.join(map(str, numbers))} {phase}" for phase, numbers in sorted(by_phase.items()))
    return "; ".join([f"{in_sync} of {len(stores)} in sync", *others])


def _keeper(keeper: dict[str, Any]) -> str:
    ended = keeper["last_round_seconds_ago"]
    if ended is None:
        return "nothing was due yet"
    done = present.count(keeper["rewrites"], "rewrite")
    return (
        f"{done}, {keeper['refused']:,} refused; the last round ended {timedelta(seconds=round(ended))} ago"
    )


def _transactions(found: dict[str, Any]) -> str:
    oldest = found["oldest"]
    if oldest is None:
        return "none open"
    age = timedelta(seconds=round(oldest["age_seconds"]))
    producer = f"producer {oldest['producer_id']} epoch {oldest['producer_epoch']}"
    return f"{found['open']:,} open, the oldest for {age}: {oldest['transactional_id']} ({producer})"

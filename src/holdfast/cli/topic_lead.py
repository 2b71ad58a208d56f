"""`holdfast topic lead`: let a node lead partitions of a running Holdfast."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from holdfast.cli import present
from holdfast.cli.admin_option import admin_options, find_admin
from holdfast.cli.data_option import DATA_DEFAULT
from holdfast.cli.endpoint import COMPLETION_SECONDS_MAX, connect
from holdfast.cli.present import json_option
from holdfast.errors import HoldfastError, UsageError


def complete_served_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Topics of the Holdfast that the command would ask, and with a colon their partitions."""
    with suppress(HoldfastError):
        bootstrap = _ask_nodes(ctx)[0]["address"]
        with connect(bootstrap, seconds_max=COMPLETION_SECONDS_MAX) as cluster:
            topics = cluster.metadata().topics
        name, colon, _ = incomplete.partition(":")
        if not colon:
            return [found for found in sorted(topics) if found.startswith(incomplete)]
        if name in topics:
            places = (f"{name}:{number}" for number in sorted(topics[name].partitions))
            return [place for place in places if place.startswith(incomplete)]
    return []


def complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Its nodes, likewise."""
    with suppress(HoldfastError):
        nodes = (str(node["id"]) for node in _ask_nodes(ctx))
        return [node for node in nodes if node.startswith(incomplete)]
    return []


@click.command()
@click.argument("place", metavar="TOPIC[:P]", shell_complete=complete_served_topic)
@click.argument("node", metavar="NODE", type=click.IntRange(1), shell_complete=complete_node)
@admin_options
@json_option
@click.pass_context
def lead(ctx: click.Context, place: str, node: int, data: Path, admin: str | None, as_json: bool) -> None:
    """Let NODE lead partition P of TOPIC, or all of its partitions. Holdfast only: Kafka cannot be asked for it."""
    from holdfast.client.admin import post_json

    topic, partition = parse_place(place)
    wanted = {"topic": topic, "partition": partition, "node": node}
    found = post_json(find_admin(data, admin), "/leaders", wanted)
    if as_json:
        present.print_json(found)
    for each in found["partitions"]:
        if each["error"] is not None:
            click.echo(f"holdfast: {topic}:{each['partition']} stays as it is: {each['error']}", err=True)
        elif not as_json:
            click.echo(_told(topic, node, each))
    ctx.exit(1 if any(each["error"] is not None for each in found["partitions"]) else 0)


def _told(topic: str, node: int, each: dict[str, Any]) -> str:
    if each["moved"]:
        return f"node {node} leads {topic}:{each['partition']}, which node {each['was']} led"
    return f"node {node} leads {topic}:{each['partition']} already"


def parse_place(place: str) -> tuple[str, int | None]:
    """Names of topics have no colon."""
    topic, colon, partition = place.partition(":")
    if not topic or (colon and not (partition.isascii() and partition.isdecimal())):
        raise UsageError(f"{place!r} is not TOPIC or TOPIC:PARTITION, such as orders:0")
    return topic, int(partition) if colon else None


def _ask_nodes(ctx: click.Context) -> list[dict[str, Any]]:
    from holdfast.client.admin import get_json

    address = find_admin(ctx.params.get("data") or DATA_DEFAULT, ctx.params.get("admin"))
    nodes: list[dict[str, Any]] = get_json(address, "/status", seconds_max=COMPLETION_SECONDS_MAX)["nodes"]
    return nodes

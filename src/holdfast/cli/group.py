"""`holdfast group`: who reads what, how far behind, and from where they begin next."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.endpoint import (
    complete_group,
    complete_topic,
    connect,
    endpoint_options,
    require_partitions,
    require_topic,
)
from holdfast.cli.position import Kind, Position, TimeType, resolve
from holdfast.cli.present import json_option
from holdfast.client.endpoint import Endpoint
from holdfast.errors import GroupIdNotFound, NonEmptyGroup, UsageError

if TYPE_CHECKING:
    from holdfast.client.cluster import Cluster
    from holdfast.client.groups import Group, TopicPartition

NEW_PROTOCOL = "consumer"

group_argument = click.argument("name", metavar="GROUP", shell_complete=complete_group)


@click.group()
def group() -> None:
    """Consumer groups: list, describe, reset."""


@group.command("list")
@endpoint_options
@json_option
def list_(endpoint: Endpoint, as_json: bool) -> None:
    """List the groups by name."""
    from holdfast.client.groups import list_groups

    with connect(endpoint) as cluster:
        groups = list_groups(cluster)
    if as_json:
        present.print_json(
            [{"name": each.name, "state": each.state, "type": each.type or "classic"} for each in groups]
        )
    elif groups:
        rows = [(each.name, each.state, each.type or "classic") for each in groups]
        present.print_table(("GROUP", "STATE", "TYPE"), rows)
    else:
        click.echo(f"no groups at {endpoint}", err=True)


@group.command()
@group_argument
@endpoint_options
@json_option
def describe(name: str, endpoint: Endpoint, as_json: bool) -> None:
    """Show the members of GROUP and how far they are behind, partition by partition."""
    from holdfast.client.groups import fetch_group_offsets

    with connect(endpoint) as cluster:
        found = _require_group(cluster, name)
        committed = fetch_group_offsets(cluster, name)
        owners = {place: member for member in found.members for place in member.partitions}
        places = sorted({*committed, *owners})
        ends = _ends(cluster, places)
    lag = {place: ends[place] - at for place, at in committed.items() if place in ends}
    partitions: list[dict[str, object]] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": committed.get(place),
            "end": ends.get(place),
            "lag": lag.get(place),
            "member": owners[place].member_id if place in owners else None,
        }
        for place in places
    ]
    if as_json:
        members = [
            {
                "id": each.member_id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "host": each.host,
                "partitions": [list(place) for place in each.partitions],
            }
            for each in found.members
        ]
        state = {"name": name, "state": found.state, "protocol": found.protocol, "lag": sum(lag.values())}
        present.print_json({**state, "members": members, "partitions": partitions})
        return
    _print_group(found, partitions, sum(lag.values()))


def _print_group(found: "Group", partitions: list[dict[str, object]], lag: int) -> None:
    present.print_facts(
        {"group": found.name, "state": found.state, "protocol": found.protocol, "lag": f"{lag:,}"}
    )
    if found.members:
        present.print_title("Members")
        rows = [
            (each.client_id, each.host, len(each.partitions), each.instance_id, each.member_id)
            for each in found.members
        ]
        present.print_table(("CLIENT", "HOST", "PARTITIONS", "INSTANCE", "MEMBER"), rows)
    if partitions:
        clients = {each.member_id: each.client_id for each in found.members}
        present.print_title("Partitions")
        rows_of_partitions = [
            (*list(each.values())[:5], clients.get(str(each["member"]))) for each in partitions
        ]
        present.print_table(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT"), rows_of_partitions)


@group.command()
@group_argument
@click.option("--to-earliest", is_flag=True, help="To the first record that is there.")
@click.option("--to-latest", is_flag=True, help="To the end: skip all that is there.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="To this offset.")
@click.option(
    "--to-time", type=TimeType(), metavar="TIME", help="To the first record at or after an ISO time."
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,…]",
    shell_complete=complete_topic,
    help="Only this topic, or these partitions of it; repeatable. All that the group has read if not given.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@endpoint_options
@json_option
def reset(
    name: str,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: int | None,
    topics: tuple[str, ...],
    dry_run: bool,
    endpoint: Endpoint,
    as_json: bool,
) -> None:
    """Set the offsets of GROUP, from which its members will read on. Refused while it has members."""
    from holdfast.client.groups import (
        TopicPartition,
        commit_group_offsets,
        describe_group,
        fetch_group_offsets,
    )
    from holdfast.client.offsets import Isolation

    target = _target(to_earliest, to_latest, to_offset, to_time)
    with connect(endpoint) as cluster:
        # With a topic named, the group may be new: its offsets are then made before it is.
        found = describe_group(cluster, name) if topics else _require_group(cluster, name)
        if found.is_active:
            raise NonEmptyGroup(
                f"group {name!r} is {found.state} with {present.count(len(found.members), 'member')}: "
                "stop them first, or they would overwrite the offsets"
            )
        before = fetch_group_offsets(cluster, name)
        chosen = _named(cluster, topics) if topics else _by_topic(before)
        after = {
            TopicPartition(topic, partition): offset
            for topic, partitions in chosen.items()
            for partition, offset in resolve(
                cluster, topic, partitions, target, isolation=Isolation.READ_UNCOMMITTED
            ).items()
        }
        if not dry_run and after:
            commit_group_offsets(cluster, name, after)
    _print_reset(before, after, dry_run=dry_run, as_json=as_json)


def _print_reset(
    before: "dict[TopicPartition, int]", after: "dict[TopicPartition, int]", *, dry_run: bool, as_json: bool
) -> None:
    changes = [
        {"topic": place.topic, "partition": place.partition, "before": before.get(place), "after": offset}
        for place, offset in sorted(after.items())
    ]
    if as_json:
        present.print_json({"dry_run": dry_run, "changes": changes})
    elif changes:
        present.print_table(
            ("TOPIC", "PARTITION", "BEFORE", "AFTER"), [list(each.values()) for each in changes]
        )
    if not as_json and (dry_run or not changes):
        click.echo("nothing was changed" if changes else "the group has no offsets: name a --topic", err=True)


def _target(earliest: bool, latest: bool, offset: int | None, time_ms: int | None) -> Position:
    targets = []
    if earliest:
        targets.append(Position(Kind.BEGINNING))
    if latest:
        targets.append(Position(Kind.END))
    if offset is not None:
        targets.append(Position(Kind.OFFSET, offset))
    if time_ms is not None:
        targets.append(Position(Kind.TIME, time_ms))
    if len(targets) != 1:
        raise UsageError("say where to: one of --to-earliest, --to-latest, --to-offset and --to-time")
    return targets[0]


def _require_group(cluster: "Cluster", name: str) -> "Group":
    """The group; one that only has offsets counts, one that the coordinator knows nothing of does not."""
    from holdfast.client.groups import describe_group, fetch_group_offsets, list_groups

    found = describe_group(cluster, name)
    if found.state != "Dead" or fetch_group_offsets(cluster, name):
        return found
    listed = {each.name: each for each in list_groups(cluster)}
    if name in listed and listed[name].type.lower() == NEW_PROTOCOL:
        raise GroupIdNotFound(f"group {name!r} uses the protocol of KIP-848, which is not described here yet")
    raise GroupIdNotFound(
        f"there is no group {name!r} at {cluster.bootstrap}: `holdfast group list` shows what there is"
    )


def _named(cluster: "Cluster", topics: Iterable[str]) -> dict[str, list[int]]:
    """Reads TOPIC or TOPIC:P,P,… and checks that all of it exists."""
    chosen: dict[str, list[int]] = {}
    for text in topics:
        name, colon, numbers = text.partition(":")
        wanted = numbers.split(",") if colon else []
        if not all(number.isdecimal() for number in wanted):
            raise UsageError(f"--topic takes TOPIC or TOPIC:0,1,…, not {text!r}")
        chosen[name] = require_partitions(require_topic(cluster, name), tuple(map(int, wanted)))
    return chosen


def _by_topic(places: "Iterable[TopicPartition]") -> dict[str, list[int]]:
    chosen: dict[str, list[int]] = defaultdict(list)
    for place in places:
        chosen[place.topic].append(place.partition)
    return chosen


def _ends(cluster: "Cluster", places: "Iterable[TopicPartition]") -> "dict[TopicPartition, int]":
    """Where the partitions end; those of topics that are gone are left out."""
    from holdfast.client.groups import TopicPartition
    from holdfast.client.offsets import LATEST, list_offsets

    ends: dict[TopicPartition, int] = {}
    for topic, partitions in _by_topic(places).items():
        known = cluster.metadata([topic]).topics.get(topic)
        there = [each for each in partitions if known and each in known.partitions]
        found = list_offsets(cluster, topic, dict.fromkeys(there, LATEST))
        ends |= {TopicPartition(topic, partition): offset for partition, offset in found.items()}
    return ends

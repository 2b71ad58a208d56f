"""`holdfast topic`: list, create, describe, delete and configure the topics of any Kafka cluster; lead."""

from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.endpoint import (
    complete_config,
    complete_topic,
    connect,
    endpoint_options,
    require_topic,
)
from holdfast.cli.present import json_option
from holdfast.cli.topic_export import export
from holdfast.cli.topic_lead import lead
from holdfast.cli.topic_replicas import replicas
from holdfast.client.endpoint import Endpoint
from holdfast.errors import UnsupportedVersion, UsageError

if TYPE_CHECKING:
    from holdfast.client.cluster import Cluster, Topic
    from holdfast.client.topics import ConfigEntry

topic_argument = click.argument("name", metavar="TOPIC", shell_complete=complete_topic)


@click.group()
def topic() -> None:
    """Topics: list, create, describe, delete, configure, lead, replicas, export."""


topic.add_command(export)
topic.add_command(lead)
topic.add_command(replicas)


@topic.command("list")
@click.option("--internal", is_flag=True, help="Also the topics that brokers keep for themselves.")
@endpoint_options
@json_option
def list_(internal: bool, endpoint: Endpoint, as_json: bool) -> None:
    """List the topics by name."""
    with connect(endpoint) as cluster:
        found = cluster.metadata().topics.values()
    topics = sorted((each for each in found if internal or not each.is_internal), key=lambda each: each.name)
    if as_json:
        present.print_json([_summary(each) for each in topics])
    elif topics:
        rows = [(each.name, len(each.partitions), _replication(each)) for each in topics]
        present.print_table(("TOPIC", "PARTITIONS", "REPLICAS"), rows)
    else:
        click.echo(f"no topics at {endpoint}: `holdfast topic create NAME` makes one", err=True)


@topic.command()
@click.argument("name", metavar="TOPIC")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="How many; the broker's default if not given.",
)
@click.option("-r", "--replicas", type=click.IntRange(1), metavar="N", help="Copies of each; likewise.")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that is there as it is, and call it good.")
@endpoint_options
@json_option
def create(
    name: str,
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    endpoint: Endpoint,
    as_json: bool,
) -> None:
    """Create TOPIC and wait until it can be used."""
    from holdfast.client.topics import BROKERS_CHOICE, create_topic

    chosen = dict(map(_pair, configs))
    with connect(endpoint) as cluster:
        is_there = if_not_exists and name in cluster.metadata([name]).topics
        if not is_there:
            create_topic(
                cluster,
                name,
                partitions=partitions or BROKERS_CHOICE,
                replication_factor=replicas or BROKERS_CHOICE,
                configs=chosen,
            )
        found = cluster.topic(name)
    if as_json:
        present.print_json({"created": not is_there, **_summary(found)})
    else:
        what = "is there already" if is_there else "created"
        click.echo(f"topic {name} {what}: {present.count(len(found.partitions), 'partition')}")


@topic.command()
@topic_argument
@endpoint_options
@json_option
def describe(name: str, endpoint: Endpoint, as_json: bool) -> None:
    """Show TOPIC: where its partitions are, how far they reach, and its configs."""
    from holdfast.client.offsets import EARLIEST, LATEST, list_offsets

    with connect(endpoint) as cluster:
        found = require_topic(cluster, name)
        led = [number for number, each in found.partitions.items() if each.leader >= 0]
        starts = list_offsets(cluster, name, dict.fromkeys(led, EARLIEST))
        ends = list_offsets(cluster, name, dict.fromkeys(led, LATEST))
        configs, unknown_because = _configs(cluster, name)
    partitions = [
        {
            "partition": number,
            "leader": each.leader if each.leader >= 0 else None,
            "replicas": list(each.replicas),
            "in_sync": list(each.in_sync),
            "start": starts.get(number),
            "end": ends.get(number),
        }
        for number, each in found.partitions.items()
    ]
    if as_json:
        shown = None if configs is None else {entry.name: _config_json(entry) for entry in configs}
        present.print_json({**_summary(found), "partitions": partitions, "configs": shown})
        return
    present.print_facts({"topic": found.name, "id": found.topic_id, "offsets": _span(starts, ends)})
    present.print_title("Partitions")
    rows = [[_joined(value) for value in each.values()] for each in partitions]
    present.print_table(("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END"), rows)
    present.print_title("Configs that were set")
    if configs is None:
        click.echo(unknown_because)
    else:
        _print_configs([entry for entry in configs if _is_set(entry)])


@topic.command()
@click.argument("names", metavar="TOPIC…", nargs=-1, required=True, shell_complete=complete_topic)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@endpoint_options
@json_option
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...], yes: bool, endpoint: Endpoint, as_json: bool) -> None:
    """Delete every TOPIC with all its records, after asking."""
    from holdfast.client.topics import delete_topics

    with connect(endpoint) as cluster:
        for name in names:
            require_topic(cluster, name)
        if not yes:
            what = present.printable(", ".join(names))
            click.confirm(f"Delete {what} at {endpoint}, with all records?", abort=True, err=True)
        refusals = delete_topics(cluster, names)
    if as_json:
        present.print_json(
            {name: {"deleted": why is None, "error": why and str(why)} for name, why in refusals.items()}
        )
    for name, why in refusals.items():
        if why is not None:
            click.echo(f"holdfast: {why}", err=True)
        elif not as_json:
            click.echo(f"topic {name} deleted")
    ctx.exit(1 if any(refusals.values()) else 0)


@topic.command()
@topic_argument
@click.argument("changes", metavar="[KEY=VALUE]…", nargs=-1, shell_complete=complete_config)
@click.option("--unset", multiple=True, metavar="KEY", help="Back to its default; repeatable.")
@click.option("--all", "show_all", is_flag=True, help="Show defaults too.")
@endpoint_options
@json_option
def config(
    name: str,
    changes: tuple[str, ...],
    unset: tuple[str, ...],
    show_all: bool,
    endpoint: Endpoint,
    as_json: bool,
) -> None:
    """Show the configs of TOPIC, or change some of them and show what they are now."""
    from holdfast.client.topics import alter_configs, describe_configs

    put = dict(map(_pair, changes))
    with connect(endpoint) as cluster:
        require_topic(cluster, name)
        if put or unset:
            alter_configs(cluster, name, put=put, unset=unset)
        entries = describe_configs(cluster, name)
    touched = {*put, *unset}
    chosen = [entry for entry in entries if show_all or _is_set(entry) or entry.name in touched]
    if as_json:
        present.print_json({entry.name: _config_json(entry) for entry in chosen})
    else:
        _print_configs(chosen)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f"{text!r} is not KEY=VALUE, such as retention.ms=86400000")
    return key, value


def _configs(cluster: "Cluster", name: str) -> tuple["list[ConfigEntry] | None", str]:
    """The configs, or None and the reason."""
    from holdfast.client.topics import describe_configs

    try:
        return describe_configs(cluster, name), ""
    except UnsupportedVersion as unsupported:
        return None, str(unsupported)


def _is_set(entry: "ConfigEntry") -> bool:
    return entry.source.name == "TOPIC"


def _config_json(entry: "ConfigEntry") -> dict[str, object]:
    return {"value": entry.value, "source": entry.source.name.lower()}


def _print_configs(entries: "list[ConfigEntry]") -> None:
    if entries:
        rows = [(entry.name, entry.value, entry.source.name.lower()) for entry in entries]
        present.print_table(("CONFIG", "VALUE", "SOURCE"), rows)
    else:
        click.echo("none: all have their defaults")


def _summary(found: "Topic") -> dict[str, object]:
    return {
        "name": found.name,
        "id": None if found.topic_id is None else str(found.topic_id),
        "partitions": len(found.partitions),
        "replicas": _replication(found),
    }


def _replication(found: "Topic") -> int:
    return max((len(each.replicas) for each in found.partitions.values()), default=0)


def _span(starts: dict[int, int], ends: dict[int, int]) -> str:
    total = sum(end - starts[partition] for partition, end in ends.items())
    return f"{total:,} between start and end"


def _joined(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value

"""`holdfast txn abort`: end a transaction that its producer does not end."""

import time
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.endpoint import (
    complete_topic,
    complete_transactional_id,
    connect,
    endpoint_options,
    require_partitions,
    require_topic,
    require_transactional_id,
)
from holdfast.cli.present import json_option
from holdfast.client.endpoint import Endpoint
from holdfast.errors import InvalidTxnState, UsageError

if TYPE_CHECKING:
    from holdfast.client.aborting import OpenTransaction
    from holdfast.client.cluster import Cluster
    from holdfast.client.groups import TopicPartition


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Topics where a producer is named, else transactional ids."""
    complete = complete_transactional_id if ctx.params.get("producer_id") is None else complete_topic
    return complete(ctx, param, incomplete)


@click.command()
@click.argument("target", metavar="TARGET", shell_complete=complete_target)
@click.option(
    "--producer",
    "producer_id",
    type=click.IntRange(0),
    metavar="ID",
    is_eager=True,
    help="TARGET is TOPIC:PARTITION, and what this producer has open there is meant.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@endpoint_options
@json_option
def abort(target: str, producer_id: int | None, yes: bool, endpoint: Endpoint, as_json: bool) -> None:
    """Abort the open transaction of TARGET, a transactional id, and fence its producer; after asking.

    All of the transaction is aborted, by its coordinator. Only one that no coordinator knows any more, as there
    are in Kafka, is aborted in the one partition that is named. Exit code 1, and nothing is aborted, if TARGET has gone
    on to another transaction while you were asked, or may have a coordinator that keeps silent: without the right
    Describe on a transactional id nobody is told of it, and only what is older than any timeout is taken for orphaned.
    """
    from holdfast.client.aborting import abort_open
    from holdfast.client.hanging import OpenWrite

    with connect(endpoint) as cluster:
        found = _find(cluster, target, producer_id)
        if isinstance(found, OpenWrite):
            what = f"what producer {producer_id} has open in {target}"
        else:
            what = f"the transaction of {found.name}"
        if not yes:
            click.confirm(f"Abort {present.printable(what)} at {endpoint}?", abort=True, err=True)
        found = abort_open(cluster, found)
    if isinstance(found, OpenWrite):
        name, places = None, [found.place]
    else:
        name, places = found.name, list(found.partitions)
    if as_json:
        present.print_json(
            {
                "transactional_id": name,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "partitions": [list(each) for each in places],
            }
        )
    else:
        click.echo(present.printable(f"{what} is aborted, in {present.count(len(places), 'partition')}"))


def _find(cluster: "Cluster", target: str, producer_id: int | None) -> "OpenTransaction":
    """The transaction that is meant."""
    from holdfast.client.aborting import find_open

    if producer_id is None:
        found = require_transactional_id(cluster, target)
        found.check_open()
        return found
    place = _parse_place(cluster, target)
    meant = find_open(cluster, place, producer_id, now_ms=time.time_ns() // 1_000_000)
    if meant is None:
        raise InvalidTxnState(f"producer {producer_id} has no open transaction in {target}")
    return meant


def _parse_place(cluster: "Cluster", text: str) -> "TopicPartition":
    from holdfast.client.groups import TopicPartition

    topic, colon, number = text.partition(":")
    if not (topic and colon and number.isascii() and number.isdecimal()):
        raise UsageError(f"with --producer name TOPIC:PARTITION, such as orders:0, not {text!r}")
    (partition,) = require_partitions(require_topic(cluster, topic), (int(number),))
    return TopicPartition(topic, partition)

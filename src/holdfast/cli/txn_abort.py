"""`holdfast txn abort`: end a transaction that its producer does not end."""

from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.endpoint import (
    bootstrap_option,
    complete_topic,
    complete_transactional_id,
    connect,
    require_partitions,
    require_topic,
    require_transactional_id,
)
from holdfast.cli.present import json_option
from holdfast.errors import InvalidTxnState, UsageError

if TYPE_CHECKING:
    from holdfast.client.cluster import Cluster
    from holdfast.client.groups import TopicPartition
    from holdfast.client.hanging import OpenWrite
    from holdfast.client.transactional_ids import TransactionDescription


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
@bootstrap_option
@json_option
def abort(target: str, producer_id: int | None, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Abort the open transaction of TARGET, a transactional id, and fence its producer; after asking.

    All of the transaction is aborted, by its coordinator. Only one that no coordinator knows any more, as there
    are in Kafka, is aborted in the one partition that is named. Exit code 1, and nothing is aborted, if TARGET has gone
    on to another transaction while you were asked.
    """
    from holdfast.client.hanging import OpenWrite, abort_in_partition
    from holdfast.client.transactional_ids import abort_transaction

    with connect(bootstrap) as cluster:
        found = _find(cluster, target, producer_id)
        if isinstance(found, OpenWrite):
            what = f"what producer {producer_id} has open in {target}"
        else:
            what = f"the transaction of {found.name}"
        if not yes:
            click.confirm(f"Abort {present.printable(what)} at {bootstrap}?", abort=True, err=True)
        # Both look again: no other transaction is aborted than the one that was asked about.
        if isinstance(found, OpenWrite):
            abort_in_partition(cluster, found)
            name, places = None, [found.place]
        else:
            found = abort_transaction(cluster, found)
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


def _find(cluster: "Cluster", target: str, producer_id: int | None) -> "TransactionDescription | OpenWrite":
    """The transaction that is meant; what a partition holds of it where no coordinator knows it."""
    from holdfast.client.hanging import find_open_write

    if producer_id is None:
        found = require_transactional_id(cluster, target)
        found.check_open()
        return found
    place = _parse_place(cluster, target)
    # The partition first: the other way round, a transaction that begins in between would seem to have no coordinator.
    write = find_open_write(cluster, place, producer_id)
    meant = _find_owner(cluster, place, producer_id) or write
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


def _find_owner(
    cluster: "Cluster", place: "TopicPartition", producer_id: int
) -> "TransactionDescription | None":
    """The transactional id whose coordinator has the transaction open: a marker past it would tear it."""
    from holdfast.client.transactional_ids import describe_open

    for each in describe_open(cluster):
        if each.producer_id == producer_id and place in each.partitions:
            return each
    return None

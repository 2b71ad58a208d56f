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
from holdfast.errors import UsageError

if TYPE_CHECKING:
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
@bootstrap_option
@json_option
def abort(target: str, producer_id: int | None, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Abort the open transaction of TARGET, a transactional id, and fence its producer; after asking.

    All of the transaction is aborted, by its coordinator. Only one that no coordinator knows any more, as there
    are in Kafka, is aborted in the one partition that is named.
    """
    from holdfast.client.hanging import abort_in_partition
    from holdfast.client.transactional_ids import abort_transaction

    with connect(bootstrap) as cluster:
        if producer_id is None:
            require_transactional_id(cluster, target).check_open()
            name: str | None = target
        else:
            place = _parse_place(cluster, target)
            name = _find_owner(cluster, place, producer_id)
        what = f"the transaction of {name}" if name else f"what producer {producer_id} has open in {target}"
        if not yes:
            click.confirm(f"Abort {present.printable(what)} at {bootstrap}?", abort=True, err=True)
        if name is not None:
            found = abort_transaction(cluster, name)
            producer_id, epoch, places = found.producer_id, found.producer_epoch, found.partitions
        else:
            assert producer_id is not None
            epoch, places = abort_in_partition(cluster, place, producer_id).producer_epoch, (place,)
    if as_json:
        aborted = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}
        present.print_json({**aborted, "partitions": [list(each) for each in places]})
    else:
        click.echo(present.printable(f"{what} is aborted, in {present.count(len(places), 'partition')}"))


def _parse_place(cluster: "Cluster", text: str) -> "TopicPartition":
    from holdfast.client.groups import TopicPartition

    topic, colon, number = text.partition(":")
    if not (topic and colon and number.isascii() and number.isdecimal()):
        raise UsageError(f"with --producer name TOPIC:PARTITION, such as orders:0, not {text!r}")
    (partition,) = require_partitions(require_topic(cluster, topic), (int(number),))
    return TopicPartition(topic, partition)


def _find_owner(cluster: "Cluster", place: "TopicPartition", producer_id: int) -> str | None:
    """The transactional id whose coordinator has the transaction open: a marker past it would tear it."""
    from holdfast.client.transactional_ids import describe_open

    for each in describe_open(cluster):
        if each.producer_id == producer_id and place in each.partitions:
            return each.name
    return None

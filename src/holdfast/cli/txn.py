"""`holdfast txn`: what transactions are open, since when, and how to end one that hangs."""

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.duration import DurationType, told
from holdfast.cli.endpoint import (
    bootstrap_option,
    complete_topic,
    complete_transactional_id,
    connect,
    require_partitions,
    require_topic,
)
from holdfast.cli.present import json_option
from holdfast.errors import TransactionalIdNotFound, UsageError

if TYPE_CHECKING:
    from holdfast.client.cluster import Cluster
    from holdfast.client.groups import TopicPartition
    from holdfast.client.hanging import HangingTransaction
    from holdfast.client.transactional_ids import TransactionDescription

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Topics where a producer is named, else transactional ids."""
    complete = complete_transactional_id if ctx.params.get("producer_id") is None else complete_topic
    return complete(ctx, param, incomplete)


@click.group()
def txn() -> None:
    """Transactions: list, describe, abort, find hanging ones."""


@txn.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only ids in this state; repeatable.",
)
@click.option(
    "--longer-than",
    "longer_than_ms",
    type=DurationType(),
    metavar="DURATION",
    help="Only transactions open for longer than 500ms, 90s, 15m, 2h or 1d.",
)
@click.option("--pattern", metavar="REGEX", help="Only ids that match as a whole.")
@bootstrap_option
@json_option
def list_(
    states: tuple[str, ...], longer_than_ms: int | None, pattern: str | None, bootstrap: str, as_json: bool
) -> None:
    """List the transactional ids by name, and how long their transactions have been open."""
    from holdfast.client.transactional_ids import OPEN_STATES, describe_listed, list_transactional_ids

    wanted = _compiled(pattern)
    with connect(bootstrap) as cluster:
        # Filtered here and not by the brokers: older ones know only the filter by state.
        listed = [
            each for each in list_transactional_ids(cluster, states=states) if wanted.fullmatch(each.name)
        ]
        described = describe_listed(cluster, [each for each in listed if each.state in OPEN_STATES])
    now_ms = _now_ms()
    ages_ms = {name: found.age_ms(now_ms) for name, found in described.items()}
    if longer_than_ms is not None:
        listed = [each for each in listed if (ages_ms.get(each.name) or 0) > longer_than_ms]
    if as_json:
        present.print_json(
            [
                {
                    "transactional_id": each.name,
                    "state": each.state,
                    "producer_id": each.producer_id,
                    "coordinator": each.coordinator,
                    "age_ms": ages_ms.get(each.name),
                }
                for each in listed
            ]
        )
    elif listed:
        rows = [
            (each.name, each.state, each.producer_id, each.coordinator, told(ages_ms.get(each.name)))
            for each in listed
        ]
        present.print_table(("TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR", "OPEN FOR"), rows)
    else:
        click.echo(f"no such transactional ids at {bootstrap}", err=True)


@txn.command()
@click.argument("name", metavar="TRANSACTIONAL_ID", shell_complete=complete_transactional_id)
@bootstrap_option
@json_option
def describe(name: str, bootstrap: str, as_json: bool) -> None:
    """Show the state of TRANSACTIONAL_ID, its producer, and what its transaction has written to."""
    with connect(bootstrap) as cluster:
        found = _require_id(cluster, name)
    age_ms = found.age_ms(_now_ms())
    if as_json:
        present.print_json(
            {
                "transactional_id": found.name,
                "state": found.state,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "timeout_ms": found.timeout_ms,
                "started_ms": found.started_ms,
                "age_ms": age_ms,
                "partitions": [list(place) for place in found.partitions],
            }
        )
        return
    facts: dict[str, object] = {
        "transactional id": found.name,
        "state": found.state,
        "producer": _producer(found.producer_id, found.producer_epoch),
        "timeout": told(found.timeout_ms),
    }
    if found.started_ms is not None:
        facts |= {"started": _moment(found.started_ms), "open for": told(age_ms)}
    present.print_facts(facts)
    if found.partitions:
        present.print_title("Partitions")
        present.print_table(("TOPIC", "PARTITION"), found.partitions)


@txn.command()
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
            _require_id(cluster, target).check_open()
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


@txn.command()
@click.option(
    "--longer-than",
    "longer_than_ms",
    type=DurationType(),
    metavar="DURATION",
    help="Open for longer than that (90s, 15m, …), instead of longer than their own timeouts.",
)
@bootstrap_option
@json_option
@click.pass_context
def hanging(ctx: click.Context, longer_than_ms: int | None, bootstrap: str, as_json: bool) -> None:
    """Show transactions that are open for too long, and the partitions that they hold back.

    Readers of committed records do not get past START; HELD offsets are behind it. Without a transactional id
    stands what no coordinator knows any more. Exit code 1 if there are any.
    """
    from holdfast.client.hanging import find_hanging

    with connect(bootstrap) as cluster:
        found = find_hanging(cluster, now_ms=_now_ms(), longer_than_ms=longer_than_ms)
    if as_json:
        present.print_json([_hanging_json(each) for each in found])
    elif found:
        titles = (
            "TRANSACTIONAL ID",
            "PRODUCER",
            "OPEN FOR",
            "TIMEOUT",
            "TOPIC",
            "PARTITION",
            "START",
            "HELD",
        )
        present.print_table(titles, [row for each in found for row in _hanging_rows(each)])
    else:
        click.echo(f"no transaction hangs at {bootstrap}", err=True)
    ctx.exit(1 if found else 0)


def _hanging_json(found: "HangingTransaction") -> dict[str, object]:
    return {
        "transactional_id": found.name,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "age_ms": found.age_ms,
        "timeout_ms": found.timeout_ms,
        "partitions": [
            {
                "topic": each.place.topic,
                "partition": each.place.partition,
                "start": each.start,
                "held": each.held,
            }
            for each in found.partitions
        ],
    }


def _hanging_rows(found: "HangingTransaction") -> Iterable[tuple[object, ...]]:
    producer = _producer(found.producer_id, found.producer_epoch)
    about = (found.name, producer, told(found.age_ms), told(found.timeout_ms))
    if not found.partitions:
        yield (*about, None, None, None, None)
    for each in found.partitions:
        yield (*about, each.place.topic, each.place.partition, each.start, each.held)


def _producer(producer_id: int, epoch: int) -> str:
    return f"{producer_id} epoch {epoch}"


def _moment(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _compiled(pattern: str | None) -> "re.Pattern[str]":
    try:
        return re.compile(".*" if pattern is None else pattern, re.DOTALL)
    except re.error as error:
        raise UsageError(f"--pattern is not a regular expression: {error}") from error


def _require_id(cluster: "Cluster", name: str) -> "TransactionDescription":
    from holdfast.client.transactional_ids import describe_transactional_id

    try:
        return describe_transactional_id(cluster, name)
    except TransactionalIdNotFound:
        raise TransactionalIdNotFound(
            f"there is no transactional id {name!r} at {cluster.bootstrap}:"
            " `holdfast txn list` shows what there is"
        ) from None


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

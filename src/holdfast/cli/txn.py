"""`holdfast txn`: what transactions are open, since when, and how to end one that hangs."""

import re
import time
from datetime import UTC, datetime

import click

from holdfast.cli import present
from holdfast.cli.duration import DurationType, told
from holdfast.cli.endpoint import (
    complete_transactional_id,
    connect,
    endpoint_options,
    require_transactional_id,
)
from holdfast.cli.present import json_option
from holdfast.cli.txn_abort import abort
from holdfast.cli.txn_hanging import hanging
from holdfast.client.endpoint import Endpoint
from holdfast.errors import UsageError
from holdfast.rules.transactional_id import KAFKA_STATES


@click.group()
def txn() -> None:
    """Transactions: list, describe, abort, find hanging ones."""


txn.add_command(abort)
txn.add_command(hanging)


@txn.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(KAFKA_STATES, case_sensitive=False),
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
@endpoint_options
@json_option
def list_(
    states: tuple[str, ...],
    longer_than_ms: int | None,
    pattern: str | None,
    endpoint: Endpoint,
    as_json: bool,
) -> None:
    """List the transactional ids by name, and how long their transactions have been open."""
    from holdfast.client.transactional_ids import OPEN_STATES, describe_listed, list_transactional_ids

    wanted = _compiled(pattern)
    with connect(endpoint) as cluster:
        # Filtered here and not by the brokers: older ones know only the filter by state.
        listed = [
            each for each in list_transactional_ids(cluster, states=states) if wanted.fullmatch(each.name)
        ]
        described = describe_listed(cluster, [each for each in listed if each.state in OPEN_STATES])
    now_ms = time.time_ns() // 1_000_000
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
        click.echo(f"no such transactional ids at {endpoint}", err=True)


@txn.command()
@click.argument("name", metavar="TRANSACTIONAL_ID", shell_complete=complete_transactional_id)
@endpoint_options
@json_option
def describe(name: str, endpoint: Endpoint, as_json: bool) -> None:
    """Show the state of TRANSACTIONAL_ID, its producer, and what its transaction has written to."""
    with connect(endpoint) as cluster:
        found = require_transactional_id(cluster, name)
    age_ms = found.age_ms(time.time_ns() // 1_000_000)
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
        "producer": f"{found.producer_id} epoch {found.producer_epoch}",
        "timeout": told(found.timeout_ms),
    }
    if found.started_ms is not None:
        facts |= {"started": _moment(found.started_ms), "open for": told(age_ms)}
    present.print_facts(facts)
    if found.partitions:
        present.print_title("Partitions")
        present.print_table(("TOPIC", "PARTITION"), found.partitions)


def _moment(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds")


def _compiled(pattern: str | None) -> "re.Pattern[str]":
    try:
        return re.compile(".*" if pattern is None else pattern, re.DOTALL)
    except re.error as error:
        raise UsageError(f"--pattern is not a regular expression: {error}") from error

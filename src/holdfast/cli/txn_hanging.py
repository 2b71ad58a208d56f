"""`holdfast txn hanging`: transactions that hold readers back for too long."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.duration import DurationType, told
from holdfast.cli.endpoint import connect, endpoint_options
from holdfast.cli.present import json_option
from holdfast.client.endpoint import Endpoint

if TYPE_CHECKING:
    from holdfast.client.hanging import HangingTransaction


@click.command()
@click.option(
    "--longer-than",
    "longer_than_ms",
    type=DurationType(),
    metavar="DURATION",
    help="Open for longer than that (90s, 15m, …), instead of longer than their own timeouts.",
)
@endpoint_options
@json_option
@click.pass_context
def hanging(ctx: click.Context, longer_than_ms: int | None, endpoint: Endpoint, as_json: bool) -> None:
    """Show transactions that are open for too long, and the partitions that they hold back.

    Readers of committed records do not get past START; HELD offsets are behind it. Without a transactional id
    stands what no coordinator knows any more. Exit code 1 if there are any.
    """
    from holdfast.client.hanging import find_hanging

    with connect(endpoint) as cluster:
        found = find_hanging(cluster, now_ms=time.time_ns() // 1_000_000, longer_than_ms=longer_than_ms)
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
        click.echo(f"no transaction hangs at {endpoint}", err=True)
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
    producer = f"{found.producer_id} epoch {found.producer_epoch}"
    about = (found.name, producer, told(found.age_ms), told(found.timeout_ms))
    if not found.partitions:
        yield (*about, None, None, None, None)
    for each in found.partitions:
        yield (*about, each.place.topic, each.place.partition, each.start, each.held)

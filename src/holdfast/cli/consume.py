"""`holdfast consume`: the records of a topic, as lines or as JSON."""

import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

import click

from holdfast.cli.endpoint import (
    complete_group,
    complete_topic,
    connect,
    endpoint_options,
    require_partitions,
    require_topic,
)
from holdfast.cli.position import Kind, Position, PositionType
from holdfast.client.endpoint import Endpoint
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.cli.reading import Reading
    from holdfast.client.cluster import Cluster
    from holdfast.records.record import Record

ISOLATION = ("read_committed", "read_uncommitted")

Writer = Callable[[int, "Record"], bytes]
"""A record of a partition as it is printed, line end and all."""


@click.command()
@click.argument("topic", shell_complete=complete_topic)
@click.option(
    "--from",
    "start",
    type=PositionType(),
    default="beginning",
    show_default=True,
    metavar="POSITION",
    help="beginning, end, an OFFSET, -N for the last N offsets of each partition, an ISO time or @MILLISECONDS.",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition; repeatable.",
)
@click.option(
    "-n", "--count", type=click.IntRange(1), metavar="N", help="Stop after so many; wait for them if need be."
)
@click.option("--until-end/--follow", "until_end", default=None, help="Stop at the present end, or never.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    help="Read as a member of this group, from its offsets on, and commit.",
    shell_complete=complete_group,
)
@click.option(
    "--isolation",
    type=click.Choice(ISOLATION),
    default=ISOLATION[0],
    show_default=True,
    help="Whether records of open and aborted transactions are shown.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--base64", "as_base64", is_flag=True, help="Keys and values in the JSON as base64.")
@click.option("--raw", is_flag=True, help="Print the values alone, byte for byte, a newline after each.")
@endpoint_options
def consume(
    topic: str,
    start: Position,
    partitions: tuple[int, ...],
    count: int | None,
    until_end: bool | None,
    group: str | None,
    isolation: str,
    as_json: bool,
    as_base64: bool,
    raw: bool,
    endpoint: Endpoint,
) -> None:
    """Print the records of TOPIC up to its present end, or go on with --follow or --count.

    A line shows partition:offset, time, key, value and headers. A group's own offsets come before --from.
    """
    if raw and as_json:
        raise UsageError("--raw and --json exclude each other")
    if as_base64 and not as_json:
        raise UsageError("--base64 is about keys and values in JSON: add --json")
    if group == "":
        raise UsageError("--group takes a name")
    stops_at_end = until_end if until_end is not None else count is None
    writer = _writer(topic, as_json=as_json, as_base64=as_base64, raw=raw)
    # ^C is the way to end --follow, and a good end at any time: what was printed is committed.
    with suppress(KeyboardInterrupt), connect(endpoint) as cluster, ExitStack() as stack:
        found = require_topic(cluster, topic)
        chosen = require_partitions(found, partitions)
        reading = _reading(
            stack,
            cluster,
            topic,
            start=start,
            chosen=chosen,
            group=group,
            is_member=group is not None and not partitions,
            isolation=isolation,
            stops_at_end=stops_at_end,
            count=count,
        )
        try:
            _print(reading, writer)
        except KeyboardInterrupt:
            with suppress(HoldfastError):
                reading.settle()
            raise


def _reading(
    stack: ExitStack,
    cluster: "Cluster",
    topic: str,
    *,
    start: Position,
    chosen: list[int],
    group: str | None,
    is_member: bool,
    isolation: str,
    stops_at_end: bool,
    count: int | None,
) -> "Reading":
    from holdfast.cli.position import resolve
    from holdfast.cli.reading import GroupShare, OwnShare, Reading, Share, Source
    from holdfast.client.offsets import Isolation

    level = Isolation[isolation.upper()]
    source = Source(cluster=cluster, topic=topic, start=start, isolation=level)
    ends = None
    if stops_at_end:
        ends = resolve(cluster, topic, chosen, Position(Kind.END), isolation=level)
    share: Share
    if is_member and group is not None:
        share = stack.enter_context(closing(GroupShare(source, group)))
    else:
        share = OwnShare(source=source, chosen=frozenset(chosen), group=group)
    return Reading(source=source, share=share, ends=ends, count=count)


def _print(reading: "Reading", writer: Writer) -> None:
    for portion in reading.portions():
        sys.stdout.buffer.write(b"".join(writer(partition, record) for partition, record in portion))
        sys.stdout.buffer.flush()


def _writer(topic: str, *, as_json: bool, as_base64: bool, raw: bool) -> Writer:
    from holdfast.cli.record_format import to_json, to_line

    if raw:
        return lambda partition, record: (record.value or b"") + b"\n"
    if as_json:
        return lambda partition, record: (
            to_json(topic, partition, record, as_base64=as_base64).encode() + b"\n"
        )
    dim = sys.stdout.isatty()
    return lambda partition, record: to_line(partition, record, dim=dim).encode(errors="replace") + b"\n"

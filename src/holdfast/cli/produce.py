"""`holdfast produce`: lines, values or JSON objects become records."""

import sys
from collections.abc import Iterable
from io import BufferedReader
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.endpoint import (
    complete_topic,
    connect,
    endpoint_options,
    require_partitions,
    require_topic,
)
from holdfast.client.endpoint import Endpoint
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.cli.record_format import GivenRecord
    from holdfast.client.producer import Producer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"all": -1, "1": 1, "0": 0}

Given = Iterable[list["GivenRecord"]]


@click.command()
@click.argument("topic", shell_complete=complete_topic)
@click.option("-v", "--value", "values", multiple=True, help="Send this and read no input; repeatable.")
@click.option("-k", "--key", help="The key of every record.")
@click.option("--key-separator", metavar="TEXT", help="What divides key and value in a line, such as ':'.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; repeatable.")
@click.option("--null", "is_null", is_flag=True, help="Send tombstones: for --key, or for each line, a key.")
@click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="Where to; by the key if not given."
)
@click.option("-f", "--file", "source", type=click.File("rb"), help="Read this instead of standard input.")
@click.option(
    "--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Who must have it."
)
@click.option(
    "-z", "--compression", type=click.Choice(CODECS), default="none", show_default=True, help="Of each batch."
)
@click.option("--json", "as_json", is_flag=True, help="Read one JSON object a line; answer in JSON.")
@click.option("--base64", "as_base64", is_flag=True, help="Keys and values in the JSON are base64.")
@endpoint_options
def produce(
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    is_null: bool,
    partition: int | None,
    source: BufferedReader | None,
    acks: str,
    compression: str,
    as_json: bool,
    as_base64: bool,
    endpoint: Endpoint,
) -> None:
    """Send records to TOPIC: each line of the input is a value.

    With --json each line is an object with any of key, value, headers, partition and timestamp, as
    `holdfast consume --json` prints them. A line that is wrong ends it; what stands before is sent.
    """
    from holdfast.cli.record_input import RecordForm, Spread, read_records
    from holdfast.client.producer import Producer
    from holdfast.records.batch import Codec

    _check(values, key, key_separator, is_null=is_null, as_json=as_json, as_base64=as_base64)
    form = RecordForm(
        key=None if key is None else _encode(key),
        separator=None if key_separator is None else _encode(key_separator),
        headers=tuple(map(_header, headers)),
        is_null=is_null,
        partition=partition,
        as_base64=as_base64,
    )
    given: Given
    if values or (is_null and key is not None):
        given = [[form.from_value(_encode(value)) for value in values or ("",)]]
    else:
        read = form.from_json_line if as_json else form.from_line
        given = read_records(source or _standard_input(), read)
    wanted = () if partition is None else (partition,)
    with connect(endpoint) as cluster:
        found = require_topic(cluster, topic)
        require_partitions(found, wanted)
        producer = Producer(cluster, topic, acks=ACKS[acks], codec=Codec[compression.upper()])
        spread = Spread(found)
        try:
            for records in given:
                producer.send(spread.assign(records))
        finally:
            _report(producer, topic, as_json=as_json)


def _check(
    values: tuple[str, ...],
    key: str | None,
    separator: str | None,
    *,
    is_null: bool,
    as_json: bool,
    as_base64: bool,
) -> None:
    if is_null and (values or separator is not None):
        raise UsageError("--null sends tombstones: give --key, or lines that are keys, but no values")
    if separator is not None and (key is not None or values or as_json or not separator):
        raise UsageError("--key-separator is for lines that hold a key and a value each")
    if as_json and not values and (key is not None) != is_null:
        raise UsageError("with --json the objects say what key or null value a record has")
    if as_base64 and not as_json:
        raise UsageError("--base64 is about keys and values in JSON: add --json")


def _report(producer: "Producer", topic: str, *, as_json: bool) -> None:
    total = sum(written.count for written in producer.written.values())
    if as_json:
        partitions = {
            str(partition): {"count": each.count, "first": each.first, "last": each.last}
            for partition, each in sorted(producer.written.items())
        }
        present.print_json({"topic": topic, "records": total, "partitions": partitions})
        return
    where = f" to partition {next(iter(producer.written))}" if len(producer.written) == 1 else ""
    click.echo(f"{present.count(total, 'record')} produced{where}", err=True)


def _standard_input() -> BufferedReader:
    if sys.stdin.isatty():
        click.echo("one record a line; ^D ends", err=True)
    stream = sys.stdin.buffer
    assert isinstance(stream, BufferedReader)
    return stream


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"--header takes NAME=VALUE, not {text!r}")
    return name, _encode(value)


def _encode(argument: str) -> bytes:
    """The very bytes that stood on the command line."""
    return argument.encode(errors="surrogateescape")

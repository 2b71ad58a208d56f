"""`holdfast log diff`: are all replicas of a topic equal, and where not."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import present
from holdfast.cli.admin_option import admin_options, find_admin
from holdfast.cli.record_format import to_field
from holdfast.cli.table_options import master_option
from holdfast.errors import (
    ConnectionFailed,
    NobodyToAsk,
    NotComparable,
    ReadingRefused,
    StoreFailed,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from holdfast.client.readings import NotExamined, Reading
    from holdfast.spark.examination import Damage
    from holdfast.spark.held import HeldReading
    from holdfast.spark.replica_diff import Difference

EQUAL, DIFFERING, NOT_EXAMINED = 0, 1, 3


@click.command()
@click.argument("topic", metavar="TOPIC")
@admin_options
@master_option
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line, for each finding and at the end."
)
@click.pass_context
def diff(ctx: click.Context, topic: str, data: Path, admin: str | None, master: str, as_json: bool) -> None:
    """Compare all replicas of TOPIC, byte by byte where they lie, as of one moment.

    Replicas are equal if they show the same table at the last stable offset. One may still hold what another was
    entitled to drop. Every key that differs is named with offsets and stores, and all damage with file and byte. Exit
    code 1 if anything was found, 3 if a replica could not be examined.
    """
    from holdfast.cli.spark_work import spark_work
    from holdfast.spark.replica_diff import compare
    from holdfast.spark.table import held_until

    held = _take(topic, data, admin)
    printer = _JsonLines() if as_json else _Prose()
    found = 0
    with held_until(held), spark_work("holdfast log diff", master) as work, work.doing(f"comparing {topic}"):
        for each in compare(work.session, held):
            found += 1
            printer.tell(topic, each)
    for missing in held.reading.not_examined:
        printer.tell(topic, missing)
    printer.conclude(held.reading, topic, found)
    ctx.exit(DIFFERING if found else NOT_EXAMINED if held.reading.not_examined else EQUAL)


def _take(topic: str, data: Path, admin: str | None) -> "HeldReading":
    from holdfast.client.readings import ReadingWanted
    from holdfast.spark.held import hold_reading

    try:
        address = find_admin(data, admin)
        return hold_reading(address, ReadingWanted(topics=[topic], all_replicas=True))
    except ConnectionFailed as failure:
        raise NobodyToAsk(str(failure)) from failure
    except UnknownTopicOrPartition as failure:
        raise NotComparable(str(failure).removeprefix("option topic: ")) from failure
    except (ReadingRefused, StoreFailed) as failure:
        raise NotComparable(str(failure)) from failure


class _Prose:
    """For people."""

    def tell(self, topic: str, found: "Difference | Damage | NotExamined") -> None:
        """One line."""
        click.echo(_describe(topic, found))

    def conclude(self, reading: "Reading", topic: str, found: int) -> None:
        """What was compared, and the verdict."""
        stores = sorted({replica.store for each in reading.partitions for replica in each.replicas})
        what = f"{topic}, {present.count(len(reading.partitions), 'partition')} on stores {_list(stores)}"
        if found:
            click.echo(f"{what}: {present.count(found, 'difference')}")
        else:
            ends = ", ".join(f"{each.partition}:{each.end}" for each in reading.partitions[:_ENDS_MAX])
            more = ", …" if len(reading.partitions) > _ENDS_MAX else ""
            click.echo(f"{what}: equal up to the last stable offsets {ends}{more}")


class _JsonLines:
    """For programs."""

    def tell(self, topic: str, found: "Difference | Damage | NotExamined") -> None:
        """One object on one line."""
        fields = asdict(found)
        if "key" in fields:
            fields |= {
                "topic": topic,
                "key": to_field(fields["key"]),
                "held": {str(store): offset for store, offset in fields["held"].items()},
            }
        self._print({"kind": _KINDS[type(found).__name__], **fields})

    def conclude(self, reading: "Reading", topic: str, found: int) -> None:
        """How far the comparison reached, and how much it found."""
        partitions = [
            {
                "partition": each.partition,
                "start": each.start,
                "last_stable": each.end,
                "stores": [replica.store for replica in each.replicas],
            }
            for each in reading.partitions
        ]
        self._print({"kind": "summary", "topic": topic, "differences": found, "partitions": partitions})

    def _print(self, fields: dict[str, Any]) -> None:
        click.echo(json.dumps(fields, ensure_ascii=False))


_ENDS_MAX = 10
_KINDS = {"Difference": "difference", "Damage": "damage", "NotExamined": "not-examined"}


def _describe(topic: str, found: "Difference | Damage | NotExamined") -> str:
    from holdfast.spark.examination import Damage
    from holdfast.spark.replica_diff import Difference

    place = f"{topic}:{found.partition}"
    if isinstance(found, Damage):
        return (
            f"{place}: store {found.store} is damaged: {found.path} at byte {found.position},"
            f" offset {found.offset}: {found.why}"
        )
    if not isinstance(found, Difference):
        return f"{place}: store {found.store} is not examined: {found.why}"
    name = f"offset {found.offset}" if found.key is None else f"key {present.printable(_shown(found.key))}"
    return f"{place}: {name}: {'; '.join(_facts(found))}"


def _facts(found: "Difference") -> Iterator[str]:
    if found.at_fault:
        newest = "deleted" if found.is_delete else "last written"
        lacking = "; ".join(f"store {store} has {_newest(found.held[store])}" for store in found.at_fault)
        yield f"{newest} at offset {found.offset}, but {lacking}"
    if found.conflict is not None:
        held = ", another on ".join(_stores(stores) for stores in found.versions)
        yield f"different records at offset {found.conflict}: one on {held}"


def _stores(numbers: Sequence[int]) -> str:
    return f"store{'s' if len(numbers) > 1 else ''} {_list(numbers)}"


def _newest(offset: int | None) -> str:
    return "nothing of it" if offset is None else f"offset {offset} as its newest"


def _shown(key: bytes) -> str:
    try:
        return repr(key.decode())
    except UnicodeDecodeError:
        return "0x" + key.hex()


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))

"""The options of `format("holdfast")`, read and checked before anything is asked of a broker."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from holdfast.client.cluster import parse_bootstrap
from holdfast.client.offsets import EARLIEST, LATEST, Isolation
from holdfast.errors import UsageError
from holdfast.spark.schema import COLUMNS
from holdfast.spark.store_options import STORE_OPTIONS, StoreOptions, parse_store_options

ALIASES: Final = {"kafka.bootstrap.servers": "bootstrap", "subscribe": "topic"}
"""What Spark's Kafka source calls the same thing."""

KNOWN: Final = (
    "bootstrap",
    "topic",
    "startingOffsets",
    "endingOffsets",
    "isolation",
    "columns",
    "minPartitions",
    "maxRecordsPerPartition",
    *STORE_OPTIONS,
)

Offsets = Literal["earliest", "latest"] | Mapping[str, Mapping[int, int]]
"""Of every partition alike, or by topic and partition; there EARLIEST and LATEST may stand for offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read, from where, and in how many pieces."""

    bootstrap: str
    """Empty where the stores are named instead."""
    topics: tuple[str, ...]
    starting: Offsets
    ending: Offsets
    isolation: Isolation
    columns: tuple[str, ...]
    partitions_min: int | None
    records_max: int | None
    stores: StoreOptions


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Reads the options, whatever the case of their names; a UsageError names the option that is wrong."""
    given = _by_name(options)
    stores = parse_store_options(given)
    needs_bootstrap = "bootstrap" in given or not stores.is_enough
    return ReadOptions(
        bootstrap=_bootstrap(_required(given, "bootstrap", "127.0.0.1:9092")) if needs_bootstrap else "",
        topics=_names(_required(given, "topic", "orders"), "topic"),
        starting=_offsets(given.get("startingOffsets", "earliest"), "startingOffsets", not_allowed="latest"),
        ending=_offsets(given.get("endingOffsets", "latest"), "endingOffsets", not_allowed="earliest"),
        isolation=_isolation(given.get("isolation", "read_committed")),
        columns=_columns(given.get("columns")),
        partitions_min=_count(given.get("minPartitions"), "minPartitions"),
        records_max=_count(given.get("maxRecordsPerPartition"), "maxRecordsPerPartition"),
        stores=stores,
    )


def _by_name(options: Mapping[str, str]) -> dict[str, str]:
    spelled = {name.lower(): name for name in KNOWN} | ALIASES
    given: dict[str, str] = {}
    for written, value in options.items():
        name = spelled.get(written.lower())
        if name is None:
            raise UsageError(
                f"option {written} is not known to format holdfast; "
                f"known are {', '.join(KNOWN)} and the aliases {', '.join(ALIASES)}"
            )
        if given.setdefault(name, value) != value:
            raise UsageError(f"option {name} is given twice, as {given[name]!r} and as {value!r}")
    return given


def _required(given: Mapping[str, str], name: str, example: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise UsageError(f'option {name} is missing; for example .option("{name}", "{example}")')
    return value


def _bootstrap(value: str) -> str:
    try:
        parse_bootstrap(value)
    except UsageError as error:
        raise UsageError(f"option bootstrap: {error}") from None
    return value


def _names(value: str, option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in value.split(",")))))
    if not names:
        raise UsageError(f"option {option}: no name in {value!r}")
    return names


def _columns(value: str | None) -> tuple[str, ...]:
    if value is None:
        return COLUMNS
    names = _names(value, "columns")
    for name in names:
        if name not in COLUMNS:
            raise UsageError(f"option columns: there is no column {name!r}, only {', '.join(COLUMNS)}")
    return names


def _isolation(value: str) -> Isolation:
    levels = {level.name.lower(): level for level in Isolation}
    level = levels.get(value.strip().lower())
    if level is None:
        raise UsageError(f"option isolation: {value!r} is not one of {', '.join(levels)}")
    return level


def _count(value: str | None, option: str) -> int | None:
    if value is None:
        return None
    if not (value.strip().isascii() and value.strip().isdigit() and int(value) > 0):
        raise UsageError(f"option {option}: {value!r} is not a whole number above 0")
    return int(value)


def _offsets(value: str, option: str, *, not_allowed: str) -> Offsets:
    word = value.strip().lower()
    if word == not_allowed:
        raise UsageError(f"option {option} cannot be {word}: such a batch would be empty")
    if word == "earliest":
        return "earliest"
    if word == "latest":
        return "latest"
    sentinel = {"earliest": EARLIEST, "latest": LATEST}[not_allowed]
    offsets = _offsets_by_partition(value, option)
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if offset < EARLIEST or offset == sentinel:
                raise UsageError(f"option {option}: {topic}-{partition} cannot be {offset}")
    return offsets


def _offsets_by_partition(value: str, option: str) -> dict[str, dict[int, int]]:
    try:
        parsed = json.loads(value)
        return {
            topic: {int(partition): _whole(offset) for partition, offset in partitions.items()}
            for topic, partitions in parsed.items()
        }
    except (ValueError, AttributeError):
        raise UsageError(
            f"option {option}: {value!r} is neither earliest nor latest, "
            'nor JSON with an offset for every partition, such as {"orders": {"0": 23, "1": 7}}'
        ) from None


def _whole(number: object) -> int:
    if type(number) is not int:
        raise ValueError(number)
    return number

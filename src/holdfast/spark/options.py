"""The options of `format("holdfast")`, read and checked before anything is asked of a broker."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from holdfast.client.endpoint import Endpoint
from holdfast.client.offsets import EARLIEST, LATEST, Isolation
from holdfast.errors import UsageError
from holdfast.spark.endpoint_options import (
    CLIENT_OPTIONS,
    ENDPOINT_OPTIONS,
    is_client_option,
    parse_endpoint,
)
from holdfast.spark.schema import COLUMNS, KEY_HASH, is_column
from holdfast.spark.store_options import STORE_OPTIONS, StoreOptions, parse_store_options

ALIASES: Final = {
    "kafka.bootstrap.servers": "bootstrap",
    "subscribe": "topic",
    "kafka.isolation.level": "isolation",
    "kafka.group.id": "group",
}
"""What Spark's Kafka source calls the same thing."""

KNOWN: Final = (
    *ENDPOINT_OPTIONS,
    "topic",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "isolation",
    "columns",
    "includeHeaders",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    *STORE_OPTIONS,
)
STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "group", "ranges")
_STREAM_ONLY: Final = {name.lower() for name in STREAM_ONLY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The first record at or after a time, of every partition alike or by topic and partition; else the end."""

    timestamp_ms: int | None = None
    by_partition: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


Offsets = Literal["earliest", "latest"] | Mapping[str, Mapping[int, int]] | Moment
"""Of every partition alike, or by topic and partition; there EARLIEST and LATEST may stand for offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read, from where, and in how many pieces."""

    endpoint: Endpoint
    """Without an address where the stores are named instead."""
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    """Chooses topics in place of their names."""
    starting: Offsets
    ending: Offsets
    isolation: Isolation
    columns: tuple[str, ...]
    partitions_min: int | None
    records_max: int | None
    stores: StoreOptions
    trigger_offsets_max: int | None = None
    trigger_bytes_max: int | None = None
    group: str | None = None
    ranges: bool = False
    """Rows name offsets of a partition, for tasks that read by themselves, in place of records."""

    @property
    def agent_only(self) -> str | None:
        """What the options ask for that only an agent can tell, if there is any of it."""
        if self.pattern is not None:
            return "subscribePattern"
        return (
            "a start or end by time"
            if any(isinstance(at, Moment) for at in (self.starting, self.ending))
            else None
        )


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Reads the options, whatever the case of their names; a UsageError names the option that is wrong."""
    given = _by_name(options, KNOWN)
    return _read(given, options, starting=_starting(given, "earliest", not_allowed="latest"))


def parse_stream_options(options: Mapping[str, str]) -> ReadOptions:
    """The same for a stream: it begins at the end unless told otherwise, as Spark's Kafka source does."""
    given = _by_name(options, KNOWN + STREAM_ONLY)
    for name in given:
        if name.startswith("ending"):
            raise UsageError(f"option {name}: a stream has no end")
        if name in STORE_OPTIONS:
            raise UsageError(f"option {name}: a stream is read through an agent")
    return replace(
        _read(given, options, starting=_starting(given, "latest", not_allowed=None)),
        trigger_offsets_max=_count(given.get("maxOffsetsPerTrigger"), "maxOffsetsPerTrigger"),
        trigger_bytes_max=_count(given.get("maxBytesPerTrigger"), "maxBytesPerTrigger"),
        group=given.get("group"),
        ranges=gives_ranges(options),
    )


def gives_ranges(options: Mapping[str, str]) -> bool:
    """Whether a stream gives ranges of offsets."""
    found = {name.lower(): value.strip().lower() for name, value in options.items()}.get("ranges", "false")
    if found not in {"true", "false"}:
        raise UsageError(f"option ranges: {found!r} is neither true nor false")
    return found == "true"


def schema_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a read; Spark asks for them before it says whether it is for a batch or a stream."""
    if any(ALIASES.get(name.lower(), name).lower() in _STREAM_ONLY for name in options):
        return parse_stream_options(options).columns
    try:
        return parse_options(options).columns
    except UsageError as for_batches:
        try:
            return parse_stream_options(options).columns
        except UsageError:
            raise for_batches from None


def _read(given: Mapping[str, str], options: Mapping[str, str], *, starting: Offsets) -> ReadOptions:
    if given.get("failOnDataLoss", "true").strip().lower() != "true":
        raise UsageError(
            "option failOnDataLoss: a range is read whole or not at all, so that it can only be true"
        )
    pattern = _pattern(given)
    stores = parse_store_options(given)
    needs_bootstrap = "bootstrap" in given or not stores.is_enough
    return ReadOptions(
        endpoint=parse_endpoint(given, options) if needs_bootstrap else Endpoint(""),
        topics=() if pattern else _names(_required(given, "topic", "orders"), "topic"),
        pattern=pattern,
        starting=starting,
        ending=_moment(given, "ending")
        or _offsets(given.get("endingOffsets", "latest"), "endingOffsets", not_allowed="earliest"),
        isolation=_isolation(given.get("isolation", "read_committed")),
        columns=_columns(given),
        partitions_min=_count(given.get("minPartitions"), "minPartitions"),
        records_max=_count(given.get("maxRecordsPerPartition"), "maxRecordsPerPartition"),
        stores=stores,
    )


def _by_name(options: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    spelled = {name.lower(): name for name in known}
    spelled |= {alias: name for alias, name in ALIASES.items() if name in known}
    given: dict[str, str] = {}
    for written, value in options.items():
        if is_client_option(written):
            continue
        name = spelled.get(written.lower())
        if name is None:
            if written.lower() in _STREAM_ONLY:
                raise UsageError(f"option {written} is for streams")
            raise UsageError(
                f"option {written} is not known to format holdfast; "
                f"known are {', '.join(known)}, the aliases {', '.join(ALIASES)}, and {CLIENT_OPTIONS}"
            )
        if given.setdefault(name, value) != value:
            raise UsageError(f"option {name} is given twice, as {given[name]!r} and as {value!r}")
    return given


def _required(given: Mapping[str, str], name: str, example: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise UsageError(f'option {name} is missing; for example .option("{name}", "{example}")')
    return value


def _names(value: str, option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in value.split(",")))))
    if not names:
        raise UsageError(f"option {option}: no name in {value!r}")
    return names


def _pattern(given: Mapping[str, str]) -> re.Pattern[str] | None:
    if "subscribePattern" not in given:
        return None
    if "topic" in given:
        raise UsageError("option subscribePattern chooses topics in place of option topic: give one of them")
    try:
        return re.compile(given["subscribePattern"])
    except re.error as error:
        raise UsageError(f"option subscribePattern: {given['subscribePattern']!r}: {error}") from None


def _starting(given: Mapping[str, str], default: str, *, not_allowed: str | None) -> Offsets:
    moment = _moment(given, "starting")
    return moment or _offsets(
        given.get("startingOffsets", default), "startingOffsets", not_allowed=not_allowed
    )


def _moment(given: Mapping[str, str], end: str) -> Moment | None:
    """By time, if one of the two options for that is given."""
    everywhere, each, offsets = f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"
    found = [name for name in (everywhere, each, offsets) if name in given]
    if len(found) > 1:
        raise UsageError(f"options {' and '.join(found)} say the same thing in two ways: give one of them")
    if everywhere in given:
        value = given[everywhere].strip()
        if not (value.isascii() and value.isdigit()):
            raise UsageError(f"option {everywhere}: {value!r} is not a number of milliseconds since 1970")
        return Moment(timestamp_ms=int(value))
    if each in given:
        return Moment(by_partition=_offsets_by_partition(given[each], each))
    return None


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    value = given.get("columns")
    if value is None:
        has_headers = given.get("includeHeaders", "true").strip().lower() != "false"
        return tuple(name for name in COLUMNS if name != "headers" or has_headers)
    names = _names(value, "columns")
    for name in names:
        if not is_column(name):
            known = ", ".join((*COLUMNS, KEY_HASH))
            raise UsageError(f"option columns: there is no column {name!r}, only {known}")
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


def _offsets(value: str, option: str, *, not_allowed: str | None) -> Offsets:
    word = value.strip().lower()
    if word == not_allowed:
        raise UsageError(f"option {option} cannot be {word}: such a batch would be empty")
    if word == "earliest":
        return "earliest"
    if word == "latest":
        return "latest"
    sentinel = {"earliest": EARLIEST, "latest": LATEST, None: None}[not_allowed]
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

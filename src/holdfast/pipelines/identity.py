"""Where a message says who it is: its id, its source, its tenant and its time. CloudEvents unless told otherwise."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from holdfast.pipelines.json_paths import find_in_json, json_steps
from holdfast.records.record import Record

SEPARATOR: Final = "\x1f"
"""Between a source and an id where they are one name. CloudEvents allows it in neither."""

_MILLISECOND: Final = timedelta(milliseconds=1)

INSTANT: Final = re.compile(
    r"((?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])-\d{2}-\d{2})[T ]"
    r"((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(\.\d{1,9})?(Z|[+-](?:(?:0\d|1[0-7]):[0-5]\d|18:00))",
    re.ASCII,
)
"""As Python, Java and RE2 all read it. What not all of them take for a time is left out: year 0, zones of 19 hours."""
EPOCH_MS: Final = re.compile(r"-?\d{1,15}", re.ASCII)


class Part(Enum):
    """The part of a record that a location points into."""

    HEADER = "header"
    KEY = "key"
    VALUE = "value"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """One place in a record. Text in it is UTF-8."""

    part: Part
    header: str = ""
    json_path: str = ""
    """`$` and steps such as `.order.lines[0]`; in the value alone."""

    def __str__(self) -> str:
        named = self.header if self.part is Part.HEADER else self.json_path
        return f"{self.part.value}:{named}" if named else self.part.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Where to find what reconciliation tells messages apart by. Source and id together are unique."""

    id: Location = Location(part=Part.HEADER, header="ce_id")
    """What tells a message from all others of its source."""
    source: Location | None = Location(part=Part.HEADER, header="ce_source")
    """What gives ids; `none` where ids are unique by themselves."""
    tenant: Location = Location(part=Part.HEADER, header="tenant")
    """Whose message it is."""
    time: Location = Location(part=Part.HEADER, header="ce_time")
    """When it happened: RFC 3339, or milliseconds since 1970. `timestamp` is the record's own."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By column: the header that carries it in everything that the pipeline writes."""
        return {
            "id": _header(self.id, "ce_id"),
            "source": _header(self.source, "ce_source"),
            "tenant": _header(self.tenant, "tenant"),
            "time": _header(self.time, "ce_time"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Identified:
    """What one record says of itself; None for what it does not say.

    A message whose source cannot be read has no id: with another source of the kind it might be taken for one.
    """

    id: str | None
    source: str | None
    tenant: str | None
    time_ms: int | None

    @property
    def is_whole(self) -> bool:
        """Whether it can be accounted for. Without a time of its own it has its record's."""
        return bool(self.id) and bool(self.tenant)


def parse_location(text: str, *, may_be_timestamp: bool = False) -> Location:
    """Reads `header:NAME`, `key`, `value:$.path`, and `timestamp` where it may be; ValueError tells what is wrong."""
    word, colon, rest = text.partition(":")
    if text == "key":
        return Location(part=Part.KEY)
    if text == "timestamp" and may_be_timestamp:
        return Location(part=Part.TIMESTAMP)
    if word == "header" and colon and rest:
        return Location(part=Part.HEADER, header=rest)
    if word == "value" and colon and rest:
        json_steps(rest)
        return Location(part=Part.VALUE, json_path=rest)
    known = "header:NAME, key or value:$.path" + (" or timestamp" if may_be_timestamp else "")
    raise ValueError(f"{text!r} is not a place in a record: {known}")


def identify(record: Record, identity: Identity) -> Identified:
    """What the record says of itself; the same as Spark's expressions in `frames` make of it."""
    single = _name(_find(record, identity.id))
    source = "" if identity.source is None else _name(_find(record, identity.source))
    time = None if identity.time.part is Part.TIMESTAMP else _find(record, identity.time)
    return Identified(
        id=None if source is None else single or None,
        source=source or None,
        tenant=_find(record, identity.tenant) or None,
        time_ms=parse_time_ms(time) if time else None,
    )


def parse_time_ms(text: str) -> int | None:
    """RFC 3339 with its zone, or milliseconds since 1970; None for anything else."""
    if EPOCH_MS.fullmatch(text):
        return int(text)
    found = INSTANT.fullmatch(text)
    if found is None:
        return None
    fraction = (found[3] or ".0")[1:7].ljust(6, "0")
    zone = "+00:00" if found[4] == "Z" else found[4]
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}.{fraction}{zone}")
    except ValueError:
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


def _name(text: str | None) -> str | None:
    return None if text is None or SEPARATOR in text else text


def _find(record: Record, location: Location) -> str | None:
    """The text there; empty for none, None for what cannot be read."""
    raw: bytes | None = None
    if location.part is Part.HEADER:
        # Of a header that stands there several times the last one counts, as Kafka's lastHeader has it.
        values = [value for key, value in record.headers if key == location.header]
        raw = values[-1] if values else None
    elif location.part is Part.KEY:
        raw = record.key
    elif location.part is Part.VALUE:
        return find_in_json(record.value, location.json_path)
    return _text(raw)


def _text(raw: bytes | None) -> str | None:
    try:
        return raw.decode() if raw else ""
    except UnicodeDecodeError:
        return None


def _header(location: Location | None, otherwise: str) -> str:
    return location.header if location is not None and location.part is Part.HEADER else otherwise

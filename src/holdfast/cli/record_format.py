"""Records as text: lines for people, JSON objects for programs, and back from JSON.

A key, value or header value is a string in JSON, or null. Bytes that are not UTF-8 stand as
`{"base64": "…"}`; with `--base64` all of them are plain base64 strings.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.cli.present import printable
from holdfast.errors import UsageError
from holdfast.records.record import Record

FIELDS = frozenset({"key", "value", "headers", "partition", "timestamp"})
PLACE_FIELDS = frozenset({"topic", "offset"})
"""What consume adds and produce passes over, so that the output of one is input of the other."""

TIMESTAMP_MS_MAX = 2**63 - 1
NULL_KEY = "-"
TOMBSTONE = "(tombstone)"

_DIM = "\x1b[2m"
_PLAIN = "\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRecord:
    """A record to produce, with the partition if one was asked for."""

    record: Record
    partition: int | None


def to_line(partition: int, record: Record, *, dim: bool = False) -> str:
    """Partition, offset, time, key, value and headers, for the eye; `dim` greys what frames the data."""
    key = NULL_KEY if record.key is None else _readable(record.key)
    value = TOMBSTONE if record.value is None else _readable(record.value)
    place = f"{partition}:{record.offset}  {to_time(record.timestamp_ms)}"
    headers = "".join(f"  {printable(name)}={_readable(field or b'')}" for name, field in record.headers)
    if dim:
        place, headers = f"{_DIM}{place}{_PLAIN}", f"{_DIM}{headers}{_PLAIN}" if headers else ""
    return f"{place}  {key}  {value}{headers}"


def to_json(topic: str, partition: int, record: Record, *, as_base64: bool) -> str:
    """One object on one line."""
    fields = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": to_field(record.key, as_base64),
        "value": to_field(record.value, as_base64),
        "headers": [[name, to_field(field, as_base64)] for name, field in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False)


def to_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC, as `--from` takes it; a dash where there is none or none that a calendar knows."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    if timestamp_ms < 0:
        return "-"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z"


def from_json(line: bytes, *, as_base64: bool) -> GivenRecord:
    """Reads what `to_json` writes; every field may be left out. UsageError says what is wrong with it."""
    try:
        fields = json.loads(line)
    except ValueError as failure:
        raise UsageError(f"not a JSON object: {failure}") from None
    if not isinstance(fields, dict):
        raise UsageError("not a JSON object")
    if unknown := fields.keys() - FIELDS - PLACE_FIELDS:
        raise UsageError(f"unknown field {min(unknown)!r}; known are: {', '.join(sorted(FIELDS))}")
    record = Record(
        key=_from_field("key", fields.get("key"), as_base64),
        value=_from_field("value", fields.get("value"), as_base64),
        headers=_from_headers(fields.get("headers"), as_base64),
        timestamp_ms=_number(fields, "timestamp", TIMESTAMP_MS_MAX, default=-1),
    )
    partition = _number(fields, "partition", 2**31 - 1, default=-1)
    return GivenRecord(record=record, partition=None if partition < 0 else partition)


def _readable(field: bytes) -> str:
    return printable(field.decode(errors="backslashreplace"))


def to_field(field: bytes | None, as_base64: bool = False) -> object:
    """A key or value in JSON."""
    if field is None:
        return None
    if as_base64:
        return base64.b64encode(field).decode()
    try:
        return field.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(field).decode()}


def _from_field(name: str, field: object, as_base64: bool) -> bytes | None:
    match field:
        case None:
            return None
        case str() if as_base64:
            return _from_base64(name, field)
        case str():
            return field.encode(errors="surrogatepass")
        case {"base64": str(encoded), **rest} if not rest:
            return _from_base64(name, encoded)
        case _:
            raise UsageError(f'{name} is not a string, null or {{"base64": "…"}}')


def _from_base64(name: str, encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as failure:
        raise UsageError(f"{name} is not base64: {failure}") from None


def _from_headers(given: object, as_base64: bool) -> tuple[tuple[str, bytes | None], ...]:
    """Pairs, since a header may repeat; or an object."""
    pairs: object = list(given.items()) if isinstance(given, dict) else given or []
    if not isinstance(pairs, list):
        raise UsageError("headers are not an object or a list of [name, value]")
    headers = []
    for pair in pairs:
        match pair:
            case (str(name), field) | [str(name), field]:
                headers.append((name, _from_field(f"header {name!r}", field, as_base64)))
            case _:
                raise UsageError("a header is not [name, value]")
    return tuple(headers)


def _number(fields: dict[str, object], name: str, largest: int, *, default: int) -> int:
    number = fields.get(name)
    if number is None:
        return default
    if isinstance(number, bool) or not isinstance(number, int) or not -1 <= number <= largest:
        raise UsageError(f"{name} is not a whole number from 0 to {largest}")
    return number

"""Rows of a query as text: cells of a table for the eye, JSON objects for programs."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from holdfast.cli.record_format import to_field


def number_names(names: Sequence[str]) -> list[str]:
    """Each of them once: `offset`, `offset_2`; an object has no two fields of one name."""
    taken = set(names)
    given: list[str] = []
    for name in names:
        number, new = 1, name
        while new in given or (number > 1 and new in taken):
            number += 1
            new = f"{name}_{number}"
        given.append(new)
    return given


def to_line(row: Sequence[Any], kind: StructType) -> str:
    """A row as a JSON object."""
    return _to_json(_plain(row, kind))


def to_cell(value: Any, kind: DataType) -> object:
    """Text where bytes are text, else hexadecimal; numbers as they are."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return "0x" + bytes(value).hex()
    if value is None or isinstance(value, int | float | str):
        return value
    plain = _plain(value, kind)
    return plain if isinstance(plain, str) else _to_json(plain).strip('"')


def _plain(value: Any, kind: DataType) -> Any:
    """Bytes are text or {"base64": …}, moments are in UTC, rows within rows are objects, and no number is none."""
    if isinstance(value, bytes | bytearray):
        return to_field(bytes(value))
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, datetime) and isinstance(kind, TimestampType):
        # PySpark gives it in the time of this machine, whatever the session's zone is, and does not say so.
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value if value is None else _inner(value, kind)


def _inner(value: Any, kind: DataType) -> Any:
    """The same of all that it is made of."""
    if isinstance(kind, StructType):
        names, kinds = number_names(kind.fieldNames()), [field.dataType for field in kind.fields]
        return dict(zip(names, map(_plain, value, kinds), strict=True))
    if isinstance(kind, ArrayType):
        return [_plain(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return {str(_plain(key, kind.keyType)): _plain(each, kind.valueType) for key, each in value.items()}
    return value


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_to_text)


def _to_text(value: object) -> str:
    """What JSON has no word for: dates and times as ISO 8601, decimals and the like as they are written."""
    return value.isoformat() if isinstance(value, date | time) else str(value)

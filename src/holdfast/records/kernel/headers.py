"""A record's headers found by how those of the record before lay: names are compared, not parsed.

Records of one producer mostly have the same headers in the same order, with values of the same lengths. What stands
before a value, the length of the name, the name and the length of the value, is then the same bytes again, and equal
bytes mean the same. A header that begins otherwise is parsed, and remembered in place of the other.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.hashing import same_bytes
from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.memory import Octets, load_word
from holdfast.records.kernel.said import FIELDS, IN_KEY, Places, is_named
from holdfast.records.kernel.varint import LOST, read_varint, skip_bytes

REMEMBERED: Final = 16
"""So many headers of a record; those behind them take the places of the first ones."""

_U = np.uint64


class Layout(NamedTuple):
    """By header, what was last seen in that place. It points into the data: another buffer needs an empty one."""

    start: NDArray[np.int64]
    """Where it began."""
    value_at: NDArray[np.int64]
    """How many bytes stand before its value; 0 for nothing seen."""
    value_bytes: NDArray[np.int64]
    field: NDArray[np.int64]
    """-1 for one that nobody asks for."""

    @classmethod
    def empty(cls) -> "Layout":
        """Nothing seen."""
        return cls._make(np.zeros((len(cls._fields), REMEMBERED), np.int64))


@inlined
def find_fields(
    data: Octets,
    position: Any,
    count: Any,
    end: Any,
    places: Places,
    layout: Layout,
    found: NDArray[np.int64],
) -> Any:
    """Where the headers end, LOST if they are broken. Sets starts and lengths of fields; the last header counts."""
    for number in range(count):
        slot = number & (REMEMBERED - 1)
        value_at, value_bytes = layout.value_at[slot], layout.value_bytes[slot]
        begin = position
        # A null has the length -1 and takes no bytes.
        position = begin + value_at + max(value_bytes, 0)
        if value_at == 0 or position > end or not _begins_alike(data, begin, layout.start[slot], value_at):
            position = _learn(data, begin, end, places, layout, slot)
            if position == LOST:
                break
            value_at, value_bytes = layout.value_at[slot], layout.value_bytes[slot]
        field = layout.field[slot]
        if field >= 0:
            found[0, field] = begin + value_at
            found[1, field] = value_bytes
    return position


@inlined
def forget_fields(places: Places, key_start: Any, key_bytes: Any, found: NDArray[np.int64]) -> None:
    """Before a record's headers are read: nothing is found but what its key says."""
    for field in range(FIELDS):
        found[1, field] = -1
        if places.parts[field] == IN_KEY:
            found[0, field] = key_start
            found[1, field] = key_bytes


@inlined
def _begins_alike(data: Octets, left: Any, right: Any, length: Any) -> bool:
    # What was remembered lies behind it where a batch is read once more.
    if length < 8 and max(left, right) + 8 <= len(data):
        unlike = load_word(data, left) ^ load_word(data, right)
        alike = unlike << _U(64 - 8 * length) == _U(0)
    else:
        alike = same_bytes(data, left, data, right, length)
    return alike


@compiled
def _learn(data: Octets, begin: int, end: int, places: Places, layout: Layout, slot: int) -> int:
    """Parses the header that begins here and remembers it; where it ends, or LOST."""
    name_bytes, name_start = read_varint(data, begin, end)
    if name_bytes < 0:
        return LOST
    value_bytes, value_start = read_varint(data, skip_bytes(name_start, name_bytes, end), end)
    after = skip_bytes(value_start, value_bytes, end)
    if after == LOST:
        return LOST
    field = -1
    for each in range(FIELDS):
        if field < 0 and is_named(data, name_start, name_bytes, places.headers, each):
            field = each
    layout.start[slot] = begin
    layout.value_at[slot] = value_start - begin
    layout.value_bytes[slot] = value_bytes
    layout.field[slot] = field
    return after

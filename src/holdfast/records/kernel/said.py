"""What records say of themselves, found in one pass over their headers: which message, whose, when, in which state.

Only what is plain is read here: text that is UTF-8, times as digits or RFC 3339. Whatever else there is, a record
without an id or a time of another shape, makes the kernel give up with ODD, and the caller reads those rows in a way
that knows every case. So both ways agree, and the plain one, which is all but always taken, is fast.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.hashing import hash_bytes, same_bytes
from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.layout import Columns
from holdfast.records.kernel.memory import Octets, copy_bytes, load_word
from holdfast.records.kernel.texts import BAD_TIME, is_name, is_utf8, read_time
from holdfast.records.kernel.varint import read_varint, skip_bytes

ID, SOURCE, TENANT, TIME, STATE, CANARY = range(6)
FIELDS: Final = 6
NOWHERE, IN_HEADER, IN_KEY = range(3)
"""Where a field stands."""

ODD: Final = -1
"""In place of a number: there is something that is not plain."""
TIME_MAX: Final = (1 << 63) - 1
"""Stands for no end, which is exclusive: whether a record of that very time counts is not told here."""
LEFT_OUT, COUNTS = range(2)
GUESSES: Final = 16
"""Headers of a record mostly stand where they stood in the one before: so many are guessed."""
TENANTS_MAX: Final = 1 << 12
"""In one scan; more are odd. The table has twice as many slots."""

_U = np.uint64


class Names(NamedTuple):
    """Short texts one behind the other: number n reaches from starts[n] to starts[n + 1]. Eight bytes follow."""

    octets: Octets
    starts: NDArray[np.int64]


class Places(NamedTuple):
    """Where each field stands, and which texts matter."""

    parts: NDArray[np.int8]
    headers: Names
    """By field; empty where it stands elsewhere."""
    states: Names
    """The end states, in the order of their numbers."""
    separator: int
    """The byte between a source and an id, and in neither."""


class Bounds(NamedTuple):
    """Which rows count, and how they are counted."""

    tenant: Octets
    any_tenant: bool
    start_ms: int
    end_ms: int
    window_ms: int
    stage: int
    """Of all rows; where the state is read, that of the first one."""
    unreadable: int
    """The stage of rows whose state is none of those."""


class Said(NamedTuple):
    """A row for each record that counts. Identities are laid out as Arrow does it."""

    tenant: NDArray[np.int32]
    stage: NDArray[np.int8]
    window: NDArray[np.int64]
    identity_offsets: NDArray[np.int32]
    identity_octets: Octets
    time_ms: NDArray[np.int64]
    arrived_ms: NDArray[np.int64]
    offset: NDArray[np.int64]


class Tenants(NamedTuple):
    """Where the tenants that were found stand in the data, and a table of them, full of -1, to find them again."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    table: NDArray[np.int32]


@compiled
def read_said(
    data: Octets,
    columns: Columns,
    places: Places,
    bounds: Bounds,
    secret: NDArray[np.uint64],
    found: NDArray[np.int64],
    guesses: NDArray[np.int64],
    tenants: Tenants,
    said: Said,
) -> tuple[int, int]:
    """(rows, tenants), rows ODD if anything is: fills `said` with the records that count, in order.

    `found` has two rows by field for starts and lengths, `guesses` is full of zeros: both are room to work in.
    """
    row = tenant_count = 0
    tenant = ODD
    window = np.int64(0)
    said.identity_offsets[0] = 0
    for record in range(len(columns.offset)):
        _find_fields(data, columns, record, places, found, guesses)
        arrived = columns.timestamp[record]
        time_ms = time_of(data, places, found, arrived)
        counts = counts_of(data, bounds, found, time_ms)
        if counts == LEFT_OUT:
            continue
        if counts == ODD:
            return ODD, 0
        tenant = _number_tenant(data, found, secret, tenants, tenant_count, tenant)
        end = _copy_identity(data, places, found, said, np.int64(said.identity_offsets[row]))
        if min(tenant, end) == ODD:
            return ODD, 0
        tenant_count = max(tenant_count, tenant + 1)
        # As in `floor_times`: a difference that does not fit, or is negative, is a large one.
        if _U(time_ms - window) >= _U(bounds.window_ms):
            window = time_ms - time_ms % bounds.window_ms
        said.identity_offsets[row + 1] = end
        said.tenant[row] = tenant
        said.stage[row] = stage_of(data, places, bounds, found)
        said.window[row] = window
        said.time_ms[row] = time_ms
        said.arrived_ms[row] = arrived
        said.offset[row] = columns.offset[record]
        row += 1
    return row, tenant_count


@inlined
def _find_fields(
    data: Octets, columns: Columns, record: Any, places: Places, found: NDArray[np.int64], guesses: Any
) -> None:
    """Starts and lengths; a length of -1 for what is null or not there. Of several headers the last one counts."""
    for field in range(FIELDS):
        found[1, field] = -1
        if places.parts[field] == IN_KEY:
            found[0, field] = columns.key_start[record]
            found[1, field] = columns.key_bytes[record]
    end = len(data)
    position = skip_bytes(int(columns.value_start[record]), int(columns.value_bytes[record]), end)
    _, position = read_varint(data, position, end)
    for number in range(columns.header_count[record]):
        name_bytes, name_start = read_varint(data, position, end)
        value_bytes, value_start = read_varint(data, name_start + name_bytes, end)
        position = skip_bytes(value_start, value_bytes, end)
        field = guesses[number & (GUESSES - 1)]
        if not is_named(data, name_start, name_bytes, places.headers, field):
            field = -1
            for each in range(FIELDS):
                if field < 0 and is_named(data, name_start, name_bytes, places.headers, each):
                    field = each
            if field >= 0:
                guesses[number & (GUESSES - 1)] = field
        if field >= 0:
            found[0, field] = value_start
            found[1, field] = value_bytes


@inlined
def is_named(data: Octets, start: Any, length: Any, names: Names, number: Any) -> bool:
    """Whether this is the text with this number, and not an empty one."""
    first = names.starts[number]
    named = length > 0 and length == names.starts[number + 1] - first
    if named:
        if length < 8 and start + 8 <= len(data):
            # The names have room behind them: eight bytes at once, of which those count that are the name's.
            unlike = load_word(data, start) ^ load_word(names.octets, first)
            named = unlike << _U(64 - 8 * length) == _U(0)
        else:
            named = same_bytes(data, start, names.octets, first, length)
    return named


@inlined
def time_of(data: Octets, places: Places, found: NDArray[np.int64], arrived: Any) -> Any:
    """What the record says, or else when it arrived; BAD_TIME for what is not plain."""
    time_ms = arrived
    if places.parts[TIME] != NOWHERE and found[1, TIME] > 0:
        time_ms = read_time(data, found[0, TIME], found[1, TIME])
    return time_ms


@inlined
def counts_of(data: Octets, bounds: Bounds, found: NDArray[np.int64], time_ms: Any) -> Any:
    """COUNTS, LEFT_OUT or ODD. A canary is nobody's message, whatever else it says."""
    counts = COUNTS
    if found[1, CANARY] >= 0:
        counts = LEFT_OUT
    elif time_ms in (BAD_TIME, TIME_MAX):
        counts = ODD
    elif time_ms < bounds.start_ms or time_ms >= bounds.end_ms:
        counts = LEFT_OUT
    elif not bounds.any_tenant and not _is_tenant(data, found, bounds.tenant):
        counts = LEFT_OUT if is_utf8(data, found[0, TENANT], max(found[1, TENANT], 0)) else ODD
    elif found[1, ID] <= 0:
        counts = ODD
    return counts


@inlined
def _is_tenant(data: Octets, found: NDArray[np.int64], tenant: Octets) -> bool:
    length = max(found[1, TENANT], 0)
    return length == len(tenant) and same_bytes(data, found[0, TENANT], tenant, 0, length)


@inlined
def stage_of(data: Octets, places: Places, bounds: Bounds, found: NDArray[np.int64]) -> Any:
    """The number of the stage, by the state that the record says."""
    stage = bounds.stage
    if places.parts[STATE] != NOWHERE:
        stage = bounds.unreadable
        for number in range(len(places.states.starts) - 1):
            if is_named(data, found[0, STATE], found[1, STATE], places.states, number):
                stage = bounds.stage + number
    return stage


@inlined
def _number_tenant(
    data: Octets,
    found: NDArray[np.int64],
    secret: NDArray[np.uint64],
    tenants: Tenants,
    count: Any,
    last: Any,
) -> Any:
    """The tenant's number: that of the row before, mostly, another known one, the next one, or ODD."""
    start, length = found[0, TENANT], max(found[1, TENANT], 0)
    if last != ODD and _is_known(data, start, length, tenants, last):
        return last
    return _look_up_tenant(data, start, length, secret, tenants, count)


@compiled
def _look_up_tenant(
    data: Octets, start: int, length: int, secret: NDArray[np.uint64], tenants: Tenants, count: int
) -> int:
    mask = len(tenants.table) - 1
    slot = np.intp(hash_bytes(data, start, length, secret) & _U(mask))
    while tenants.table[slot] >= 0:
        if _is_known(data, start, length, tenants, tenants.table[slot]):
            return int(tenants.table[slot])
        slot = (slot + 1) & mask
    if count >= len(tenants.starts) or not is_utf8(data, start, length):
        return ODD
    tenants.table[slot] = count
    tenants.starts[count], tenants.lengths[count] = start, length
    return count


@inlined
def _is_known(data: Octets, start: Any, length: Any, tenants: Tenants, number: Any) -> bool:
    return tenants.lengths[number] == length and same_bytes(data, tenants.starts[number], data, start, length)


@inlined
def _copy_identity(data: Octets, places: Places, found: NDArray[np.int64], said: Said, end: Any) -> Any:
    """Source, separator and id behind the last one; where they end, or ODD."""
    sound = True
    if places.parts[SOURCE] != NOWHERE:
        length = max(found[1, SOURCE], 0)
        sound = is_name(data, found[0, SOURCE], length, places.separator)
        copy_bytes(said.identity_octets, end, data, found[0, SOURCE], length)
        said.identity_octets[np.uintp(end + length)] = places.separator
        end += length + 1
    sound = sound and is_name(data, found[0, ID], found[1, ID], places.separator)
    copy_bytes(said.identity_octets, end, data, found[0, ID], found[1, ID])
    end += found[1, ID]
    return end if sound else np.int64(ODD)

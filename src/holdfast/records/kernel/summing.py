"""Records summed up, or picked, where they lie: in one pass over a batch, and without a copy of any identity.

Each batch is first read into rows of a few words each, which stay in the processor's cache, then added up, or looked
through. So a batch counts as a whole or not at all: where anything in it is not plain, or not sound, nothing of it was
added, and the caller reads it in the way that knows every case, and every fault.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.records.batch import CODEC_MASK, LOG_APPEND_TIME_BIT
from holdfast.records.kernel.book import FULL, ODD, UNKNOWN, Book, guess_tenant, number_group
from holdfast.records.kernel.fields import read_front, read_record
from holdfast.records.kernel.fingerprint import CHECK, COUNT, HIGH, LONG, LOW, bucket_of, lanes_of
from holdfast.records.kernel.hashing import hash_words, same_bytes
from holdfast.records.kernel.headers import Layout, find_fields, forget_fields
from holdfast.records.kernel.index import crc_fault
from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.layout import Columns, Wanted
from holdfast.records.kernel.memory import PREFETCH_BYTES, Octets, copy_bytes, prefetch
from holdfast.records.kernel.said import (
    COUNTS,
    FIELDS,
    ID,
    NOWHERE,
    SOURCE,
    STATE,
    TENANT,
    Bounds,
    Places,
    counts_of,
    stage_of,
    time_of,
)
from holdfast.records.kernel.texts import is_name

IDENTITY_BYTES_MAX: Final = 1 << 12
"""Of a source, the separator and an id, which are put together to be hashed; a longer one is odd."""

_U = np.uint64
_STATE_START, _STATE_BYTES, _STAGE, _WINDOW, _DAY = range(5)
_REMEMBERED: Final = 5


class Lateness(NamedTuple):
    """Which records are counted a second time, as late."""

    is_asked: bool
    day_ms: int
    late_ms: int
    """So long after the beginning of its day."""
    stage: int


class Question(NamedTuple):
    """What is asked of every batch."""

    places: Places
    bounds: Bounds
    lateness: Lateness
    secrets: NDArray[np.uint64]
    """Two of `make_secret`, one below the other."""
    bucket_bits: int


class Room(NamedTuple):
    """To work in: rows of one batch, two for a late record, and what is remembered from record to record."""

    block: NDArray[np.int32]
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    check: NDArray[np.uint64]
    place: NDArray[np.int64]
    """Where the record begins."""
    found: NDArray[np.int64]
    layout: Layout
    identity: Octets
    last: NDArray[np.int64]
    """What the record before it said, of the same batch."""

    @classmethod
    def make(cls, records: int) -> "Room":
        """For batches of so many records at most."""
        low, high, check = np.empty((3, 2 * records), np.uint64)
        return cls(
            block=np.empty(2 * records, np.int32),
            low=low,
            high=high,
            check=check,
            place=np.empty(2 * records, np.int64),
            found=np.zeros((2, FIELDS), np.int64),
            layout=Layout.empty(),
            identity=np.empty(IDENTITY_BYTES_MAX, np.uint8),
            last=np.zeros(_REMEMBERED, np.int64),
        )


@compiled
def sum_batches(
    source: Octets,
    data: Octets,
    batches: NDArray[Any],
    first: int,
    wanted: Wanted,
    question: Question,
    book: Book,
    room: Room,
) -> tuple[int, int]:
    """(batch, why): adds up all from the first one on; the one that it stopped before, and why, ODD or FULL.

    The room is one that was used for no other data.
    """
    for index in range(first, len(batches)):
        if wanted.batches[index]:
            rows = _read_sound(source, data, batches[index], wanted, question, book, room)
            if rows < 0:
                return index, rows
            for row in range(rows):
                low, high, check = room.low[row], room.high[row], room.check[row]
                block, bucket = np.uintp(room.block[row]), bucket_of(check, question.bucket_bits)
                book.cells[block, bucket, COUNT] += _U(1)
                book.cells[block, bucket, LOW] += low
                book.cells[block, bucket, HIGH] += high
                book.cells[block, bucket, CHECK] += check
    return len(batches), 0


@compiled
def pick_batches(
    source: Octets,
    data: Octets,
    batches: NDArray[Any],
    wanted: Wanted,
    question: Question,
    book: Book,
    cells: NDArray[np.bool_],
    room: Room,
    columns: Columns,
) -> tuple[int, int]:
    """(batch, rows): fills the columns with the records of marked cells; stops before a batch that is odd.

    `cells` has a flag by group and bucket. The book takes in nothing: a group that it does not know is not wanted.
    """
    picked = 0
    for index in range(len(batches)):
        batch = batches[index]
        before = picked
        if wanted.batches[index]:
            rows = _read_sound(source, data, batch, wanted, question, book, room)
            if rows < 0:
                return index, picked
            last = np.int64(-1)
            for row in range(rows):
                marked = cells[room.block[row], bucket_of(room.check[row], question.bucket_bits)]
                # A late record has two rows, and is one.
                if marked and room.place[row] != last:
                    last = room.place[row]
                    _report(data, batch, last, columns, picked)
                    picked += 1
        batch.row_count = picked - before
    return len(batches), picked


@compiled
def _report(data: Octets, batch: Any, place: int, columns: Columns, row: int) -> None:
    """As `scan_records` does it."""
    record = read_record(data, place, batch.payload_end, 0, np.int64(batch.last_offset_delta))
    is_fixed = batch.attributes & LOG_APPEND_TIME_BIT != 0
    columns.offset[row] = batch.base_offset + record.offset_delta
    columns.timestamp[row] = (
        batch.max_timestamp if is_fixed else batch.base_timestamp + record.timestamp_delta
    )
    columns.key_start[row] = record.key_start
    columns.key_bytes[row] = record.key_bytes
    columns.value_start[row] = record.value_start
    columns.value_bytes[row] = record.value_bytes
    columns.header_count[row] = record.header_count


@inlined
def _read_sound(
    source: Octets, data: Octets, batch: Any, wanted: Wanted, question: Question, book: Book, room: Room
) -> Any:
    """CRCs of compressed batches have been checked before they were inflated."""
    rows = ODD
    unchecked = wanted.check_crcs and batch.attributes & CODEC_MASK == 0
    if not unchecked or crc_fault(source, batch) == 0:
        rows = _read_batch(data, batch, wanted, question, book, room)
    return rows


@compiled
def _read_batch(data: Octets, batch: Any, wanted: Wanted, question: Question, book: Book, room: Room) -> int:
    """How many rows the batch has, ODD or FULL. What is broken is odd, too: who reads it otherwise will say how."""
    last_delta, payload_end = np.int64(batch.last_offset_delta), batch.payload_end
    is_fixed = batch.attributes & LOG_APPEND_TIME_BIT != 0
    room.last[_STATE_BYTES] = -2
    place = batch.payload_start
    delta_min = row = 0
    for _ in range(batch.record_count):
        prefetch(data, place + PREFETCH_BYTES)
        prefetch(data, place + PREFETCH_BYTES + 64)
        front = read_front(data, place, payload_end)
        begin, place = place, front.end
        # A header takes two bytes at least; where a field was lost, there is less than no room for any.
        headers_max = (front.end - front.headers_start) // 2
        if not (0 <= front.header_count <= headers_max and delta_min <= front.offset_delta <= last_delta):
            return ODD
        delta_min = front.offset_delta + 1
        forget_fields(question.places, front.key_start, front.key_bytes, room.found)
        end = find_fields(
            data,
            front.headers_start,
            front.header_count,
            front.end,
            question.places,
            room.layout,
            room.found,
        )
        if end != front.end:
            return ODD
        offset = batch.base_offset + front.offset_delta
        if wanted.start <= offset < wanted.end:
            arrived = batch.max_timestamp if is_fixed else batch.base_timestamp + front.timestamp_delta
            rows = _enter(data, begin, offset, arrived, question, book, room, row)
            if rows < 0:
                return rows
            row += rows
    return row if place == payload_end else ODD


@inlined
def _enter(
    data: Octets, begin: Any, offset: Any, arrived: Any, question: Question, book: Book, room: Room, row: Any
) -> Any:
    """How many rows of the record were written, ODD or FULL."""
    places, bounds, found, secret = question.places, question.bounds, room.found, question.secrets[0]
    time_ms = time_of(data, places, found, arrived)
    counts = counts_of(data, bounds, found, time_ms)
    if counts != COUNTS:
        return ODD if counts == ODD else 0
    tenant = guess_tenant(data, found[0, TENANT], max(found[1, TENANT], 0), secret, book)
    if tenant < 0:
        return 0 if tenant == UNKNOWN else tenant
    window = _floor(time_ms, bounds.window_ms, room.last, _WINDOW)
    group = number_group(tenant, _stage_of(data, places, bounds, found, room.last), window, secret, book)
    late = np.int64(UNKNOWN)
    if question.lateness.is_asked:
        day = _floor(time_ms, question.lateness.day_ms, room.last, _DAY)
        if arrived - day >= question.lateness.late_ms:
            late = number_group(tenant, np.int64(question.lateness.stage), window, secret, book)
    if min(group, late) == FULL:
        return FULL
    # An id or a source that cannot be read makes its record one without a name, which is counted once more, as that.
    if not _is_named(data, places, found):
        return ODD
    if max(group, late) == UNKNOWN:
        return 0
    low, high, length = _lanes(data, places, found, question.secrets, room.identity)
    check = hash_words(low, high, min(length, LONG), secret)
    rows = 0
    for each in (group, late):
        if each >= 0:
            at = np.uintp(row + rows)
            room.block[at], room.place[at] = each, begin
            room.low[at], room.high[at], room.check[at] = low, high, check
            book.first[each] = min(book.first[each], offset)
            book.last[each] = max(book.last[each], offset)
            rows += 1
    return ODD if length == ODD else rows


@inlined
def _stage_of(data: Octets, places: Places, bounds: Bounds, found: NDArray[np.int64], last: Any) -> Any:
    """Mostly a record says the same state as the one before."""
    start, length = found[0, STATE], found[1, STATE]
    if length != last[_STATE_BYTES] or not same_bytes(data, last[_STATE_START], data, start, length):
        last[_STATE_START], last[_STATE_BYTES] = start, length
        last[_STAGE] = stage_of(data, places, bounds, found)
    return last[_STAGE]


@inlined
def _floor(time_ms: Any, step_ms: Any, last: Any, which: Any) -> Any:
    """As in `floor_times`: a difference that does not fit, or is negative, is a large one."""
    if _U(time_ms - last[which]) >= _U(step_ms):
        last[which] = time_ms - time_ms % step_ms
    return last[which]


@inlined
def _lanes(
    data: Octets, places: Places, found: NDArray[np.int64], secrets: NDArray[np.uint64], identity: Octets
) -> Any:
    """(low, high, length) of source, separator and id; the length is ODD for what is too long."""
    start, length = found[0, ID], found[1, ID]
    sound = True
    low = high = _U(0)
    if places.parts[SOURCE] == NOWHERE:
        low, high = lanes_of(data, start, length, secrets)
    else:
        before = max(found[1, SOURCE], 0)
        sound = before + 1 + length <= len(identity)
        if sound:
            copy_bytes(identity, 0, data, found[0, SOURCE], before)
            identity[np.uintp(before)] = places.separator
            copy_bytes(identity, before + 1, data, start, length)
            length += before + 1
            low, high = lanes_of(identity, 0, length, secrets)
    return low, high, length if sound else np.int64(ODD)


@inlined
def _is_named(data: Octets, places: Places, found: NDArray[np.int64]) -> bool:
    """Whether id and source can be read; there need not be a source."""
    sound = is_name(data, found[0, ID], found[1, ID], places.separator)
    if places.parts[SOURCE] != NOWHERE:
        sound = sound and is_name(data, found[0, SOURCE], max(found[1, SOURCE], 0), places.separator)
    return sound

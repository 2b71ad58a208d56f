"""Keys of a buffer, newest first → which records a newer one shadows."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.records.batch import CODEC_MASK
from holdfast.records.kernel.fields import read_record
from holdfast.records.kernel.hashing import hash_bytes, same_bytes
from holdfast.records.kernel.index import crc_fault
from holdfast.records.kernel.jit import compiled
from holdfast.records.kernel.layout import Fault, Mask, Wanted
from holdfast.records.kernel.memory import (
    PREFETCH_BYTES,
    Octets,
    copy_bytes,
    load_int32,
    prefetch,
    store_int32,
)

BLOCK_ROWS: Final = 2048
"""Records whose keys are collected before they are looked up from the last to the first: they stay in the cache."""

FULL: Final = -1
"""In the place of a fault: there is no room for another key. Its length stands in the place of the batch."""

ARENA_BYTES_MAX: Final = 1 << 40
_POSITION_BITS = 40

_LEFT_OVER = int(Fault.LEFT_OVER)
_U = np.uint64
_EMPTY = np.uint64(0)
_POSITION_MASK = np.uint64(ARENA_BYTES_MAX - 1)
_TAG_SHIFT = np.uint64(_POSITION_BITS)
_HALF = np.uint64(32)

_SLOTS_MIN = 64
_ARENA_START = 8
"""No key lies at position 0, so that an empty slot is 0."""

_LENGTH_BYTES = 4
_SLOTS_AHEAD = 32
_KEYS_AHEAD = 12
"""How many keys ahead slots and the keys that they point to are fetched: memory takes as long as that."""

_KEYS = 0
_KEYS_MAX = 1
_SLOTS = 2
_ARENA_END = 3
"""Places in KeyTable.sizes."""


class KeyTable(NamedTuple):
    """Memory with an arena of keys that grows up from its bottom, and a table of slots that grows down from its top.

    A slot holds 24 bits of a key's hash above the key's position in the arena, where its length precedes its bytes.
    A table that grows is made anew from the arena, in place, so that growth never needs more than its result.
    """

    words: NDArray[np.uint64]
    octets: Octets
    """The same memory as `words`."""
    sizes: NDArray[np.int64]
    secret: NDArray[np.uint64]

    @classmethod
    def empty(cls, bytes_max: int, secret: NDArray[np.uint64]) -> "KeyTable":
        """A table in `bytes_max` bytes, of which the system gives only those that are touched."""
        words = np.empty(bytes_max // 8, np.uint64)
        words[-_SLOTS_MIN:] = _EMPTY
        sizes = np.array([0, _SLOTS_MIN // 4 * 3, _SLOTS_MIN, _ARENA_START], np.int64)
        return cls(words=words, octets=words.view(np.uint8), sizes=sizes, secret=secret)

    @property
    def keys(self) -> int:
        """How many it holds."""
        return int(self.sizes[_KEYS])

    @property
    def key_bytes_max(self) -> int:
        """The longest key that fits into it while it holds no other."""
        return (len(self.words) - _SLOTS_MIN) * 8 - _ARENA_START - _LENGTH_BYTES


class Share(NamedTuple):
    """The part of all keys that is looked at, divided among lanes: each has a table of its own."""

    part: int
    parts: int
    lanes: int


class Rows(NamedTuple):
    """Keys of a block of records: hashes, where they lie, whose they are, and the slots at which to look.

    Every lane has room for all of them; a place behind the last lane takes what is nobody's.
    """

    hashed: NDArray[np.uint64]
    key_start: NDArray[np.int64]
    key_bytes: NDArray[np.int32]
    row: NDArray[np.int32]
    slot: NDArray[np.uint64]
    counts: NDArray[np.int64]
    """How many keys each lane has, and one number more."""

    @classmethod
    def empty(cls, count: int, lanes: int = 1) -> "Rows":
        """Room for `count` keys in each lane, of which the system gives only what is touched."""
        places = count * lanes + 1
        return cls(
            hashed=np.empty(places, np.uint64),
            key_start=np.empty(places, np.int64),
            key_bytes=np.empty(places, np.int32),
            row=np.empty(places, np.int32),
            slot=np.empty(places, np.uint64),
            counts=np.zeros(lanes + 1, np.int64),
        )

    @property
    def room(self) -> int:
        """How many keys fit into a lane."""
        return (len(self.row) - 1) // (len(self.counts) - 1)


@compiled
def shadow_records(
    source: Octets,
    data: Octets,
    batches: NDArray[Any],
    wanted: Wanted,
    table: KeyTable,
    share: Share,
    insert: bool,
    rows: Rows,
    dead: Mask,
) -> tuple[int, int]:
    """(fault, batch): mark the records of the wanted batches whose keys the table holds; let it learn the others'.

    There is one lane, and `rows` has room for BLOCK_ROWS and for the largest batch. CRCs of compressed batches have
    been checked before.
    """
    end = len(batches)
    row_end = len(dead)
    while end > 0:
        start, row_start = _block_start(batches, wanted, end, row_end)
        block = dead[row_start:row_end]
        blocked = Wanted(wanted.batches[start:end], wanted.start, wanted.end, wanted.check_crcs)
        fault, at = collect_keys(source, data, batches[start:end], blocked, table.secret, share, rows, block)
        if fault != 0:
            return fault, start + at
        fault, at = shadow_keys(data, rows, 0, table, insert, block)
        if fault != 0:
            return fault, at
        end, row_end = start, row_start
    return 0, 0


@compiled
def collect_keys(
    source: Octets,
    data: Octets,
    batches: NDArray[Any],
    wanted: Wanted,
    secret: NDArray[np.uint64],
    share: Share,
    rows: Rows,
    dead: Mask,
) -> tuple[int, int]:
    """(fault, batch): write the keys of the wanted batches into the rows, each into its lane.

    `rows` has room for all of them. CRCs of compressed batches have been checked before.
    """
    for lane in range(share.lanes + 1):
        rows.counts[lane] = 0
    row = 0
    for index in range(len(batches)):
        batch = batches[index]
        if wanted.batches[index]:
            fault = 0
            if wanted.check_crcs and batch.attributes & CODEC_MASK == 0:
                fault = crc_fault(source, batch)
            if fault == 0:
                fault = _collect(data, batch, secret, share, rows, dead, row)
            if fault != 0:
                return fault, index
            row += batch.record_count
    return 0, 0


@compiled
def shadow_keys(
    data: Octets, rows: Rows, lane: int, table: KeyTable, insert: bool, dead: Mask
) -> tuple[int, int]:
    """(FULL or 0, bytes of the key): mark the records of a lane whose keys its table holds, last one first."""
    start = lane * ((len(rows.row) - 1) // (len(rows.counts) - 1))
    count = rows.counts[lane]
    while count > 0:
        table_start = len(table.words) - table.sizes[_SLOTS]
        slots, arena = table.words[table_start:], table.octets[: table_start << 3]
        count = _shadow(data, rows, start, count, slots, arena, table.sizes, insert, dead)
        if count > 0:
            key_bytes = np.int64(rows.key_bytes[start + count - 1])
            if not _make_room(table, key_bytes):
                return FULL, key_bytes  # type: ignore[return-value]
    return 0, 0


@compiled
def _block_start(batches: NDArray[Any], wanted: Wanted, end: int, row_end: int) -> tuple[int, int]:
    """(batch, row) with which a block begins that ends here: BLOCK_ROWS at most, or those of a single batch."""
    start = end
    rows: Any = 0
    while start > 0:
        more = np.int64(batches[start - 1].record_count) if wanted.batches[start - 1] else 0
        if rows > 0 and rows + more > BLOCK_ROWS:
            break
        rows += more
        start -= 1
    return start, row_end - rows


@compiled
def _collect(
    data: Octets,
    batch: Any,
    secret: NDArray[np.uint64],
    share: Share,
    rows: Rows,
    dead: Mask,
    row: int,
) -> int:
    """A fault, or 0: add the keys of a batch that belong to this part. Part 0 marks records without a key."""
    position = batch.payload_start
    payload_end = batch.payload_end
    last_delta = np.int64(batch.last_offset_delta)
    lanes = _U(share.lanes)
    first_lane, all_lanes = _U(share.part) * lanes, _U(share.parts) * lanes
    room = _U((len(rows.row) - 1) // share.lanes)
    delta_min = 0
    for _ in range(batch.record_count):
        prefetch(data, position + PREFETCH_BYTES)
        prefetch(data, position + PREFETCH_BYTES + 64)
        record = read_record(data, position, payload_end, delta_min, last_delta)
        if record.fault != 0:
            return record.fault
        position = record.end
        delta_min = record.offset_delta + 1
        if record.key_bytes >= 0:
            hashed = hash_bytes(data, record.key_start, record.key_bytes, secret)
            # What is not ours wraps around to a large number, and goes to the place behind all lanes.
            lane = min(((hashed >> _HALF) * all_lanes >> _HALF) - first_lane, lanes)
            at = lane * room + _U(rows.counts[lane])
            rows.hashed[at] = hashed
            rows.key_start[at] = record.key_start
            rows.key_bytes[at] = record.key_bytes
            rows.row[at] = row
            rows.counts[lane] += lane < lanes
        elif share.part == 0:
            dead[row] = True
        row += 1
    if position != payload_end:
        return _LEFT_OVER
    return 0


@compiled
def _shadow(
    data: Octets,
    rows: Rows,
    start: int,
    count: int,
    slots: NDArray[np.uint64],
    arena: Octets,
    sizes: NDArray[np.int64],
    insert: bool,
    dead: Mask,
) -> int:
    """Look `count` keys from `start` on up, last one first. How many are left when there is no room for a new one."""
    mask = _U(len(slots) - 1)
    keys = sizes[_KEYS]
    arena_end = sizes[_ARENA_END]
    left = 0
    for at in range(count + _SLOTS_AHEAD - 1, -1, -1):
        if at >= _SLOTS_AHEAD:
            prefetch(slots, np.int64(rows.hashed[np.uintp(start + at - _SLOTS_AHEAD)] & mask) << 3)
        ahead = at - _KEYS_AHEAD
        if 0 <= ahead < count:
            hashed = rows.hashed[np.uintp(start + ahead)]
            slot = hashed & mask
            while slots[slot] != _EMPTY and (slots[slot] ^ hashed) >> _TAG_SHIFT != _U(0):
                slot = (slot + _U(1)) & mask
            rows.slot[np.uintp(start + ahead)] = slot
            position = np.int64(slots[slot] & _POSITION_MASK)
            prefetch(arena, position)
            prefetch(arena, position + _LENGTH_BYTES + rows.key_bytes[np.uintp(start + ahead)] - 1)
            prefetch(data, rows.key_start[np.uintp(start + ahead)])
        if at >= count:
            continue
        hashed = rows.hashed[np.uintp(start + at)]
        key_start = rows.key_start[np.uintp(start + at)]
        key_bytes = np.int64(rows.key_bytes[np.uintp(start + at)])
        slot = rows.slot[np.uintp(start + at)]
        while slots[slot] != _EMPTY:
            position = np.int64(slots[slot] & _POSITION_MASK)
            if (
                (slots[slot] ^ hashed) >> _TAG_SHIFT == _U(0)
                and load_int32(arena, position) == key_bytes
                and same_bytes(arena, position + _LENGTH_BYTES, data, key_start, key_bytes)
            ):
                dead[np.uintp(rows.row[np.uintp(start + at)])] = True
                break
            slot = (slot + _U(1)) & mask
        if insert and slots[slot] == _EMPTY:
            if keys == sizes[_KEYS_MAX] or arena_end + _LENGTH_BYTES + key_bytes > len(arena):
                left = at + 1
                break
            slots[slot] = (hashed & ~_POSITION_MASK) | _U(arena_end)
            store_int32(arena, arena_end, key_bytes)
            copy_bytes(arena, arena_end + _LENGTH_BYTES, data, key_start, key_bytes)
            arena_end += _LENGTH_BYTES + key_bytes
            keys += 1
    sizes[_KEYS] = keys
    sizes[_ARENA_END] = arena_end
    return left


@compiled
def _make_room(table: KeyTable, key_bytes: Any) -> bool:
    """Let the table grow, or else be fuller than is good for it, until a new key fits. False if none does."""
    words, sizes = len(table.words), table.sizes
    slot_count = sizes[_SLOTS]
    arena_end = sizes[_ARENA_END] + _LENGTH_BYTES + key_bytes
    if arena_end > (words - slot_count) << 3:
        return False
    if sizes[_KEYS] < sizes[_KEYS_MAX]:
        return True
    # Four-fold while that takes little of the memory: it spares every second walk through the arena.
    grown = slot_count * (4 if 32 * slot_count <= words else 2)
    if arena_end <= (words - grown) << 3:
        _refill(table.words[words - grown :], table.octets, sizes[_ARENA_END], table.secret)
        sizes[_SLOTS] = grown
        sizes[_KEYS_MAX] = grown // 4 * 3
    else:
        sizes[_KEYS_MAX] = slot_count // 8 * 7
    return sizes[_KEYS] < sizes[_KEYS_MAX]


@compiled
def _refill(slots: NDArray[np.uint64], arena: Octets, arena_end: int, secret: NDArray[np.uint64]) -> None:
    """Make the slots anew from the arena: one walk fetches the slots that a second one, behind it, sets."""
    for slot in range(len(slots)):
        slots[slot] = _EMPTY
    mask = _U(len(slots) - 1)
    ahead = position = np.int64(_ARENA_START)
    lead = 0
    while position < arena_end:
        if ahead < arena_end:
            key_bytes = load_int32(arena, ahead)
            hashed = hash_bytes(arena, ahead + _LENGTH_BYTES, key_bytes, secret)
            prefetch(slots, np.int64(hashed & mask) << 3)
            ahead += _LENGTH_BYTES + key_bytes
            lead += 1
        if lead >= _SLOTS_AHEAD or ahead >= arena_end:
            key_bytes = load_int32(arena, position)
            hashed = hash_bytes(arena, position + _LENGTH_BYTES, key_bytes, secret)
            slot = hashed & mask
            while slots[slot] != _EMPTY:
                slot = (slot + _U(1)) & mask
            slots[slot] = (hashed & ~_POSITION_MASK) | _U(position)
            position += _LENGTH_BYTES + key_bytes

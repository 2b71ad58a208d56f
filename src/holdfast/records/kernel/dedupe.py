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

BLOCK_ROWS: Final = 4096
"""Records whose keys are collected before they are looked up, last one first: few enough to stay in the cache."""

FULL: Final = -1
"""In the place of a fault: no room for another key."""

SLOTS_MIN: Final = 64
POSITION_BITS: Final = 40
ARENA_START: Final = 8
"""No key lies at position 0, so that an empty slot is 0."""

_LEFT_OVER = int(Fault.LEFT_OVER)
_U = np.uint64
_POSITION_MASK = np.uint64((1 << POSITION_BITS) - 1)
_TAG_SHIFT = np.uint64(POSITION_BITS)
_HALF = np.uint64(32)
_LENGTH_BYTES = 4
_SLOTS_AHEAD = 32
_KEYS_AHEAD = 12


class KeyTable(NamedTuple):
    """One piece of memory with an arena of keys that grows up from its bottom and a table that grows down from its top.

    A slot is 24 bits of a key's hash above the key's position in the arena, where its length stands before its
    bytes. A table that grows is made anew from the arena in its own place, so that growth needs no more memory than its result.
    """

    words: NDArray[np.uint64]
    octets: Octets
    """The same memory as `words`."""
    sizes: NDArray[np.int64]
    """Keys, bytes of the arena, slots of the table, and the number of keys with which it is to grow."""
    secret: NDArray[np.uint64]


_KEYS = 0
_ARENA = 1
_SLOTS = 2
_KEYS_MAX = 3


class Share(NamedTuple):
    """The part of the hash space that an index is for."""

    part: int
    parts: int


class Rows(NamedTuple):
    """Keys that were collected from a block of batches."""

    hash: NDArray[np.uint64]
    key_start: NDArray[np.int64]
    key_bytes: NDArray[np.int32]
    row: NDArray[np.int32]
    slot: NDArray[np.uint64]

    @classmethod
    def empty(cls, count: int) -> "Rows":
        """Room for `count` keys."""
        return cls(
            hash=np.empty(count, np.uint64),
            key_start=np.empty(count, np.int64),
            key_bytes=np.empty(count, np.int32),
            row=np.empty(count, np.int32),
            slot=np.empty(count, np.uint64),
        )


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
    """(fault, batch): mark the wanted batches' records whose keys the table holds, and let it learn the others' keys.

    `rows` has room for BLOCK_ROWS, and for the largest batch. CRCs of compressed batches have been checked.
    """
    end = len(batches)
    row_end = len(dead)
    while end > 0:
        start, row_start = _block_start(batches, wanted, end, row_end)
        row = row_start
        count = 0
        for index in range(start, end):
            batch = batches[index]
            if wanted.batches[index]:
                fault = 0
                if wanted.check_crcs and batch.attributes & CODEC_MASK == 0:
                    fault = crc_fault(source, batch)
                if fault == 0:
                    count, fault = _collect(
                        data,
                        batch,
                        table.secret,
                        share,
                        rows,
                        count,
                        dead[row_start:row_end],
                        row - row_start,
                    )
                if fault != 0:
                    return fault, index
                row += batch.record_count
        while count > 0:
            table_start = len(table.words) - table.sizes[_SLOTS]
            slots, arena = table.words[table_start:], table.octets[: table_start << 3]
            count = _shadow(data, rows, count, slots, arena, table.sizes, insert, dead[row_start:row_end])
            if count > 0 and not _make_room(table, np.int64(rows.key_bytes[count - 1])):
                return FULL, start
        end, row_end = start, row_start
    return 0, 0


@compiled
def _block_start(batches: NDArray[Any], wanted: Wanted, end: int, row_end: int) -> tuple[int, int]:
    """(batch, row) with which the block begins that ends here: BLOCK_ROWS at most, or a single batch."""
    start = end
    rows = 0
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
    count: int,
    dead: Mask,
    row: int,
) -> tuple[int, int]:
    """(keys, fault): add this share's keys of a batch. Records without a key are marked with the first part."""
    position = batch.payload_start
    payload_end = batch.payload_end
    last_delta = np.int64(batch.last_offset_delta)
    delta_min = 0
    part = _U(share.part)
    parts = _U(share.parts)
    for _ in range(batch.record_count):
        prefetch(data, position + PREFETCH_BYTES)
        prefetch(data, position + PREFETCH_BYTES + 64)
        fault, position, _, delta, key_start, key_bytes, _, _, _ = read_record(
            data, position, payload_end, delta_min, last_delta
        )
        if fault != 0:
            return count, fault
        delta_min = delta + 1
        if key_bytes < 0:
            if share.part == 0:
                dead[row] = True
        else:
            hash_ = hash_bytes(data, key_start, key_bytes, secret)
            at = np.uintp(count)
            rows.hash[at] = hash_
            rows.key_start[at] = key_start
            rows.key_bytes[at] = key_bytes
            rows.row[at] = row
            if (hash_ >> _HALF) * parts >> _HALF == part:
                count += 1
        row += 1
    if position != payload_end:
        return count, _LEFT_OVER
    return count, 0


@compiled
def _shadow(
    data: Octets,
    rows: Rows,
    count: int,
    slots: NDArray[np.uint64],
    arena: Octets,
    sizes: NDArray[np.int64],
    insert: bool,
    dead: Mask,
) -> int:
    """Look the first `count` keys up, last one first. How many are left when there is no room for a new one."""
    mask = _U(len(slots) - 1)
    keys = sizes[_KEYS]
    arena_end = sizes[_ARENA]
    for at in range(count + _SLOTS_AHEAD - 1, -1, -1):
        if at >= _SLOTS_AHEAD:
            prefetch(slots, np.int64(rows.hash[np.uintp(at - _SLOTS_AHEAD)] & mask) << 3)
        ahead = at - _KEYS_AHEAD
        if 0 <= ahead < count:
            hash_ = rows.hash[np.uintp(ahead)]
            slot = hash_ & mask
            word = slots[slot]
            slot = (slot + _U((word != _U(0)) & ((word ^ hash_) >> _TAG_SHIFT != _U(0)))) & mask
            word = slots[slot]
            slot = (slot + _U((word != _U(0)) & ((word ^ hash_) >> _TAG_SHIFT != _U(0)))) & mask
            word = slots[slot]
            while word != _U(0) and (word ^ hash_) >> _TAG_SHIFT != _U(0):
                slot = (slot + _U(1)) & mask
                word = slots[slot]
            rows.slot[np.uintp(ahead)] = slot
            position = np.int64(word & _POSITION_MASK)
            prefetch(arena, position)
            prefetch(arena, position + 3 + np.int64(rows.key_bytes[np.uintp(ahead)]))
        if at >= count:
            continue
        hash_ = rows.hash[np.uintp(at)]
        key_start = rows.key_start[np.uintp(at)]
        key_bytes = np.int64(rows.key_bytes[np.uintp(at)])
        slot = rows.slot[np.uintp(at)]
        word = slots[slot]
        while word != _U(0):
            if (word ^ hash_) >> _TAG_SHIFT == _U(0):
                position = np.int64(word & _POSITION_MASK)
                if load_int32(arena, position) == key_bytes and same_bytes(
                    arena, position + _LENGTH_BYTES, data, key_start, key_bytes
                ):
                    dead[np.uintp(rows.row[np.uintp(at)])] = True
                    break
            slot = (slot + _U(1)) & mask
            word = slots[slot]
        if word == _U(0) and insert:
            if keys == sizes[_KEYS_MAX] or arena_end + _LENGTH_BYTES + key_bytes > len(arena):
                sizes[_KEYS] = keys
                sizes[_ARENA] = arena_end
                return at + 1
            store_int32(arena, arena_end, key_bytes)
            copy_bytes(arena, arena_end + _LENGTH_BYTES, data, key_start, key_bytes)
            slots[slot] = (hash_ & ~_POSITION_MASK) | _U(arena_end)
            arena_end += _LENGTH_BYTES + key_bytes
            keys += 1
    sizes[_KEYS] = keys
    sizes[_ARENA] = arena_end
    return 0


@compiled
def _make_room(table: KeyTable, key_bytes: int) -> bool:
    """Let the table grow, or be filled more than is good for it, until another key fits. False if none does."""
    sizes = table.sizes
    slot_count = sizes[_SLOTS]
    arena_end = sizes[_ARENA] + _LENGTH_BYTES + key_bytes
    if arena_end > (len(table.words) - slot_count) << 3:
        return False
    if sizes[_KEYS] < sizes[_KEYS_MAX]:
        return True
    if arena_end <= (len(table.words) - 2 * slot_count) << 3:
        sizes[_SLOTS] = 2 * slot_count
        sizes[_KEYS_MAX] = 2 * slot_count // 4 * 3
        _refill(table.words[len(table.words) - 2 * slot_count :], table.octets, sizes[_ARENA], table.secret)
        return True
    sizes[_KEYS_MAX] = slot_count // 8 * 7
    return sizes[_KEYS] < sizes[_KEYS_MAX]


@compiled
def _refill(slots: NDArray[np.uint64], arena: Octets, arena_end: int, secret: NDArray[np.uint64]) -> None:
    """Make the table anew from the keys in the arena, with one walk some keys ahead of the other."""
    for slot in range(len(slots)):
        slots[slot] = _U(0)
    mask = _U(len(slots) - 1)
    ahead = position = np.int64(ARENA_START)
    lead = 0
    while position < arena_end:
        if ahead < arena_end:
            key_bytes = load_int32(arena, ahead)
            hash_ = hash_bytes(arena, ahead + _LENGTH_BYTES, key_bytes, secret)
            prefetch(slots, np.int64(hash_ & mask) << 3)
            ahead += _LENGTH_BYTES + key_bytes
            lead += 1
            if lead < _SLOTS_AHEAD and ahead < arena_end:
                continue
        key_bytes = load_int32(arena, position)
        hash_ = hash_bytes(arena, position + _LENGTH_BYTES, key_bytes, secret)
        slot = hash_ & mask
        while slots[slot] != _U(0):
            slot = (slot + _U(1)) & mask
        slots[slot] = (hash_ & ~_POSITION_MASK) | _U(position)
        position += _LENGTH_BYTES + key_bytes

"""Table of batches → where each record's fields lie."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.records.batch import CODEC_MASK, LOG_APPEND_TIME_BIT, RECORD_BYTES_MIN
from holdfast.records.kernel.index import crc_fault
from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.layout import Columns, Fault, Wanted
from holdfast.records.kernel.memory import PREFETCH_BYTES, Octets, prefetch
from holdfast.records.kernel.varint import LOST, read_varint, skip_bytes

Slices: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Starts and lengths."""

_COUNT = int(Fault.COUNT)
_RECORD_LENGTH = int(Fault.RECORD_LENGTH)
_RECORD_OFFSET = int(Fault.RECORD_OFFSET)
_RECORD_FIELDS = int(Fault.RECORD_FIELDS)
_LEFT_OVER = int(Fault.LEFT_OVER)


class RecordFront(NamedTuple):
    """A record's fields before its headers; an end of 0 for an impossible length."""

    end: int
    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_bytes: int
    value_start: int
    value_bytes: int
    header_count: int
    headers_start: int


class RecordFields(NamedTuple):
    """Where one record ends and its fields lie, or what is wrong with it."""

    fault: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_bytes: int
    value_start: int
    value_bytes: int
    header_count: int


@compiled
def count_records(batches: NDArray[Any], wanted: Wanted) -> tuple[int, int, int]:
    """(records, fault, batch): how many the wanted batches declare, if their bytes can hold as many."""
    records = 0
    for index in range(len(batches)):
        batch = batches[index]
        if wanted.batches[index]:
            count = int(batch.record_count)
            if count * RECORD_BYTES_MIN > batch.payload_end - batch.payload_start:
                return records, _COUNT, index
            records += count
    return records, 0, 0


@compiled
def scan_records(
    source: Octets, data: Octets, batches: NDArray[Any], wanted: Wanted, columns: Columns
) -> tuple[int, int, int]:
    """(rows, fault, batch): fill the columns with the wanted records, in the order of the buffer.

    CRCs of compressed batches have been checked before they were inflated.
    """
    row = 0
    for index in range(len(batches)):
        batch = batches[index]
        first_row = row
        if wanted.batches[index]:
            fault = 0
            if wanted.check_crcs and batch.attributes & CODEC_MASK == 0:
                fault = crc_fault(source, batch)
            if fault == 0:
                row, fault = _scan_batch(data, batch, wanted.start, wanted.end, columns, row)
            if fault != 0:
                return row, fault, index
        batch.row_count = row - first_row
    return row, 0, 0


@compiled
def _scan_batch(
    data: Octets, batch: Any, start: int, end: int, columns: Columns, row: int
) -> tuple[int, int]:
    position = batch.payload_start
    payload_end = batch.payload_end
    base_offset = batch.base_offset
    last_delta = np.int64(batch.last_offset_delta)
    base_timestamp = batch.base_timestamp
    fixed_time = batch.attributes & LOG_APPEND_TIME_BIT != 0
    delta_min = 0
    for _ in range(batch.record_count):
        prefetch(data, position + PREFETCH_BYTES)
        prefetch(data, position + PREFETCH_BYTES + 64)
        record = read_record(data, position, payload_end, delta_min, last_delta)
        if record.fault != 0:
            return row, record.fault
        position = record.end
        delta_min = record.offset_delta + 1
        offset = base_offset + record.offset_delta
        at = np.uintp(row)
        columns.offset[at] = offset
        columns.timestamp[at] = batch.max_timestamp if fixed_time else base_timestamp + record.timestamp_delta
        columns.key_start[at] = record.key_start
        columns.key_bytes[at] = record.key_bytes
        columns.value_start[at] = record.value_start
        columns.value_bytes[at] = record.value_bytes
        columns.header_count[at] = record.header_count
        if start <= offset < end:
            row += 1
    if position != payload_end:
        return row, _LEFT_OVER
    return row, 0


@inlined
def read_front(data: Octets, position: int, payload_end: int) -> RecordFront:
    """The record at `position` as far as its headers, which begin behind it, LOST if any field is broken."""
    length, position = read_varint(data, position, payload_end)
    end = position + length
    if length < RECORD_BYTES_MIN - 1 or length > payload_end - position:
        # Then nothing is read of what follows.
        end = 0
    timestamp_delta, position = read_varint(data, position + 1, end)
    offset_delta, position = read_varint(data, position, end)
    key_bytes, key_start = read_varint(data, position, end)
    position = skip_bytes(key_start, key_bytes, end)
    value_bytes, value_start = read_varint(data, position, end)
    position = skip_bytes(value_start, value_bytes, end)
    header_count, position = read_varint(data, position, end)
    return RecordFront(
        end,
        timestamp_delta,
        offset_delta,
        key_start,
        key_bytes,
        value_start,
        value_bytes,
        header_count,
        position,
    )


@inlined
def read_record(
    data: Octets, position: int, payload_end: int, delta_min: int, last_delta: Any
) -> RecordFields:
    """The record at `position`; without a fault it ends at or before `payload_end`, and its fields within it."""
    front = read_front(data, position, payload_end)
    position = front.headers_start
    if front.header_count != 0:
        position = _skip_headers(data, position, front.header_count, front.end)
    fault = 0
    if front.end == 0:
        fault = _RECORD_LENGTH
    elif front.offset_delta < delta_min or front.offset_delta > last_delta:
        fault = _RECORD_OFFSET
    elif position != front.end:
        fault = _RECORD_FIELDS
    return RecordFields(
        fault,
        front.end,
        front.timestamp_delta,
        front.offset_delta,
        front.key_start,
        front.key_bytes,
        front.value_start,
        front.value_bytes,
        front.header_count,
    )


@compiled
def _skip_headers(data: Octets, position: int, count: int, end: int) -> int:
    if count < 0 or position > end or count > (end - position) // 2:
        return LOST
    for _ in range(count):
        length, position = read_varint(data, position, end)
        if length < 0:
            return LOST
        position = skip_bytes(position, length, end)
        length, position = read_varint(data, position, end)
        position = skip_bytes(position, length, end)
    return position


@compiled
def scan_headers(data: Octets, columns: Columns, names: Slices, values: Slices) -> None:
    """Fill in the slices of all record headers, in order, of records that `scan_records` has checked."""
    name_start, name_bytes = names
    value_start, value_bytes = values
    header = 0
    for row in range(len(columns.header_count)):
        position = skip_bytes(int(columns.value_start[row]), int(columns.value_bytes[row]), len(data))
        _, position = read_varint(data, position, len(data))
        for _ in range(columns.header_count[row]):
            length, position = read_varint(data, position, len(data))
            name_start[header] = position
            name_bytes[header] = length
            length, position = read_varint(data, position + length, len(data))
            value_start[header] = position
            value_bytes[header] = length
            position = skip_bytes(position, length, len(data))
            header += 1

"""The records that a mask keeps → new batches, at the same offsets."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_STARTS_AT,
    LOG_APPEND_TIME_BIT,
    MAX_TIMESTAMP_AT,
    RECORD_BYTES_MIN,
)
from holdfast.records.kernel.crc import crc32c
from holdfast.records.kernel.index import crc_fault
from holdfast.records.kernel.jit import compiled
from holdfast.records.kernel.layout import Fault, Keep, Mask
from holdfast.records.kernel.memory import (
    PREFETCH_BYTES,
    Octets,
    copy_bytes,
    load_int16,
    prefetch,
    store_int16,
    store_int32,
    store_int64,
)
from holdfast.records.kernel.varint import read_varint

_RECORD_LENGTH = int(Fault.RECORD_LENGTH)
_LEFT_OVER = int(Fault.LEFT_OVER)
_INT64_MIN = -(2**63)
_COUNT_AT = 57


@compiled
def count_kept(batches: NDArray[Any], records: Mask) -> None:
    """Set each data batch's row_count to how many of its records the mask keeps."""
    row = 0
    for index in range(len(batches)):
        batch = batches[index]
        kept = 0
        if batch.attributes & CONTROL_BIT == 0:
            for _ in range(batch.record_count):
                kept += records[row]
                row += 1
        batch.row_count = kept


@compiled
def select_records(
    source: Octets, data: Octets, batches: NDArray[Any], keep: Keep, output: Octets
) -> tuple[int, int, int]:
    """(bytes written, fault, batch). Sets each batch's size_bytes to what it takes in the output, perhaps 0.

    A batch that stays whole is copied as it is, and so is a control batch; attributes that were changed in the
    table are changed in the copy. `output` has room for every batch with its payload inflated. CRCs of inflated batches
    have been checked before.
    """
    row = 0
    written = 0
    for index in range(len(batches)):
        batch = batches[index]
        is_control = batch.attributes & CONTROL_BIT != 0
        is_whole = is_control or (batch.row_count == batch.record_count and batch.record_count > 0)
        was_inflated = not is_whole and batch.row_count > 0 and batch.attributes & CODEC_MASK != 0
        is_looked_at = keep.check_dropped or is_whole or batch.row_count > 0 or keep.empties[index]
        if keep.check_crcs and is_looked_at and not was_inflated:
            fault = crc_fault(source, batch)
            if fault != 0:
                return written, fault, index
        if is_whole:
            copy_bytes(output, written, source, batch.position, batch.size_bytes)
            if batch.attributes != load_int16(source, batch.position + ATTRIBUTES_AT):
                _seal(batch, output, written)
        elif batch.row_count > 0:
            copy_bytes(output, written, source, batch.position, HEADER_BYTES)
            fault = _rebuild(data, batch, keep.records[row : row + batch.record_count], output, written)
            if fault != 0:
                return written, fault, index
        elif keep.empties[index]:
            copy_bytes(output, written, source, batch.position, HEADER_BYTES)
            batch.attributes &= ~(CODEC_MASK | DELETE_HORIZON_BIT)
            batch.size_bytes = HEADER_BYTES
            _seal(batch, output, written)
        else:
            batch.size_bytes = 0
        written += batch.size_bytes
        if not is_control:
            row += batch.record_count
    return written, 0, 0


@compiled
def _rebuild(data: Octets, batch: Any, keep: Mask, output: Octets, start: int) -> int:
    """Copy runs of kept records; the deltas in them still hold, for base offset and base timestamp stay."""
    payload_end = batch.payload_end
    position = batch.payload_start
    written = start + HEADER_BYTES
    run_start = position
    delta_max = _INT64_MIN
    for row in range(len(keep)):
        record_start = position
        prefetch(data, position + PREFETCH_BYTES)
        prefetch(data, position + PREFETCH_BYTES + 64)
        length, position = read_varint(data, position, payload_end)
        if length < RECORD_BYTES_MIN - 1 or length > payload_end - position:
            return _RECORD_LENGTH
        if keep[row]:
            delta, _ = read_varint(data, position + 1, position + length)
            delta_max = max(delta_max, delta)
        elif run_start < record_start:
            copy_bytes(output, written, data, run_start, record_start - run_start)
            written += record_start - run_start
        position += length
        if not keep[row]:
            run_start = position
    if position != payload_end:
        return _LEFT_OVER
    copy_bytes(output, written, data, run_start, position - run_start)
    written += position - run_start
    if batch.attributes & LOG_APPEND_TIME_BIT == 0:
        batch.max_timestamp = batch.base_timestamp + delta_max
        store_int64(output, start + MAX_TIMESTAMP_AT, batch.max_timestamp)
    batch.attributes &= ~CODEC_MASK
    batch.size_bytes = written - start
    _seal(batch, output, start)
    return 0


@compiled
def _seal(batch: Any, output: Octets, start: int) -> None:
    store_int32(output, start + 8, batch.size_bytes - LENGTH_STARTS_AT)
    store_int16(output, start + ATTRIBUTES_AT, np.int64(batch.attributes))
    store_int32(output, start + _COUNT_AT, np.int64(batch.row_count))
    store_int32(output, start + CRC_AT, crc32c(output, start + ATTRIBUTES_AT, start + batch.size_bytes))

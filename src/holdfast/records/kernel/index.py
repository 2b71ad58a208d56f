"""Buffer → table of batches."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_STARTS_AT,
    MAGIC_AT,
    RECORD_BYTES_MIN,
)
from holdfast.records.batch import MAGIC as MAGIC_V2
from holdfast.records.kernel.crc import crc32c
from holdfast.records.kernel.jit import compiled
from holdfast.records.kernel.layout import Fault
from holdfast.records.kernel.memory import Octets, load_int16, load_int32, load_int64

_SHORT_HEADER = int(Fault.SHORT_HEADER)
_MAGIC = int(Fault.MAGIC)
_SIZE = int(Fault.SIZE)
_CODEC = int(Fault.CODEC)
_OFFSETS = int(Fault.OFFSETS)
_COUNT = int(Fault.COUNT)
_CRC = int(Fault.CRC)
_ZSTD = 4
_OFFSET_MAX = 2**63 - 1


@compiled
def count_batches(buffer: Octets) -> tuple[int, int, int]:
    """(batches, fault, position of the fault): lengths and magic only, to size the table."""
    position = 0
    count = 0
    while position < len(buffer):
        if len(buffer) - position < HEADER_BYTES:
            return count, _SHORT_HEADER, position
        if buffer[position + MAGIC_AT] != MAGIC_V2:
            return count, _MAGIC, position
        size_bytes = load_int32(buffer, position + 8) + LENGTH_STARTS_AT
        if size_bytes < HEADER_BYTES or size_bytes > len(buffer) - position:
            return count, _SIZE, position
        position += size_bytes
        count += 1
    return count, 0, 0


@compiled
def index_batches(buffer: Octets, batches: NDArray[Any]) -> tuple[int, int]:
    """(fault, position): fill the table. Relies on `count_batches` having walked the same buffer.

    Fields stand where `batch.HEADER` has them.
    """
    position = 0
    for index in range(len(batches)):
        batch = batches[index]
        size_bytes = load_int32(buffer, position + 8) + LENGTH_STARTS_AT
        batch.position = position
        batch.size_bytes = size_bytes
        batch.payload_start = position + HEADER_BYTES
        batch.payload_end = position + size_bytes
        batch.base_offset = load_int64(buffer, position)
        batch.attributes = load_int16(buffer, position + ATTRIBUTES_AT)
        batch.last_offset_delta = load_int32(buffer, position + 23)
        batch.base_timestamp = load_int64(buffer, position + 27)
        batch.max_timestamp = load_int64(buffer, position + 35)
        batch.producer_id = load_int64(buffer, position + 43)
        batch.producer_epoch = load_int16(buffer, position + 51)
        batch.base_sequence = load_int32(buffer, position + 53)
        batch.record_count = load_int32(buffer, position + 57)
        batch.row_count = 0
        fault = _header_fault(batch)
        if fault != 0:
            return fault, position
        position += size_bytes
    return 0, 0


@compiled
def crc_fault(buffer: Octets, batch: Any) -> int:
    """Whether the bytes fit the CRC. Asked right before a batch is read, so that memory is read once."""
    declared = load_int32(buffer, batch.position + CRC_AT) & 0xFFFFFFFF
    found = crc32c(buffer, batch.position + ATTRIBUTES_AT, batch.position + batch.size_bytes)
    return 0 if found == declared else _CRC


@compiled
def _header_fault(batch: Any) -> int:
    """What `batch.validate` checks too, save the CRC."""
    codec = batch.attributes & CODEC_MASK
    last_delta = np.int64(batch.last_offset_delta)
    count = np.int64(batch.record_count)
    payload_bytes = batch.size_bytes - HEADER_BYTES
    if codec > _ZSTD:
        return _CODEC
    if batch.base_offset < 0 or last_delta < 0 or last_delta > _OFFSET_MAX - batch.base_offset - 1:
        return _OFFSETS
    if count < 0 or count > last_delta + 1 or (count == 0) != (payload_bytes == 0):
        return _COUNT
    if codec == 0 and count * RECORD_BYTES_MIN > payload_bytes:
        return _COUNT
    return 0

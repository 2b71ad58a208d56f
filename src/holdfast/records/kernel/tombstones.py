"""Which records of a buffer are tombstones, and at which offsets."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.records.batch import CODEC_MASK
from holdfast.records.codecs import INFLATED_BYTES_MAX, INFLATED_TOTAL_BYTES_MAX
from holdfast.records.kernel.fields import read_record
from holdfast.records.kernel.index import crc_fault
from holdfast.records.kernel.jit import compiled
from holdfast.records.kernel.layout import Fault, Mask, Wanted
from holdfast.records.kernel.load import Batches, raise_fault
from holdfast.records.kernel.memory import PREFETCH_BYTES, Octets, prefetch
from holdfast.records.kernel.opened import open_buffer

_LEFT_OVER = int(Fault.LEFT_OVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstones:
    """The data records whose value is null: their places in `scan`'s order, and their offsets; both ascend."""

    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def rows_below(self, end: int) -> NDArray[np.int64]:
        """Those with offsets below `end`, for a mask."""
        return self.rows[: np.searchsorted(self.offsets, end)]

    def first_alive(self, dead: Mask) -> int:
        """The lowest offset of one that is not marked, or -1."""
        alive = self.offsets[~dead[self.rows]]
        return int(alive[0]) if len(alive) else -1


def find_tombstones(
    buffer: Batches,
    *,
    check_crcs: bool = True,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
    inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX,
) -> Tombstones:
    """All tombstones of whole batches that follow one another; raises CorruptBatch, bounds as in `scan`."""
    opened = open_buffer(
        buffer,
        check_crcs=check_crcs,
        inflated_bytes_max=inflated_bytes_max,
        inflated_total_bytes_max=inflated_total_bytes_max,
    )
    rows, offsets = np.empty(opened.records, np.int64), np.empty(opened.records, np.int64)
    found, fault, at = _find(opened.source, opened.data, opened.batches, opened.wanted, rows, offsets)
    raise_fault(fault, opened.batches["position"], at)
    return Tombstones(rows=rows[:found].copy(), offsets=offsets[:found].copy())


@compiled
def _find(
    source: Octets,
    data: Octets,
    batches: NDArray[Any],
    wanted: Wanted,
    rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> tuple[int, int, int]:
    """(tombstones, fault, batch). CRCs of compressed batches have been checked before."""
    found = 0
    row = 0
    for at in range(len(batches)):
        batch = batches[at]
        if wanted.batches[at]:
            fault = 0
            if wanted.check_crcs and batch.attributes & CODEC_MASK == 0:
                fault = crc_fault(source, batch)
            if fault == 0:
                found, fault = _find_in_batch(data, batch, row, found, rows, offsets)
            if fault != 0:
                return found, fault, at
            row += batch.record_count
    return found, 0, 0


@compiled
def _find_in_batch(
    data: Octets, batch: Any, row: int, found: int, rows: NDArray[np.int64], offsets: NDArray[np.int64]
) -> tuple[int, int]:
    position = batch.payload_start
    payload_end = batch.payload_end
    last_delta = np.int64(batch.last_offset_delta)
    delta_min = 0
    for _ in range(batch.record_count):
        prefetch(data, position + PREFETCH_BYTES)
        prefetch(data, position + PREFETCH_BYTES + 64)
        record = read_record(data, position, payload_end, delta_min, last_delta)
        if record.fault != 0:
            return found, record.fault
        position = record.end
        delta_min = record.offset_delta + 1
        if record.value_bytes < 0:
            rows[found] = row
            offsets[found] = batch.base_offset + record.offset_delta
            found += 1
        row += 1
    if position != payload_end:
        return found, _LEFT_OVER
    return found, 0

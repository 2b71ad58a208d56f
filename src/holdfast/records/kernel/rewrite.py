"""Leaving records out of batches while every other byte stays what it was."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_STARTS_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    Codec,
    seal,
)
from holdfast.records.codecs import INFLATED_BYTES_MAX, INFLATED_TOTAL_BYTES_MAX, compress
from holdfast.records.kernel.layout import Keep, Mask, Wanted
from holdfast.records.kernel.load import UNBOUNDED, Batches, InflationBudget, inflate, locate, raise_fault
from holdfast.records.kernel.memory import Octets
from holdfast.records.kernel.select import count_kept, select_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The new batches, and what became of the old ones."""

    buffer: memoryview
    records_kept: int
    max_timestamp: int
    """The greatest of the batches that have records, -1 if there is none."""
    batches_verbatim: int
    batches_patched: int
    """Whole, but no longer transactional."""
    batches_rebuilt: int
    batches_emptied: int
    batches_dropped: int


def copy_selected(
    buffer: Batches,
    keep: Mask,
    *,
    keep_empty: bool | Mask = False,
    plain: bool = False,
    check_crcs: bool = True,
    check_dropped: bool = True,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
    inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX,
    out: Octets | None = None,
) -> Rewritten:
    """Batches with those records whose entry in `keep` is true, at the same offsets, CRCs made anew.

    `keep` has one entry per data record of the buffer, in `scan`'s order; control batches stay as they are.
    A batch that keeps all its records is copied byte by byte. One that keeps none is dropped, or leaves its
    header if `keep_empty` says so, for all batches or for each. Rebuilt batches keep their codec.
    With `plain` no data batch stays transactional; one that keeps its records is not even inflated for that.
    Without `check_dropped` the records of a batch that is dropped are not looked at, nor is its CRC.
    Raises CorruptBatch for one that inflates to more than `inflated_bytes_max`, and when all that are rebuilt
    inflate to more than `inflated_total_bytes_max`.
    `out` is reused if it is large enough; the result then lives in it until the next call.
    """
    source, batches = locate(buffer)
    is_data = batches["attributes"] & CONTROL_BIT == 0
    record_count = int(batches["record_count"][is_data].sum(dtype=np.int64))
    if len(keep) != record_count:
        raise ValueError(f"a mask of {len(keep)} for {record_count} records")
    chosen = Keep(
        records=_read_only(keep),
        empties=_read_only(np.broadcast_to(keep_empty, len(batches))),
        check_crcs=check_crcs,
        check_dropped=check_dropped,
    )
    count_kept(batches, chosen.records)
    kept = batches["row_count"].copy()
    partial = is_data & (kept > 0) & (kept < batches["record_count"])
    codecs = batches["attributes"] & CODEC_MASK
    settled = is_data & (batches["attributes"] & TRANSACTIONAL_BIT != 0) & plain
    batches["attributes"][settled] &= ~TRANSACTIONAL_BIT
    patched = settled & (kept > 0) & ~partial
    rebuilt = Wanted(batches=partial, start=0, end=UNBOUNDED, check_crcs=check_crcs)
    budget = InflationBudget(batch_bytes_max=inflated_bytes_max, total_bytes_max=inflated_total_bytes_max)
    data, _ = inflate(source, batches, rebuilt, budget=budget)
    output = _output(out, batches, partial)
    written, fault, at = select_records(source, data, batches, chosen, output)
    raise_fault(fault, batches["position"], at)
    rewritten = output.data[:written]
    if codecs[partial].any():
        rewritten = _recompress(rewritten, batches["size_bytes"], np.where(partial, codecs, Codec.NONE))
    emptied = is_data & (kept == 0) & (batches["size_bytes"] > 0)
    dropped = batches["size_bytes"] == 0
    return Rewritten(
        buffer=rewritten,
        records_kept=int(kept.sum(dtype=np.int64)),
        max_timestamp=int(batches["max_timestamp"].max(initial=NO_TIMESTAMP, where=kept > 0)),
        batches_verbatim=len(batches) - int((partial | patched | emptied | dropped).sum()),
        batches_patched=int(patched.sum()),
        batches_rebuilt=int(partial.sum()),
        batches_emptied=int(emptied.sum()),
        batches_dropped=int(dropped.sum()),
    )


def _read_only(mask: Mask) -> Mask:
    """One type for all masks, so that every kernel is compiled once."""
    contiguous = np.ascontiguousarray(mask, np.bool_).view()
    contiguous.flags.writeable = False
    return contiguous


def _output(out: Octets | None, batches: NDArray[Any], partial: Mask) -> Octets:
    """Room for every batch: whole ones as they are, rebuilt ones with their inflated payload."""
    inflated = batches["payload_end"][partial] - batches["payload_start"][partial] + HEADER_BYTES
    room = int(batches["size_bytes"][~partial].sum() + inflated.sum())
    return out if out is not None and len(out) >= room else np.empty(room, np.uint8)


def _recompress(written: memoryview, sizes: NDArray[np.int64], codecs: NDArray[np.int16]) -> memoryview:
    """Give each rebuilt batch the codec that it came with."""
    result = bytearray()
    position = 0
    for size, codec in zip(sizes.tolist(), codecs.tolist(), strict=True):
        batch = written[position : position + size]
        position += size
        if codec == Codec.NONE:
            result += batch
            continue
        start = len(result)
        result += batch[:HEADER_BYTES]
        result += compress(Codec(codec), batch[HEADER_BYTES:])
        length = len(result) - start - LENGTH_STARTS_AT
        result[start + 8 : start + LENGTH_STARTS_AT] = length.to_bytes(4, "big")
        result[start + ATTRIBUTES_AT + 1] |= codec
        seal(result, start)
    return memoryview(result)

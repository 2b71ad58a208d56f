"""Buffers → where their records lie, whole or in parts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from holdfast.records.batch import CODEC_MASK, CONTROL_BIT, RECORD_BYTES_MIN
from holdfast.records.buffers import ReadableBytes
from holdfast.records.codecs import INFLATED_BYTES_MAX, INFLATED_TOTAL_BYTES_MAX
from holdfast.records.kernel.fields import count_records, scan_records
from holdfast.records.kernel.layout import Columns, Fault, Mask, Wanted
from holdfast.records.kernel.load import InflationBudget, as_octets, index, inflate, raise_fault
from holdfast.records.kernel.memory import Octets

OFFSET_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which records of a buffer a scan reports, and how far it trusts the bytes."""

    start: int | None = None
    end: int | None = None
    include_control: bool = False
    check_crcs: bool = True
    inflated_bytes_max: int = INFLATED_BYTES_MAX
    inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX

    def of(self, batches: NDArray[Any]) -> Wanted:
        """The selection, applied to a table of batches."""
        start = 0 if self.start is None else self.start
        end = OFFSET_END if self.end is None else self.end
        last_offset = batches["base_offset"] + batches["last_offset_delta"]
        chosen: Mask = (batches["base_offset"] < end) & (last_offset >= start)
        if not self.include_control:
            chosen &= batches["attributes"] & CONTROL_BIT == 0
        return Wanted(batches=chosen, start=start, end=end, check_crcs=self.check_crcs)

    def budget(self) -> InflationBudget:
        """What one buffer may inflate to, nothing of it spent."""
        return InflationBudget(
            batch_bytes_max=self.inflated_bytes_max, total_bytes_max=self.inflated_total_bytes_max
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Records found: each row of `columns` is one, and its slices point into `data`.

    `batches["row_count"]` says how many rows each batch gave, in order.
    """

    data: Octets
    batches: NDArray[Any]
    columns: Columns


def scan(
    buffer: ReadableBytes,
    *,
    start: int | None = None,
    end: int | None = None,
    include_control: bool = False,
    check_crcs: bool = True,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
    inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX,
    out: Columns | None = None,
) -> Scan:
    """Where every record of whole batches with an offset in [start, end) lies; raises CorruptBatch.

    A batch that inflates to more than `inflated_bytes_max` is corrupt, and so is a buffer whose chosen batches
    inflate to more than `inflated_total_bytes_max`: memory holds at most that and one batch more.
    `out` is reused if it is large enough; the result then lives in it until the next call.
    """
    selection = Selection(
        start=start,
        end=end,
        include_control=include_control,
        check_crcs=check_crcs,
        inflated_bytes_max=inflated_bytes_max,
        inflated_total_bytes_max=inflated_total_bytes_max,
    )
    source = as_octets(buffer)
    batches = index(source)
    wanted = selection.of(batches)
    data, _ = inflate(source, batches, wanted, budget=selection.budget())
    return _scan(source, data, batches, wanted, lambda count: _columns(count, out))


def count_data_records(
    buffer: ReadableBytes,
    *,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
    inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX,
) -> int:
    """How many data records whole batches declare: the length of a mask for them.

    Raises CorruptBatch, also if they are more than could be inflated within the bounds, so that a lie costs no mask.
    """
    batches = index(as_octets(buffer))
    attributes = batches["attributes"]
    counts = np.where(attributes & CONTROL_BIT == 0, batches["record_count"], 0).astype(np.int64)
    inflated_bytes = np.where(attributes & CODEC_MASK != 0, counts * RECORD_BYTES_MIN, 0)
    refused = (inflated_bytes > inflated_bytes_max) | (inflated_bytes.cumsum() > inflated_total_bytes_max)
    if refused.any():
        raise_fault(Fault.COUNT, batches["position"], int(refused.argmax()))
    return int(counts.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some batches of a buffer with their payloads inflated, their records still to be found."""

    source: Octets
    data: Octets
    batches: NDArray[Any]
    wanted: Wanted

    def count_records(self) -> tuple[int, int]:
        """How many there may be, in all batches and in the largest one; raises CorruptBatch where that is a lie."""
        count, fault, at = count_records(self.batches, self.wanted)
        raise_fault(fault, self.batches["position"], at)
        return count, int(self.batches["record_count"][self.wanted.batches].max(initial=0))

    def scan(self, columns: Callable[[int], Columns], *, first: int = 0) -> Scan:
        """Where the records lie, from the batch with this number on; raises CorruptBatch."""
        wanted = self.wanted._replace(batches=self.wanted.batches[first:])
        return _scan(self.source, self.data, self.batches[first:], wanted, columns)


def open_groups(buffer: ReadableBytes, selection: Selection, *, group_bytes: int) -> Iterator[Stretch]:
    """A buffer in parts of at most `group_bytes` of batches, or a single one, and not much more inflated."""
    source = as_octets(buffer)
    batches = index(source)
    whole = selection.of(batches)
    ends = batches["position"] + batches["size_bytes"]
    budget = selection.budget()
    first = 0
    while first < len(batches):
        room = int(batches["position"][first]) + group_bytes
        last = max(first + 1, int(np.searchsorted(ends, room, side="right")))
        group, wanted = batches[first:last], whole._replace(batches=whole.batches[first:last])
        data, done = inflate(source, group, wanted, budget=budget, room=group_bytes)
        wanted = wanted._replace(batches=wanted.batches[:done])
        yield Stretch(source=source, data=data, batches=group[:done], wanted=wanted)
        first += done


def _scan(
    source: Octets, data: Octets, batches: NDArray[Any], wanted: Wanted, room: Callable[[int], Columns]
) -> Scan:
    count, fault, at = count_records(batches, wanted)
    raise_fault(fault, batches["position"], at)
    columns = room(count)
    rows, fault, at = scan_records(source, data, batches, wanted, columns)
    raise_fault(fault, batches["position"], at)
    return Scan(data=data, batches=batches, columns=columns.head(rows))


def _columns(count: int, out: Columns | None) -> Columns:
    return out if out is not None and len(out.offset) >= count else Columns.empty(count)

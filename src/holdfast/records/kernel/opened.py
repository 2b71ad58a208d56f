"""A buffer made ready for a kernel that goes through its data records."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from holdfast.records.batch import CONTROL_BIT
from holdfast.records.kernel.fields import count_records
from holdfast.records.kernel.layout import Wanted
from holdfast.records.kernel.load import UNBOUNDED, Batches, InflationBudget, inflate, locate, raise_fault
from holdfast.records.kernel.memory import Octets


@dataclass(frozen=True, slots=True)
class Opened:
    """A buffer of whole batches whose headers are checked and whose payloads are inflated."""

    source: Octets
    data: Octets
    batches: NDArray[Any]
    wanted: Wanted
    records: int
    """Data records: the length of a mask for them."""


def open_buffer(
    buffer: Batches, *, check_crcs: bool, inflated_bytes_max: int, inflated_total_bytes_max: int
) -> Opened:
    """The data batches of a buffer; raises CorruptBatch."""
    source, batches = locate(buffer)
    is_data = batches["attributes"] & CONTROL_BIT == 0
    wanted = Wanted(batches=is_data, start=0, end=UNBOUNDED, check_crcs=check_crcs)
    budget = InflationBudget(batch_bytes_max=inflated_bytes_max, total_bytes_max=inflated_total_bytes_max)
    data, _ = inflate(source, batches, wanted, budget=budget)
    count, fault, at = count_records(batches, wanted)
    raise_fault(fault, batches["position"], at)
    return Opened(source, data, batches, wanted, count)

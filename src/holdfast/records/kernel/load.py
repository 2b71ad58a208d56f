"""From a caller's buffer to what the kernels work on, and from their faults to CorruptBatch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import CorruptBatch, InflatesTooFar
from holdfast.records.batch import CODEC_MASK, HEADER_BYTES, BatchView, validate
from holdfast.records.buffers import ReadableBytes
from holdfast.records.codecs import decompress
from holdfast.records.kernel.index import count_batches, index_batches
from holdfast.records.kernel.layout import BATCH, FAULTS, Fault, Wanted
from holdfast.records.kernel.memory import Octets

UNBOUNDED: Final = 2**63 - 1


@dataclass(slots=True, kw_only=True)
class InflationBudget:
    """What compressed batches may inflate to: each one, and all of a buffer together."""

    batch_bytes_max: int
    total_bytes_max: int
    spent_bytes: int = 0

    def spend(self, inflated_bytes: int, position: int) -> None:
        """Count a batch that was inflated; raises InflatesTooFar if it was one too many."""
        self.spent_bytes += inflated_bytes
        if self.spent_bytes > self.total_bytes_max:
            raise InflatesTooFar(
                f"the batches up to here inflate to more than {self.total_bytes_max} bytes", position
            )


def as_octets(buffer: ReadableBytes) -> Octets:
    """The buffer as a read-only array: one type, so that every kernel is compiled once."""
    octets = np.frombuffer(buffer, np.uint8)
    octets.flags.writeable = False
    return octets


def index(source: Octets) -> NDArray[Any]:
    """The table of batches, every header checked, but no CRC."""
    count, fault, position = count_batches(source)
    raise_fault(fault, [position], 0)
    batches = np.empty(count, BATCH)
    fault, position = index_batches(source, batches)
    raise_fault(fault, [position], 0)
    return batches


@dataclass(frozen=True, slots=True)
class Scattered:
    """Whole batches that lie apart in a buffer, in the order of their table; what lies between them is others'."""

    source: Octets
    table: NDArray[Any]

    @classmethod
    def find(cls, buffer: ReadableBytes, spans: Iterable[tuple[int, int]]) -> "Scattered":
        """Those of the spans [start, end) of a buffer, each of which is nothing but whole batches."""
        source = as_octets(buffer)
        tables = []
        for start, end in spans:
            try:
                table = index(source[start:end])
            except CorruptBatch as fault:
                raise CorruptBatch(fault.why, start + fault.position) from None
            for place in ("position", "payload_start", "payload_end"):
                table[place] += start
            tables.append(table)
        return cls(source, np.concatenate(tables))


Batches: TypeAlias = ReadableBytes | Scattered
"""Whole batches: all that is in a buffer, or some of it."""


def locate(batches: Batches) -> tuple[Octets, NDArray[Any]]:
    """(array, table): where they are; the table is the caller's to write to."""
    if isinstance(batches, Scattered):
        return batches.source, batches.table.copy()
    source = as_octets(batches)
    return source, index(source)


def inflate(
    source: Octets, batches: NDArray[Any], wanted: Wanted, *, budget: InflationBudget, room: int = UNBOUNDED
) -> tuple[Octets, int]:
    """(array, batches): the array that holds the wanted payloads uncompressed, the source if they all are.

    Stops after the batch that exceeds `room`, and says how many batches it got through. Checks the CRCs of
    compressed batches, and sets their payload_start and payload_end.
    """
    if not (batches["attributes"][wanted.batches] & CODEC_MASK).any():
        return source, len(batches)
    payloads: list[memoryview] = []
    end = 0
    done = len(batches)
    for at in np.flatnonzero(wanted.batches):
        payload = _payload(source, batches[at], wanted.check_crcs, budget)
        payloads.append(payload)
        batches["payload_start"][at] = end
        end += len(payload)
        batches["payload_end"][at] = end
        if end > room:
            done = int(at) + 1
            break
    return as_octets(b"".join(payloads)), done


def raise_fault(fault: int, positions: Any, at: int) -> None:
    """Raise what a kernel has found, if it has."""
    if fault:
        raise CorruptBatch(FAULTS[Fault(fault)], int(positions[at]))


def _payload(source: Octets, batch: Any, check_crc: bool, budget: InflationBudget) -> memoryview:
    position, size_bytes = int(batch["position"]), int(batch["size_bytes"])
    if not batch["attributes"] & CODEC_MASK or size_bytes == HEADER_BYTES:
        return source.data[position + HEADER_BYTES : position + size_bytes]
    view = validate(source.data, position) if check_crc else BatchView(source.data, position)
    try:
        payload = decompress(view.codec, view.records, bytes_max=budget.batch_bytes_max)
    except CorruptBatch as error:
        raise CorruptBatch(error.why, position) from None
    budget.spend(len(payload), position)
    return payload

"""Which keys have been seen, newest record first: what a compaction pass keeps and what it drops."""

from typing import Final

import numpy as np

from holdfast.errors import KeyIndexFull
from holdfast.records.batch import CONTROL_BIT
from holdfast.records.buffers import ReadableBytes
from holdfast.records.codecs import INFLATED_BYTES_MAX, INFLATED_TOTAL_BYTES_MAX
from holdfast.records.kernel.dedupe import (
    ARENA_START,
    BLOCK_ROWS,
    FULL,
    POSITION_BITS,
    SLOTS_MIN,
    KeyTable,
    Rows,
    Share,
    shadow_records,
)
from holdfast.records.kernel.fields import count_records
from holdfast.records.kernel.hashing import make_secret
from holdfast.records.kernel.layout import Mask, Wanted
from holdfast.records.kernel.load import UNBOUNDED, InflationBudget, as_octets, index, inflate, raise_fault

BYTES_MIN: Final = 1 << 10
PARTS_MAX: Final = 1 << 16


class KeyIndex:
    """Keys seen so far, newest first; exact; bounded.

    Takes `bytes_max` bytes of address space at once, and of memory as much as its keys need. `part` of `parts` is
    the share of the keys that it is for: each key belongs to exactly one part, the same one under the same seed.
    """

    def __init__(self, *, bytes_max: int, part: int = 0, parts: int = 1, seed: int) -> None:
        if not BYTES_MIN <= bytes_max < 1 << POSITION_BITS:
            raise ValueError(f"a key index of {bytes_max} bytes")
        if not 0 <= part < parts <= PARTS_MAX:
            raise ValueError(f"part {part} of {parts}")
        words = np.empty(bytes_max // 8, np.uint64)
        words[-SLOTS_MIN:] = 0
        self._table = KeyTable(
            words=words,
            octets=words.view(np.uint8),
            sizes=np.array([0, ARENA_START, SLOTS_MIN, SLOTS_MIN // 4 * 3], np.int64),
            secret=make_secret(seed),
        )
        self._share = Share(part, parts)
        self._rows = Rows.empty(BLOCK_ROWS)

    @property
    def keys(self) -> int:
        """How many distinct keys it holds."""
        return int(self._table.sizes[0])

    def shadow(
        self,
        buffer: ReadableBytes,
        dead: Mask,
        *,
        insert: bool = True,
        check_crcs: bool = True,
        inflated_bytes_max: int = INFLATED_BYTES_MAX,
        inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX,
    ) -> None:
        """Mark the records of this part whose key was seen in a newer place: a later piece, or later in this one.

        `buffer` holds whole batches and is the piece right before the one of the call before. `dead` has an entry
        for each of its data records, in `scan`'s order; marks that it has already stay, and such records shadow
        older ones like any other. Records without a key are marked by part 0, as Kafka's cleaner drops them.
        Without `insert` keys are looked up but not learnt, which will do for a piece that has no key twice.

        Raises CorruptBatch, and KeyIndexFull if the keys do not fit: the index is of no use then, but every mark
        in `dead` is right.
        """
        source = as_octets(buffer)
        batches = index(source)
        is_data = batches["attributes"] & CONTROL_BIT == 0
        wanted = Wanted(batches=is_data, start=0, end=UNBOUNDED, check_crcs=check_crcs)
        budget = InflationBudget(batch_bytes_max=inflated_bytes_max, total_bytes_max=inflated_total_bytes_max)
        data, _ = inflate(source, batches, wanted, budget=budget)
        count, fault, at = count_records(batches, wanted)
        raise_fault(fault, batches["position"], at)
        if len(dead) != count:
            raise ValueError(f"a mask of {len(dead)} for {count} records")
        largest = int(batches["record_count"].max(initial=0))
        if largest > len(self._rows.hash):
            self._rows = Rows.empty(largest)
        fault, at = shadow_records(
            source, data, batches, wanted, self._table, self._share, insert, self._rows, dead
        )
        if fault == FULL:
            raise KeyIndexFull(
                f"{self.keys} keys are all that a key index of {len(self._table.octets)} bytes can hold"
            )
        raise_fault(fault, batches["position"], at)


from typing import NamedTuple

from holdfast.records.kernel.scanning import scan


class Survey(NamedTuple):
    offsets: object
    is_tombstone: object


def survey(buffer):
    found = scan(buffer)
    return Survey(found.columns.offset, found.columns.value_bytes < 0)

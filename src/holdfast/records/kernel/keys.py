"""Which keys have been seen, newest record first: what a compaction pass keeps and what it drops."""

from typing import Final

import numpy as np

from holdfast.errors import KeyIndexFull, KeyTooLarge
from holdfast.records.codecs import INFLATED_BYTES_MAX, INFLATED_TOTAL_BYTES_MAX
from holdfast.records.kernel.dedupe import (
    ARENA_BYTES_MAX,
    BLOCK_ROWS,
    FULL,
    KeyTable,
    Rows,
    Share,
    shadow_records,
)
from holdfast.records.kernel.hashing import make_secret
from holdfast.records.kernel.layout import Mask
from holdfast.records.kernel.load import Batches, raise_fault
from holdfast.records.kernel.opened import open_buffer


def raise_full(key_bytes: int, table: KeyTable) -> None:
    """A key of so many bytes has found no room in the table."""
    map_bytes = table.octets.nbytes
    if key_bytes > table.key_bytes_max:
        raise KeyTooLarge(
            f"a key of {key_bytes} bytes does not fit into a map of {map_bytes}: raise map_bytes_max"
        )
    raise KeyIndexFull(f"no room for more than {table.keys} keys in {map_bytes} bytes")


class KeyIndex:
    """Keys seen so far, newest first; exact; bounded.

    `part` of `parts` is the share of the keys that it is for: every key belongs to exactly one part, the same one
    under the same seed. `bytes_max` bounds what it keeps from call to call; it touches only what its keys need of that.
    """

    BYTES_MIN: Final = 1 << 10
    PARTS_MAX: Final = 1 << 16

    def __init__(self, *, bytes_max: int, part: int = 0, parts: int = 1, seed: int) -> None:
        if not self.BYTES_MIN <= bytes_max <= ARENA_BYTES_MAX:
            raise ValueError(f"a key index of {bytes_max} bytes")
        if not 0 <= part < parts <= self.PARTS_MAX:
            raise ValueError(f"part {part} of {parts}")
        self._table = KeyTable.empty(bytes_max, make_secret(seed))
        self._share = Share(part=part, parts=parts, lanes=1)
        self._rows = Rows.empty(BLOCK_ROWS)

    @property
    def keys(self) -> int:
        """How many different keys it holds."""
        return self._table.keys

    def shadow(
        self,
        buffer: Batches,
        dead: Mask,
        *,
        insert: bool = True,
        check_crcs: bool = True,
        inflated_bytes_max: int = INFLATED_BYTES_MAX,
        inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX,
    ) -> None:
        """Mark the records of this part whose key was seen in a newer place: an earlier call, or later in the buffer.

        `buffer` holds whole batches, all older than those of earlier calls. `dead` has an entry for each of its data
        records, in `scan`'s order. Marks that are there already stay, and their records shadow older ones
        like any other. Records without a key are marked by part 0: Kafka's cleaner drops them, too.
        Without `insert` no key is learnt, which is enough for a buffer that has none twice, and takes no memory.

        Raises CorruptBatch, and KeyIndexFull when the keys do not fit (KeyTooLarge when one would not fit alone).
        Either way the index is of no further use; the marks in `dead` are right as far as they go.
        """
        opened = open_buffer(
            buffer,
            check_crcs=check_crcs,
            inflated_bytes_max=inflated_bytes_max,
            inflated_total_bytes_max=inflated_total_bytes_max,
        )
        batches, wanted = opened.batches, opened.wanted
        if len(dead) != opened.records:
            raise ValueError(f"a mask of {len(dead)} for {opened.records} records")
        assert dead.dtype == np.bool_
        assert dead.flags.carray
        batch_rows_max = int(batches["record_count"].max(initial=0, where=wanted.batches))
        if batch_rows_max > self._rows.room:
            self._rows = Rows.empty(batch_rows_max)
        fault, at = shadow_records(
            opened.source, opened.data, batches, wanted, self._table, self._share, insert, self._rows, dead
        )
        if fault == FULL:
            raise_full(at, self._table)
        raise_fault(fault, batches["position"], at)

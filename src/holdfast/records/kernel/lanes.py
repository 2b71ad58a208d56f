"""Keys seen, newest record first, by several threads: each reads other buffers, then looks up other keys.

Every buffer is read once, by any thread, which writes its keys into as many lanes as there are tables. A lane is looked
up by one thread at a time, buffer after buffer from the newest on, so that no table is shared and none is locked.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.records.codecs import INFLATED_BYTES_MAX, INFLATED_TOTAL_BYTES_MAX
from holdfast.records.kernel.dedupe import KeyTable, Rows, Share, collect_keys, shadow_keys
from holdfast.records.kernel.hashing import make_secret
from holdfast.records.kernel.keys import raise_full
from holdfast.records.kernel.layout import Mask
from holdfast.records.kernel.load import Batches, raise_fault
from holdfast.records.kernel.memory import Octets
from holdfast.records.kernel.opened import open_buffer


class KeyRoom:
    """Memory for the keys of one buffer, which the next one takes over."""

    def __init__(self) -> None:
        self.rows = Rows.empty(0)

    def take(self, count: int, lanes: int) -> Rows:
        """Room for `count` keys in each lane."""
        if self.rows.room < count or len(self.rows.counts) != lanes + 1:
            self.rows = Rows.empty(count, lanes)
        return self.rows


@dataclass(frozen=True, slots=True)
class CollectedKeys:
    """The keys of a buffer, by lane; they lie in the buffer and in a KeyRoom, and live as long as these do."""

    data: Octets
    rows: Rows
    dead: Mask
    """What was marked before any key was looked up: for part 0 that includes records without a key."""


class LanedKeyIndex:
    """What `KeyIndex` is, in as many lanes as threads look keys up; `bytes_max` is divided among them."""

    def __init__(self, *, bytes_max: int, part: int = 0, parts: int = 1, lanes: int, seed: int) -> None:
        self._secret = make_secret(seed)
        self._share = Share(part=part, parts=parts, lanes=lanes)
        self._tables = [KeyTable.empty(bytes_max // lanes, self._secret) for _ in range(lanes)]

    def collect(
        self,
        buffer: Batches,
        dead: Mask,
        room: KeyRoom,
        *,
        inflated_bytes_max: int = INFLATED_BYTES_MAX,
        inflated_total_bytes_max: int = INFLATED_TOTAL_BYTES_MAX,
    ) -> CollectedKeys:
        """The keys of whole batches, whose CRCs are checked; `dead` has an entry for each data record.

        Changes nothing of the index, so that threads may collect from several buffers at once. Raises CorruptBatch.
        """
        opened = open_buffer(
            buffer,
            check_crcs=True,
            inflated_bytes_max=inflated_bytes_max,
            inflated_total_bytes_max=inflated_total_bytes_max,
        )
        if len(dead) != opened.records:
            raise ValueError(f"a mask of {len(dead)} for {opened.records} records")
        rows = room.take(opened.records, self._share.lanes)
        fault, at = collect_keys(
            opened.source, opened.data, opened.batches, opened.wanted, self._secret, self._share, rows, dead
        )
        raise_fault(fault, opened.batches["position"], at)
        return CollectedKeys(opened.data, rows, dead)

    def shadow(self, lane: int, collected: CollectedKeys, *, insert: bool = True) -> Mask:
        """A mask of its own, with those of the lane whose key was seen in a newer place; see `KeyIndex.shadow`.

        Its own, because threads that write to one mask side by side take its cache lines from each other.
        Raises KeyIndexFull, or KeyTooLarge; then the index is of no further use.
        """
        dead = np.zeros(len(collected.dead), np.bool_)
        table = self._tables[lane]
        fault, key_bytes = shadow_keys(collected.data, collected.rows, lane, table, insert, dead)
        if fault:
            raise_full(key_bytes, table)
        return dead

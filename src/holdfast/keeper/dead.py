"""The search for records that go: those that a newer one of their key shadows, and those whose time has come.

It goes through the log from the newest chunk to the oldest, for one share of all keys at a time. A map that is too
small for its share means more passes over the log, each for half as many keys; those that are done stay done.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from holdfast.errors import InflatesTooFar, KeyIndexFull, KeyTooLarge
from holdfast.keeper.bits import Bits
from holdfast.keeper.chunks import INFLATED_BYTES, Chunk, ChunkReader, cut
from holdfast.keeper.sections import Section
from holdfast.keeper.work import WorkItem
from holdfast.records.kernel.keys import KeyIndex
from holdfast.records.kernel.layout import Mask
from holdfast.records.kernel.load import Batches, locate
from holdfast.records.kernel.tombstones import find_tombstones

PARTS_MAX = 4096

Progress = Callable[[int], None]
"""Called with bytes that were dealt with; fewer than none when some of it was in vain."""


def unheard(size_bytes: int) -> None:
    """From a task nobody hears before it is done."""


@dataclass(slots=True, kw_only=True)
class DeadSearch:
    """Looks at the keys of part `part` of `parts`; `seed` keys their hash, and is the same for all parts.

    What goes whatever its key is, part 0 finds.
    """

    item: WorkItem
    seed: int
    part: int = 0
    parts: int = 1
    reader: ChunkReader = field(default_factory=ChunkReader)
    on_progress: Progress
    counts: Counter[str]
    _chunks: list[Chunk] = field(default_factory=list)
    _dead: list[Bits | None] = field(default_factory=list)

    def run(self, sections: Sequence[Section]) -> list[Bits]:
        """For each section, which of its records go."""
        self._chunks = [
            chunk
            for section in sections
            for chunk in cut(self.item.pieces[section.first : section.end], first_piece=section.first)
        ]
        self._dead = [None] * len(self._chunks)
        part, end, parts = self.part, self.part + 1, self.parts
        while part < end:
            try:
                self._search(part, parts)
            except KeyTooLarge:
                raise
            except KeyIndexFull:
                if 2 * parts > PARTS_MAX:
                    raise
                part, end, parts = 2 * part, 2 * end, 2 * parts
                continue
            part += 1
            self.counts["passes"] += 1
        return self._by_section(sections)

    def _search(self, part: int, parts: int) -> None:
        keys = KeyIndex(
            bytes_max=max(self.item.map_bytes_max, KeyIndex.BYTES_MIN), part=part, parts=parts, seed=self.seed
        )
        done_bytes = 0
        number = len(self._chunks)
        try:
            while number > 0:
                number -= 1
                chunk = self._chunks[number]
                batches = self.reader.find(chunk)
                try:
                    self._shadow(keys, number, batches)
                except InflatesTooFar:
                    self._chunks[number : number + 1] = chunk.halved(batches)
                    self._dead[number : number + 1] = [None, None]
                    number += 2
                    continue
                share_bytes = chunk.size_bytes * self.parts // parts
                done_bytes += share_bytes
                self.on_progress(share_bytes)
        except KeyIndexFull:
            self.on_progress(-done_bytes)
            raise

    def _shadow(self, keys: KeyIndex, number: int, batches: Batches) -> None:
        found = self._dead[number]
        dead = found.rows(0, found.count) if found is not None else self._begin(number, batches)
        keys.shadow(
            batches,
            dead,
            insert=not self._chunks[number].is_clean,
            inflated_total_bytes_max=INFLATED_BYTES,
        )
        self._dead[number] = Bits.pack(dead)

    def _begin(self, number: int, batches: Batches) -> Mask:
        """What is known of a chunk before its keys are looked at; remembered, so that it is counted once."""
        if self.part == 0:
            dead, tombstones = self._find_expired(batches)
            self._count(dead, tombstones)
        else:
            dead = np.zeros(_count_records(batches), np.bool_)
        self._dead[number] = Bits.pack(dead)
        return dead

    def _count(self, dead: Mask, tombstones: int) -> None:
        self.counts["records_read"] += len(dead)
        self.counts["tombstones_dropped"] += tombstones

    def _find_expired(self, batches: Batches) -> tuple[Mask, int]:
        """Batches below the log start, and tombstones that the group allows to go, and how many these are.

        They shadow all the same.
        """
        dead = ~reaching(batches, self.item.log_start)
        tombstones = 0
        # What is dirty lies above: nobody has been clean past it. To look costs an eighth of the rewrite.
        if locate(batches)[1]["base_offset"][0] < self.item.tombstones_end:
            found = find_tombstones(batches, inflated_total_bytes_max=INFLATED_BYTES)
            expired = found.rows_below(self.item.tombstones_end)
            dead[expired] = True
            tombstones = len(expired)
        return dead, tombstones

    def _by_section(self, sections: Sequence[Section]) -> list[Bits]:
        parts: dict[int, list[Bits]] = {section.first: [] for section in sections}
        starts = [section.first for section in sections]
        for chunk, found in zip(self._chunks, self._dead, strict=True):
            assert found is not None, chunk
            parts[starts[int(np.searchsorted(starts, chunk.piece, side="right")) - 1]].append(found)
        return [Bits.join(parts[start]) for start in starts]


def reaching(batches: Batches, first: int) -> Mask:
    """The records of batches that reach up to `first` or beyond; a peer's segment may begin before it."""
    _, table = locate(batches)
    reaches: Mask = table["base_offset"] + table["last_offset_delta"] >= first
    return np.repeat(reaches, table["record_count"])


def _count_records(batches: Batches) -> int:
    return int(locate(batches)[1]["record_count"].sum(dtype=np.int64))

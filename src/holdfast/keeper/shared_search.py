"""The search for records that go, by several threads: chunks are read side by side, then keys looked up side by side.

A wave is as many chunks as there are threads. Each is read and parsed once, by one thread, which divides its keys among
lanes; then every thread looks one lane of all chunks up. Who is done with that begins with the next wave.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.errors import InflatesTooFar, KeyIndexFull
from holdfast.keeper.bits import Bits
from holdfast.keeper.chunks import INFLATED_BYTES, ChunkReader
from holdfast.keeper.dead import DeadSearch
from holdfast.records.kernel.keys import KeyIndex
from holdfast.records.kernel.lanes import CollectedKeys, KeyRoom, LanedKeyIndex
from holdfast.records.kernel.layout import Mask
from holdfast.records.kernel.load import locate

ROWS_MAX = 1 << 20
"""Keys that are collected from a chunk at once, at 32 bytes each; a chunk that has more is halved."""


@dataclass(slots=True)
class _Place:
    """Memory for one chunk and its keys."""

    reader: ChunkReader = field(default_factory=ChunkReader)
    room: KeyRoom = field(default_factory=KeyRoom)


@dataclass(slots=True)
class _Collected:
    number: int
    keys: CollectedKeys
    tombstones: int | None
    """How many have expired; None if the chunk was counted in an earlier pass."""


@dataclass(slots=True, kw_only=True)
class SharedSearch(DeadSearch):
    """DeadSearch by the threads of a pool, which has `threads` of them."""

    pool: ThreadPoolExecutor
    threads: int
    _under_way: list[Future[Any]] = field(default_factory=list)

    def _search(self, part: int, parts: int) -> None:
        lane_bytes = max(self.item.map_bytes_max // self.threads, KeyIndex.BYTES_MIN)
        keys = LanedKeyIndex(
            bytes_max=lane_bytes * self.threads, part=part, parts=parts, lanes=self.threads, seed=self.seed
        )
        done_bytes = 0
        places, others = ([_Place() for _ in range(self.threads)] for _ in range(2))
        end = len(self._chunks)
        try:
            ahead = self._read(keys, end, places)
            while end > 0:
                wave = [each.result() for each in ahead]
                if None in wave:
                    end += self._halve(end, wave)
                    ahead = self._read(keys, end, places)
                    continue
                read = [each for each in wave if each is not None]
                lanes = [self.pool.submit(self._look_up, keys, lane, read) for lane in range(self.threads)]
                self._under_way += lanes
                end -= len(read)
                places, others = others, places
                ahead = self._read(keys, end, places)
                for each, masks in zip(
                    read, zip(*(lane.result() for lane in lanes), strict=True), strict=True
                ):
                    share_bytes = self._take(each, masks) * self.parts // parts
                    done_bytes += share_bytes
                    self.on_progress(share_bytes)
        except KeyIndexFull:
            self.on_progress(-done_bytes)
            raise
        finally:
            wait(self._under_way)
            self._under_way.clear()

    def _read(
        self, keys: LanedKeyIndex, end: int, places: Sequence[_Place]
    ) -> "list[Future[_Collected | None]]":
        """Begin with the wave that ends here, newest chunk first."""
        numbers = range(end - 1, max(end - self.threads, 0) - 1, -1)
        wave = [
            self.pool.submit(self._collect, keys, number, place)
            for number, place in zip(numbers, places, strict=False)
        ]
        self._under_way = [each for each in self._under_way if not each.done()]
        self._under_way += wave
        return wave

    def _collect(self, keys: LanedKeyIndex, number: int, place: _Place) -> _Collected | None:
        """The keys of a chunk; None if it takes too much memory at once."""
        batches = place.reader.find(self._chunks[number])
        tombstones = None
        try:
            if (found := self._dead[number]) is not None:
                dead = found.rows(0, found.count)
            else:
                dead, tombstones = self._find_expired(batches)
            if len(dead) > ROWS_MAX and len(locate(batches)[1]) > 1:
                return None
            collected = keys.collect(batches, dead, place.room, inflated_total_bytes_max=INFLATED_BYTES)
        except InflatesTooFar:
            return None
        return _Collected(number, collected, tombstones)

    def _halve(self, end: int, wave: Sequence[_Collected | None]) -> int:
        """Cut the chunks of a wave that are too large in two; how many there are more. None was looked up yet."""
        for at, each in enumerate(wave):
            if each is None:
                number = end - 1 - at
                chunk = self._chunks[number]
                self._chunks[number : number + 1] = chunk.halved(self.reader.find(chunk))
                self._dead[number : number + 1] = [None, None]
        return sum(each is None for each in wave)

    def _look_up(self, keys: LanedKeyIndex, lane: int, wave: Sequence[_Collected]) -> list[Mask]:
        return [keys.shadow(lane, each.keys, insert=not self._chunks[each.number].is_clean) for each in wave]

    def _take(self, each: _Collected, masks: Sequence[Mask]) -> int:
        """Note what goes of a chunk; its size."""
        if each.tombstones is not None:
            self._count(each.keys.dead, each.tombstones)
        self._dead[each.number] = Bits.pack(np.logical_or.reduce([each.keys.dead, *masks]))
        return self._chunks[each.number].size_bytes

"""One rewrite: read a replica's pieces, decide which records stay, write new segments.

It runs where the files are, in the keeper's own process or in a Spark worker, and publishes nothing: the files that
it leaves behind are seen by nobody before the control plane names them, and an attempt that died leaves orphans.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import numpy as np

from holdfast.errors import InflatesTooFar, KeyIndexFull, StoreFailed
from holdfast.keeper.chunks import CHUNK_BYTES, INFLATED_BYTES, Chunk, ChunkReader, cut
from holdfast.keeper.output import SegmentRun
from holdfast.keeper.work import Rewrite, WorkItem
from holdfast.records.crc import crc32c
from holdfast.records.kernel import copy_selected
from holdfast.records.kernel.keys import KeyIndex
from holdfast.records.kernel.layout import Mask
from holdfast.records.kernel.load import as_octets, index
from holdfast.records.kernel.memory import Octets
from holdfast.records.kernel.tombstones import find_tombstones

PARTS_MAX = 4096
SMALL = 8
"""A segment below this part of the largest size joins its neighbour when that is rewritten anyhow."""

Progress = Callable[[int], None]
"""Called with bytes that were dealt with; a rewrite deals with each byte twice if it compacts, else once."""


def rewrite(item: WorkItem, *, seed: int, on_progress: Progress = lambda size_bytes: None) -> Rewrite:
    """Do one work item; the new segments are durable when it returns.

    `seed` keys the hash of the index; any number will do, as long as nobody who writes records knows it.
    """
    return _Task(item, seed, on_progress).run()


@dataclass(slots=True)
class _Task:
    item: WorkItem
    seed: int
    on_progress: Progress
    counts: Counter[str] = field(default_factory=Counter)
    _reader: ChunkReader = field(default_factory=ChunkReader)
    _room: Octets = field(default_factory=lambda: np.empty(2 * CHUNK_BYTES, np.uint8))

    def run(self) -> Rewrite:
        chunks = cut(self.item.pieces)
        dead = self._find_dead(chunks) if self.item.compacts else None
        rewritten = self._choose_rewritten(chunks, dead)
        run = SegmentRun(
            directory=Path(self.item.directory),
            topic_id=UUID(self.item.topic_id),
            partition=self.item.partition,
            lease=self.item.lease,
            segment_bytes_max=self.item.segment_bytes_max,
            surveys=self.item.surveys,
        )
        try:
            self._write(chunks, dead, rewritten, run)
            added = run.finish(self.item.end)
        except BaseException:
            run.abandon()
            raise
        self.counts["bytes_read"] = sum(chunk.size_bytes for chunk in chunks)
        self.counts["bytes_written"] = sum(segment.length_bytes for segment in added)
        self.counts["records_kept"] = sum(segment.records for segment in added)
        removed = tuple(
            piece.file
            for piece, again in zip(self.item.pieces, rewritten, strict=True)
            if again and piece.file is not None
        )
        return Rewrite(added=added, removed=removed, counts=dict(self.counts))

    def _find_dead(self, chunks: list[Chunk]) -> list[Mask]:
        """Which records go, for each chunk. A map that is too small means more passes over all of them."""
        parts = 1
        while True:
            try:
                return self._index(chunks, parts)
            except KeyIndexFull:
                parts *= 2
                if parts > PARTS_MAX:
                    raise
                self.counts.clear()

    def _index(self, chunks: list[Chunk], parts: int) -> list[Mask]:
        dead: list[Mask] = [np.empty(0, np.bool_)] * len(chunks)
        map_bytes_max = max(self.item.map_bytes_max, KeyIndex.BYTES_MIN)
        for part in range(parts):
            keys = KeyIndex(bytes_max=map_bytes_max, part=part, parts=parts, seed=self.seed)
            number = len(chunks)
            while number > 0:
                number -= 1
                chunk = chunks[number]
                batches = self._reader.read(chunk)
                if part == 0:
                    try:
                        dead[number] = self._find_expired(batches)
                    except InflatesTooFar:
                        chunks[number : number + 1] = chunk.halved(batches)
                        dead.insert(number, dead[number])
                        number += 2
                        continue
                keys.shadow(batches, dead[number], insert=not chunk.is_clean)
                self.on_progress(chunk.size_bytes // parts)
        self.counts["passes"] = parts
        return dead

    def _find_expired(self, batches: memoryview) -> Mask:
        """Batches below the log start, and tombstones that the group allows to go. They shadow all the same."""
        dead = ~_from(batches, self.item.log_start)
        tombstones = find_tombstones(batches, inflated_total_bytes_max=INFLATED_BYTES)
        expired = tombstones.rows_below(self.item.tombstones_end)
        dead[expired] = True
        self.counts["records_read"] += len(dead)
        self.counts["tombstones_dropped"] += len(expired)
        return dead

    def _choose_rewritten(self, chunks: Sequence[Chunk], dead: Sequence[Mask] | None) -> list[bool]:
        """For each piece, whether its bytes are written anew: all but clean segments that lose nothing."""
        pieces = self.item.pieces
        rewritten = [piece.file is None or not piece.is_clean for piece in pieces]
        if dead is not None:
            for chunk, gone in zip(chunks, dead, strict=True):
                rewritten[chunk.piece] |= bool(gone.any())
        else:
            rewritten = [True] * len(pieces)
        small_bytes = self.item.segment_bytes_max // SMALL
        for number in range(1, len(pieces)):
            for one, other in ((number - 1, number), (number, number - 1)):
                if rewritten[other] and pieces[one].length_bytes < small_bytes:
                    rewritten[one] = True
        return rewritten

    def _write(
        self, chunks: Sequence[Chunk], dead: Sequence[Mask] | None, rewritten: Sequence[bool], run: SegmentRun
    ) -> None:
        by_piece: dict[int, list[int]] = {}
        for number, chunk in enumerate(chunks):
            by_piece.setdefault(chunk.piece, []).append(number)
        run.begin(self.item.first)
        for number, piece in enumerate(self.item.pieces):
            if not rewritten[number]:
                run.leave(piece.first, piece.end)
                continue
            crc = 0
            for at in by_piece.get(number, ()):
                batches = self._reader.read(chunks[at])
                crc = crc32c(batches, crc) if piece.crc is not None else 0
                keep = _from(batches, self.item.first) if dead is None else ~dead[at]
                copied = copy_selected(batches, keep, plain=True, out=self._room)
                self.counts["batches_rebuilt"] += copied.batches_rebuilt
                run.append(copied.buffer)
                self.on_progress(chunks[at].size_bytes)
            if piece.crc not in (None, crc):
                raise StoreFailed(f"{piece.path} is damaged: its CRC is {crc:#010x}, not {piece.crc:#010x}")


def _from(batches: memoryview, first: int) -> Mask:
    """The records of batches that reach up to `first` or beyond; a peer's segment may begin before it."""
    table = index(as_octets(batches))
    reaches: Mask = table["base_offset"] + table["last_offset_delta"] >= first
    return np.repeat(reaches, table["record_count"])

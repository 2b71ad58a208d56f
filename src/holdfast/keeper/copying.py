"""Copies what is left of an item into new segments, in the order of offsets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import numpy as np

from holdfast.errors import CorruptBatch, InflatesTooFar, StoreFailed
from holdfast.keeper.bits import Bits
from holdfast.keeper.chunks import CHUNK_BYTES, INFLATED_BYTES, ChunkReader, cut
from holdfast.keeper.dead import Progress, reaching
from holdfast.keeper.output import SegmentRun
from holdfast.keeper.sections import Section
from holdfast.keeper.work import Rewrite, WorkItem
from holdfast.records.crc import crc32c
from holdfast.records.kernel import copy_selected
from holdfast.records.kernel.layout import Mask
from holdfast.records.kernel.load import Scattered
from holdfast.records.kernel.memory import Octets


@dataclass(slots=True, kw_only=True)
class Copier:
    """Writes the sections of an item anew, or leaves segments as they are; an error takes back what it wrote."""

    item: WorkItem
    reader: ChunkReader
    on_progress: Progress
    counts: Counter[str]
    _room: Octets = field(default_factory=lambda: np.empty(2 * CHUNK_BYTES, np.uint8))

    def run(
        self, sections: Sequence[Section], rewritten: Sequence[bool], dead: Sequence[Bits] | None
    ) -> Rewrite:
        """`rewritten` has an entry for each piece, `dead` one for each section; without it nothing goes."""
        item = self.item
        run = SegmentRun(
            directory=Path(item.directory),
            topic_id=UUID(item.topic_id),
            partition=item.partition,
            lease=item.lease,
            segment_bytes_max=item.segment_bytes_max,
            surveys=item.surveys,
        )
        try:
            run.begin(item.first)
            for number, section in enumerate(sections):
                if rewritten[section.first]:
                    self._copy(section, dead[number] if dead is not None else None, run)
                else:
                    piece = item.pieces[section.first]
                    run.leave(piece.first, piece.end)
            added = run.finish(item.end)
        except BaseException:
            run.abandon()
            raise
        self.counts["bytes_read"] += item.size_bytes
        self.counts["bytes_written"] += sum(segment.length_bytes for segment in added)
        self.counts["records_kept"] += sum(segment.records for segment in added)
        removed = tuple(
            piece.file
            for piece, again in zip(item.pieces, rewritten, strict=True)
            if again and piece.file is not None
        )
        return Rewrite(added=added, removed=removed, counts=dict(self.counts))

    def _copy(self, section: Section, dead: Bits | None, run: SegmentRun) -> None:
        piece = self.item.pieces[section.first]
        crc = row = 0
        chunks = cut(self.item.pieces[section.first : section.end])[::-1]
        while chunks:
            chunk = chunks.pop()
            batches = self.reader.find(chunk)
            keep = reaching(batches, self.item.first)
            if dead is not None:
                keep = _alive(dead, row, len(keep), piece.path)
            try:
                copied = copy_selected(
                    batches,
                    keep,
                    plain=True,
                    # The search has checked them, or nobody reads them: they are gone either way.
                    check_dropped=False,
                    inflated_total_bytes_max=INFLATED_BYTES,
                    out=self._room,
                )
            except InflatesTooFar:
                chunks += reversed(chunk.halved(batches))
                continue
            row += len(keep)
            if piece.crc is not None:
                assert not isinstance(batches, Scattered), "a segment lies in one piece"
                crc = crc32c(batches, crc)
            self.counts["batches_rebuilt"] += copied.batches_rebuilt
            run.append(copied.buffer)
            self.on_progress(chunk.size_bytes)
        if piece.crc not in (None, crc):
            raise StoreFailed(f"{piece.path} is damaged: its CRC is {crc:#010x}, not {piece.crc:#010x}")
        if dead is not None and row != dead.count:
            raise CorruptBatch(f"{piece.path} holds {row} records now, not {dead.count} as before")


def _alive(dead: Bits, row: int, count: int, path: str) -> Mask:
    if row + count > dead.count:
        raise CorruptBatch(f"{path} holds more records now than the {dead.count} before")
    return ~dead.rows(row, count)

"""Compaction with nothing around it: read, index keys newest first, read again, copy what is left, write.

There is no plan, no index of the new segments, no sync, no Spark; the threads are as many as a round has. Several
partitions are one thread's each; a lone one is searched as the keeper searches a hot one, then copied by stretches.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from holdfast.keeper.bits import Bits
from holdfast.keeper.chunks import CHUNK_BYTES, ChunkReader, cut
from holdfast.keeper.dead import DeadSearch
from holdfast.keeper.sections import find_sections
from holdfast.keeper.shared_search import SharedSearch
from holdfast.keeper.stretches import cut_stretches
from holdfast.keeper.work import WorkItem
from holdfast.records.kernel import copy_selected

SEED = 1


def compact_alone(items: Sequence[WorkItem], directory: Path, *, threads: int) -> int:
    """Every item into files below `directory`; the records that are left."""
    with ThreadPoolExecutor(threads) as pool:
        if len(items) == 1:
            return _compact_hot(items[0], directory, pool, threads)
        return sum(pool.map(lambda item: _compact(item, directory), items))


def _compact(item: WorkItem, directory: Path) -> int:
    search = DeadSearch(item=item, seed=SEED, on_progress=_unheard, counts=Counter())
    return sum(_copy(item, bits, directory) for bits in search.run(find_sections(item.pieces)))


def _compact_hot(item: WorkItem, directory: Path, pool: ThreadPoolExecutor, threads: int) -> int:
    stretches = cut_stretches(item, threads)
    search = SharedSearch(
        item=item, seed=SEED, on_progress=_unheard, counts=Counter(), pool=pool, threads=threads
    )
    dead = search.run(find_sections(item.pieces, {stretch.first for stretch in stretches}))
    # The newest first, as the keeper does it.
    parts = [stretch.item for stretch in reversed(stretches)]
    return sum(pool.map(_copy, parts, reversed(dead), [directory] * len(parts)))


def _copy(item: WorkItem, dead: Bits, directory: Path) -> int:
    """What is left of a log of journals, which is a single section."""
    reader, room = ChunkReader(), np.empty(2 * CHUNK_BYTES, np.uint8)
    row = kept = 0
    with (directory / f"{item.partition}-{item.first}.log").open("wb", buffering=0) as file:
        for chunk in cut(item.pieces):
            batches = reader.find(chunk)
            count = sum(part.end - part.first for part in chunk.slices)
            copied = copy_selected(batches, ~dead.rows(row, count), plain=True, out=room)
            file.write(copied.buffer)
            row += count
            kept += copied.records_kept
    return kept


def _unheard(size_bytes: int) -> None:
    """Nobody waits for it."""

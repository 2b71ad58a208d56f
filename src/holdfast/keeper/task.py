"""One rewrite: read a replica's pieces, decide which records stay, write new segments.

It runs where the files are, in the keeper's own process or in a Spark worker, and publishes nothing: the files that
it leaves behind are seen by nobody before the control plane names them, and an attempt that died leaves orphans.
"""

from collections import Counter

from holdfast.keeper.chunks import ChunkReader
from holdfast.keeper.copying import Copier
from holdfast.keeper.dead import DeadSearch, Progress
from holdfast.keeper.sections import choose_rewritten, find_sections
from holdfast.keeper.work import Rewrite, WorkItem


def rewrite(item: WorkItem, *, seed: int, on_progress: Progress = lambda size_bytes: None) -> Rewrite:
    """Do one work item; the new segments are durable when it returns.

    `seed` keys the hash of the index; any number will do, as long as nobody who writes records knows it.
    `on_progress` hears of each byte twice if the item compacts, else once.
    """
    reader, counts = ChunkReader(), Counter[str]()
    sections = find_sections(item.pieces)
    dead = None
    losing: set[int] = set()
    if item.compacts:
        search = DeadSearch(item=item, seed=seed, reader=reader, on_progress=on_progress, counts=counts)
        dead = search.run(sections)
        losing = {section.first for section, bits in zip(sections, dead, strict=True) if bits.any()}
    copier = Copier(item=item, reader=reader, on_progress=on_progress, counts=counts)
    return copier.run(sections, choose_rewritten(item, losing), dead)

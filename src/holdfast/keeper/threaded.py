"""One rewrite by several threads of one process: the kernels leave Python's lock alone while they run."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from holdfast.keeper.bits import Bits
from holdfast.keeper.chunks import ChunkReader
from holdfast.keeper.copying import Copier
from holdfast.keeper.dead import unheard
from holdfast.keeper.sections import choose_rewritten, find_sections
from holdfast.keeper.shared_search import SharedSearch
from holdfast.keeper.stretches import Stretch, cut_stretches, delete_added, join_rewrites
from holdfast.keeper.work import Rewrite, WorkItem


def rewrite_in_threads(item: WorkItem, *, threads: int, seed: int) -> Rewrite:
    """Do one work item; the same records stay, in the same batches, as if `task.rewrite` had done it."""
    counts = Counter[str]()
    stretches = cut_stretches(item, threads)
    sections = find_sections(item.pieces, {stretch.first for stretch in stretches})
    with ThreadPoolExecutor(threads) as pool:
        dead: list[Bits] | None = None
        losing: set[int] = set()
        if item.compacts:
            search = SharedSearch(
                item=item, seed=seed, on_progress=unheard, counts=counts, pool=pool, threads=threads
            )
            dead = search.run(sections)
            losing = {section.first for section, bits in zip(sections, dead, strict=True) if bits.any()}
        rewritten = choose_rewritten(item, losing)

        def copy(stretch: Stretch) -> Rewrite:
            own = find_sections(stretch.item.pieces)
            at = sum(section.first < stretch.first for section in sections)
            copier = Copier(item=stretch.item, reader=ChunkReader(), on_progress=unheard, counts=Counter())
            return copier.run(
                own,
                rewritten[stretch.first : stretch.end],
                dead[at : at + len(own)] if dead is not None else None,
            )

        # The newest first: most of what is left lies there, and what takes longest should not be begun last.
        copies = [pool.submit(copy, stretch) for stretch in reversed(stretches)]
        return join_rewrites(item, [counts], _gather(item, copies))


def _gather(item: WorkItem, copies: Sequence[Future[Rewrite]]) -> list[Rewrite]:
    """All of them; if one has failed, what the others wrote is taken away."""
    try:
        return [copy.result() for copy in copies]
    except BaseException:
        for copy in copies:
            copy.cancel()
        wait(copies)
        delete_added(
            item, [copy.result() for copy in copies if not copy.cancelled() and copy.exception() is None]
        )
        raise

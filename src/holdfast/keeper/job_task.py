"""One job, done where the files are: what a Spark task runs."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np

from holdfast.errors import StoreFailed
from holdfast.keeper.bits import Bits
from holdfast.keeper.chunks import ChunkReader
from holdfast.keeper.copying import Copier
from holdfast.keeper.dead import DeadSearch, unheard
from holdfast.keeper.jobs import Answer, CopyJob, Job, MarkJob, Marks, RewriteJob, SectionMarks
from holdfast.keeper.sections import find_sections
from holdfast.keeper.task import rewrite
from holdfast.keeper.threaded import rewrite_in_threads
from holdfast.keeper.work import Rewrite
from holdfast.records.crc import crc32c
from holdfast.store.marks import read_marks, write_marks
from holdfast.store.segment import segment_file


def run_job(job: Job, *, seed: int) -> Answer:
    """Do a job. `seed` keys the hash of the keys: the same for all jobs of one item."""
    match job:
        case RewriteJob(threads=threads) if threads > 1 and job.item.pieces:
            return rewrite_in_threads(job.item, threads=threads, seed=seed)
        case RewriteJob():
            return rewrite(job.item, seed=seed)
        case MarkJob():
            return _mark(job, seed)
        case CopyJob():
            return _copy(job)


def _mark(job: MarkJob, seed: int) -> Marks:
    item, counts = job.item, Counter[str]()
    search = DeadSearch(
        item=item,
        seed=seed,
        part=job.part,
        parts=job.parts,
        reader=ChunkReader(),
        on_progress=unheard,
        counts=counts,
    )
    found = search.run(find_sections(item.pieces, job.bounds))
    file = segment_file(UUID(item.topic_id), item.partition, item.first, item.lease, uuid4().hex)
    write_marks(Path(item.directory), file, [bits.octets.data for bits in found if bits.count])
    return Marks(
        file=file,
        position=0,
        sections=tuple(
            SectionMarks(
                records=bits.count,
                dead=int(np.bitwise_count(bits.octets).sum(dtype=np.int64)),
                crc=crc32c(bits.octets.data),
            )
            for bits in found
        ),
        counts=dict(counts),
    )


def _copy(job: CopyJob) -> Rewrite:
    item = job.item
    copier = Copier(item=item, reader=ChunkReader(), on_progress=unheard, counts=Counter())
    dead = list(_join_marks(job)) if item.compacts else None
    return copier.run(find_sections(item.pieces), job.rewritten, dead)


def _join_marks(job: CopyJob) -> Iterator[Bits]:
    """Section by section: a record goes if any part says so."""
    parts = [list(_read_marks(job.item.directory, marks)) for marks in job.marks]
    for sections in zip(*parts, strict=True):
        count = sections[0].count
        if any(bits.count != count for bits in sections):
            raise StoreFailed(
                f"the marks in {', '.join(marks.file for marks in job.marks)} do not fit each other: files have changed"
            )
        yield Bits(count, np.bitwise_or.reduce([bits.octets for bits in sections]))


def _read_marks(directory: str, marks: Marks) -> Iterator[Bits]:
    position = marks.position
    for section in marks.sections:
        data = (
            read_marks(Path(directory), marks.file, position, section.size_bytes) if section.records else b""
        )
        if crc32c(data) != section.crc:
            raise StoreFailed(f"the marks in {marks.file} are damaged")
        position += section.size_bytes
        yield Bits(section.records, np.frombuffer(data, np.uint8))

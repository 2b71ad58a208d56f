"""Rewrites as jobs for many tasks at once: which item is hot, what it is split into, and how it becomes one again.

An item is hot when one task would be busy with it long after all others are done. Splitting is not free: every task of
the first phase reads all of the item, however few keys are its own.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.errors import HoldfastError, StoreFailed
from holdfast.keeper.jobs import Answer, CopyJob, Job, MarkJob, Marks, RewriteJob
from holdfast.keeper.runner import Done, Progress, Result
from holdfast.keeper.sections import Section, choose_rewritten, find_sections
from holdfast.keeper.stretches import Stretch, cut_stretches, delete_added, join_rewrites
from holdfast.keeper.work import Rewrite, WorkItem
from holdfast.store.segments import delete_segment

MARK_PARTS_MAX = 8
"""With more, tasks do little but read what is not theirs."""

RunJobs = Callable[[Sequence[Job]], Iterator[tuple[int, Answer | HoldfastError]]]
"""Does jobs side by side: (number of the job, answer) as they are done."""


def choose_parts(items: Sequence[WorkItem], *, tasks_max: int, split_bytes_min: int) -> list[int]:
    """For each item, among how many tasks it is divided: those that are more than one task's share of all items."""
    share_bytes = max(sum(item.size_bytes for item in items) / max(tasks_max, 1), split_bytes_min, 1)
    return [min(math.ceil(item.size_bytes / share_bytes), max(tasks_max, 1)) or 1 for item in items]


def run_whole(
    items: Sequence[WorkItem], threads: Sequence[int], run_jobs: RunJobs, on_progress: Progress
) -> Iterator[Done]:
    """One job for each item, with so many threads."""
    jobs = [RewriteJob(item=item, threads=count) for item, count in zip(items, threads, strict=True)]
    done: list[tuple[int, Result]] = []
    try:
        for number, answer in run_jobs(jobs):
            assert not isinstance(answer, Marks), answer
            on_progress(_size_bytes(jobs[number]))
            done.append((number, answer))
    except Exception:
        yield done  # what is done is done, whatever became of the others
        raise
    yield done


def run_split(
    items: Sequence[WorkItem], parts: Sequence[int], run_jobs: RunJobs, on_progress: Progress
) -> Iterator[Done]:
    """Those in one part and those that need no marks first, then the others."""
    splits = [_Split(item, count) for item, count in zip(items, parts, strict=True)]
    try:
        for phase in (_Split.first_jobs, _Split.copy_jobs):
            jobs = [(number, job) for number, split in enumerate(splits) for job in phase(split)]
            if not jobs:
                continue
            for at, answer in run_jobs([job for _, job in jobs]):
                number, job = jobs[at]
                splits[number].take(job, answer)
                on_progress(_size_bytes(job))
            numbers = dict.fromkeys(number for number, _ in jobs)
            done = [(number, result) for number in numbers if (result := splits[number].result) is not None]
            if done:
                yield done
    finally:
        for split in splits:
            split.tidy()


@dataclass(slots=True)
class _Split:
    item: WorkItem
    parts: int
    result: Result | None = None
    _stretches: list[Stretch] = field(default_factory=list)
    _sections: list[Section] = field(default_factory=list)
    _marks: list[Marks] = field(default_factory=list)
    _copies_left: int = 0
    _rewrites: list[Rewrite] = field(default_factory=list)

    def first_jobs(self) -> list[Job]:
        item = self.item
        if self.parts == 1 or not item.pieces:
            return [RewriteJob(item=item)]
        self._stretches = cut_stretches(item, self.parts)
        bounds = (0, *(stretch.end for stretch in self._stretches))
        self._sections = find_sections(item.pieces, bounds)
        if not item.compacts:
            return self._copy([True] * len(item.pieces))
        parts = min(self.parts, MARK_PARTS_MAX)
        return [MarkJob(item=item, part=part, parts=parts, bounds=bounds) for part in range(parts)]

    def copy_jobs(self) -> list[Job]:
        """Once all marks are there."""
        if self.result is not None or not self._marks:
            return []
        losing = {
            section.first
            for number, section in enumerate(self._sections)
            if any(marks.sections[number].dead for marks in self._marks)
        }
        return self._copy(choose_rewritten(self.item, losing))

    def take(self, job: Job, answer: Answer | HoldfastError) -> None:
        """What a job has come to. An item of which one job fails has failed."""
        if isinstance(answer, HoldfastError):
            self.result = answer
        elif isinstance(answer, Marks):
            self._marks.append(answer)
        elif isinstance(job, RewriteJob):
            self.result = answer
        else:
            self._rewrites.append(answer)
            if self.result is None and len(self._rewrites) == self._copies_left:
                self.result = join_rewrites(
                    self.item, [marks.counts for marks in self._marks], self._rewrites
                )

    def tidy(self) -> None:
        """Nobody needs marks any more, nor segments of an item that has failed; what stays is collected some day."""
        for marks in self._marks:
            with suppress(StoreFailed):
                delete_segment(Path(self.item.directory), marks.file)
        if not isinstance(self.result, Rewrite):
            delete_added(self.item, self._rewrites)

    def _copy(self, rewritten: list[bool]) -> list[Job]:
        """One job for each stretch."""
        self._copies_left = len(self._stretches)
        return [
            CopyJob(
                item=stretch.item,
                rewritten=tuple(rewritten[stretch.first : stretch.end]),
                marks=tuple(self._marks_of(marks, stretch.first, stretch.end) for marks in self._marks),
            )
            for stretch in self._stretches
        ]

    def _marks_of(self, marks: Marks, first: int, end: int) -> Marks:
        """Those of the sections of a stretch."""
        wanted = [number for number, section in enumerate(self._sections) if first <= section.first < end]
        before = marks.sections[: wanted[0]]
        return replace(
            marks,
            position=sum(section.size_bytes for section in before),
            sections=marks.sections[wanted[0] : wanted[-1] + 1],
            counts={},
        )


def _size_bytes(job: Job) -> int:
    """What a round counts for it."""
    if isinstance(job, MarkJob):
        return job.item.size_bytes // job.parts
    return job.item.size_bytes * (2 if isinstance(job, RewriteJob) and job.item.compacts else 1)

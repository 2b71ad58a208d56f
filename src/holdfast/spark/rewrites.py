"""Rewrites as Spark tasks: a job names files, the task runs the kernel on them, rows that say so come back.

No record passes through the driver or the JVM.
"""

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError, KeeperFailed, StoreFailed
from holdfast.keeper.jobs import Answer, Job, decode_answer, decode_job, encode
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.runner import Done, Progress, Result
from holdfast.keeper.split import choose_parts, run_split, run_whole
from holdfast.keeper.work import Rewrite, WorkItem
from holdfast.spark.driving import apart, count_tasks_at_once, runs_here, told_briefly
from holdfast.spark.missing import explain_missing
from holdfast.spark.reach import check_store, check_written
from holdfast.spark.tasks import run_tasks, side_by_side

logger = logging.getLogger(__name__)

SCHEMA = "number long, answer binary, failure string"
Told = tuple[int, bytes | None, str | None]
"""The number of a job, and its answer or why there is none."""


class SparkRunner:
    """Runs every item as a task of its own, a hot one as several. Implements `keeper.runner.Runner`.

    Where all tasks run on this machine, a round is one task with as many threads, which share the items, and a hot one
    among themselves: Spark takes 60 ms from one task to the next, and a thread that syncs lets another one compute.
    """

    def __init__(self, session: SparkSession, limits: KeeperLimits | None = None) -> None:
        self._session = session
        self._limits = limits or KeeperLimits()

    def run(self, items: Sequence[WorkItem], on_progress: Progress) -> Iterator[Done]:
        """See `Runner`; results come when the last task is done, those of hot items after those of the others."""
        with told_briefly(self._session):
            tasks_max = apart(lambda: count_tasks_at_once(self._session))
        parts = choose_parts(items, tasks_max=tasks_max, split_bytes_min=self._limits.split_bytes_min)
        # One for both phases: whose key is whose must not change between attempts.
        seed = secrets.randbits(63)
        run = run_whole if runs_here(self._session) else run_split

        def run_jobs(jobs: Sequence[Job]) -> Iterator[tuple[int, Answer | HoldfastError]]:
            return self._run_jobs(jobs, seed)

        for done in run(items, parts, run_jobs, on_progress):
            yield [(number, _seen(items[number], result)) for number, result in done]

    def _run_jobs(self, jobs: Sequence[Job], seed: int) -> Iterator[tuple[int, Answer | HoldfastError]]:
        encoded = [encode(job) for job in jobs]
        # The largest first: one that begins last would be worked at when the other threads are done.
        order = sorted(range(len(jobs)), key=lambda number: -jobs[number].item.size_bytes)

        def work(places: Iterable[int], threads: int) -> Iterator[pa.RecordBatch]:
            numbers = [order[place] for place in places]
            done = side_by_side(lambda number: _run_one(number, encoded[number], seed), numbers, threads)
            yield from map(_to_batch, done)

        try:
            with told_briefly(self._session):
                told = apart(lambda: run_tasks(self._session, work, len(jobs), SCHEMA, None))
        except KeeperFailed as failure:
            if len(jobs) == 1:
                yield 0, failure
                return
            # Spark gives up all tasks for the sake of one, be it one that takes too much memory, each time.
            logger.warning("%s: %d rewrites are run again, one by one", failure, len(jobs))
            for number, job in enumerate(jobs):
                yield from ((number, answer) for _, answer in self._run_jobs([job], seed))
            return
        for row in (row for batch in told for row in batch.to_pylist()):
            answer = row["answer"]
            yield row["number"], KeeperFailed(row["failure"]) if answer is None else decode_answer(answer)


def _seen(item: WorkItem, result: Result) -> Result:
    """A rewrite that the keeper does not see has failed."""
    if isinstance(result, Rewrite):
        try:
            check_written(item, result)
        except StoreFailed as unseen:
            return unseen
    return result


def _run_one(number: int, encoded: bytes, seed: int) -> Told:
    try:
        # In the worker: the driver has no use for numba.
        from holdfast.keeper.job_task import run_job  # noqa: PLC0415

        job = decode_job(encoded)
        check_store(job.item)
        return number, encode(run_job(job, seed=seed)), None
    except ImportError as missing:
        return number, None, explain_missing(missing)
    except HoldfastError as error:
        return number, None, str(error)


def _to_batch(told: Told) -> pa.RecordBatch:
    number, answer, failure = told
    columns = [
        pa.array([number], pa.int64()),
        pa.array([answer], pa.binary()),
        pa.array([failure], pa.string()),
    ]
    return pa.record_batch(columns, names=["number", "answer", "failure"])

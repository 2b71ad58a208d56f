"""Rewrites as Spark tasks: a job names files, the task runs the kernel on them, rows of JSON come back.

No record passes through the driver or the JVM. `mapInArrow` and not RDDs, so that Spark Connect will do; only on
this machine an RDD, which is faster.
"""

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

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

logger = logging.getLogger(__name__)

COLUMNS = "number long, answer string, failure string"
SCHEMA = pa.schema([("number", pa.int64()), ("answer", pa.string()), ("failure", pa.string())])
NAMES = SCHEMA.names

Told = tuple[int, str | None, str | None]
"""The number of a job, and its answer or why there is none."""
RunPlaces = Callable[[Iterable[int]], Iterator[Told]]


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
        is_here = runs_here(self._session)
        run = run_whole if is_here else run_split
        threads = tasks_max if is_here else 1

        def run_jobs(jobs: Sequence[Job]) -> Iterator[tuple[int, Answer | HoldfastError]]:
            return self._run_jobs(jobs, seed, tasks=1 if is_here else len(jobs), threads=threads)

        for done in run(items, parts, run_jobs, on_progress):
            yield [(number, _seen(items[number], result)) for number, result in done]

    def _run_jobs(
        self, jobs: Sequence[Job], seed: int, *, tasks: int, threads: int
    ) -> Iterator[tuple[int, Answer | HoldfastError]]:
        encoded = [encode(job) for job in jobs]
        # The largest first: one that begins last would be worked at when the other threads are done.
        order = sorted(range(len(jobs)), key=lambda number: -jobs[number].item.size_bytes)

        def run_places(places: Iterable[int]) -> Iterator[Told]:
            numbers = [order[place] for place in places]
            with ThreadPoolExecutor(min(threads, len(numbers) or 1)) as pool:
                yield from pool.map(lambda number: _run_one(number, encoded[number], seed), numbers)

        try:
            with told_briefly(self._session):
                collect = _collect_here if runs_here(self._session) else _collect
                rows = apart(lambda: collect(self._session, run_places, len(jobs), tasks))
        except KeeperFailed as failure:
            if len(jobs) == 1:
                yield 0, failure
                return
            # Spark gives up all tasks for the sake of one, be it one that takes too much memory, each time.
            logger.warning("%s: %d rewrites are run again, one by one", failure, len(jobs))
            for number, job in enumerate(jobs):
                again = self._run_jobs([job], seed, tasks=1, threads=1)
                yield from ((number, answer) for _, answer in again)
            return
        for number, answer, why in rows:
            yield number, KeeperFailed(why or "") if answer is None else decode_answer(answer)


def _collect(session: SparkSession, run_places: RunPlaces, count: int, tasks: int) -> list[Told]:
    def run_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for told in run_places(place for batch in batches for place in batch.column(0).to_pylist()):
            yield pa.RecordBatch.from_pylist([dict(zip(NAMES, told, strict=True))], SCHEMA)

    frame = session.range(0, count, 1, tasks).mapInArrow(run_tasks, COLUMNS)
    return [(row.number, row.answer, row.failure) for row in frame.collect()]


def _collect_here(session: SparkSession, run_places: RunPlaces, count: int, tasks: int) -> list[Told]:
    """Such a session is none of Spark Connect, and an RDD needs no plan: that is a tenth of a second less."""
    return session.sparkContext.parallelize(range(count), tasks).mapPartitions(run_places).collect()


def _seen(item: WorkItem, result: Result) -> Result:
    """A rewrite that the keeper does not see has failed."""
    if isinstance(result, Rewrite):
        try:
            check_written(item, result)
        except StoreFailed as unseen:
            return unseen
    return result


def _run_one(number: int, encoded: str, seed: int) -> Told:
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

"""Numbered pieces of work as Spark tasks that give back Arrow batches.

Where all tasks run on this machine, it is one task with as many threads, which take the next piece when they are done
with one: kernels run outside of Python's lock, no thread waits for another's share, and Spark takes 60 ms from one task
to the next. Such a session is none of Spark Connect, so that an RDD can be taken, which needs no plan.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.driving import count_tasks_at_once, runs_here

Made = TypeVar("Made")

Work = Callable[[Iterable[int], int], Iterator[pa.RecordBatch]]
"""Does the pieces with these numbers, by so many threads."""


def run_tasks(
    session: SparkSession, work: Work, count: int, schema: str, tasks: int | None
) -> list[pa.RecordBatch]:
    """All that the work gives back of so many pieces; its types are `schema`."""
    if not runs_here(session):
        batches: list[pa.RecordBatch] = run_frame(session, work, count, schema, tasks).toArrow().to_batches()
        return batches
    threads = count_tasks_at_once(session)
    found: list[pa.RecordBatch] = (
        session.sparkContext.parallelize(range(count), 1)
        .mapPartitions(lambda numbers: work(numbers, threads))
        .collect()
    )
    return found


def run_frame(session: SparkSession, work: Work, count: int, schema: str, tasks: int | None) -> DataFrame:
    """The same as a plan, in so many tasks, or one for each piece: for what may be too much for the driver."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work((number for batch in batches for number in batch.column(0).to_pylist()), 1)

    return session.range(0, count, 1, max(1, min(count, tasks or count))).mapInArrow(run, schema)


def side_by_side(do: Callable[[int], Made], numbers: Sequence[int], threads: int) -> Iterator[Made]:
    """What comes of each number, in their order."""
    if min(threads, len(numbers)) <= 1:
        yield from map(do, numbers)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(do, numbers)

"""Rewrites as Spark tasks: a work item names files, the task runs the kernel on them, rows of JSON come back.

No record passes through the driver or the JVM. `mapInArrow` and not RDDs, so that Spark Connect will do.
"""

import secrets
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError, KeeperFailed
from holdfast.keeper.runner import Progress, Result
from holdfast.keeper.work import Rewrite, WorkItem

SCHEMA = "number long, rewrite string, failure string"


class SparkRunner:
    """Runs every item as a task of its own in one job. Implements `keeper.runner.Runner`."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def run(self, items: Sequence[WorkItem], on_progress: Progress) -> Iterator[tuple[int, Result]]:
        """See `Runner`; results come when the last task is done."""
        encoded = [item.encode() for item in items]
        seed = secrets.randbits(63)

        def run_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield _run_one(number, encoded[number], seed)

        frame = self._session.range(0, len(items), 1, len(items)).mapInArrow(run_tasks, SCHEMA)
        for row in frame.collect():
            on_progress(items[row.number].size_bytes * (2 if items[row.number].compacts else 1))
            result = KeeperFailed(row.failure) if row.rewrite is None else Rewrite.decode(row.rewrite)
            yield row.number, result


def _run_one(number: int, encoded: str, seed: int) -> pa.RecordBatch:
    # In the worker: the driver has no use for numba.
    from holdfast.keeper.task import rewrite  # noqa: PLC0415

    done, failure = None, None
    try:
        done = rewrite(WorkItem.decode(encoded), seed=seed).encode()
    except HoldfastError as error:
        failure = str(error)
    return pa.record_batch(
        {
            "number": pa.array([number], pa.int64()),
            "rewrite": pa.array([done], pa.string()),
            "failure": pa.array([failure], pa.string()),
        }
    )

"""How a keeper drives a session: so that signals end it in good order, and what fails is told in one line."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkAttributeError, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from holdfast.errors import KeeperFailed, SparkLost
from holdfast.spark.master import is_local
from holdfast.spark.traces import cause_line

FAILURES: Final = (PySparkException, Py4JError, OSError, EOFError)
"""What PySpark raises: it has errors of its own, those of its way to the JVM, and those of sockets."""

Done = TypeVar("Done")


def apart(work: Callable[[], Done]) -> Done:
    """Do something with Spark in a thread of its own, and wait for it.

    A signal ends the thread that waits. If it ended the one that talks to the JVM, in the middle of an answer, then the
    next question, that of an orderly end, would be given the rest of it.
    """
    done: Future[Done] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as failure:
            done.set_exception(failure)

    threading.Thread(target=run, name="spark", daemon=True).start()
    return done.result()


def begin(start: Callable[[], SparkSession]) -> SparkSession:
    """A session; SparkLost if its JVM does not live long enough."""
    try:
        return apart(start)
    except FAILURES as failure:
        raise SparkLost(
            f"Spark's Java has ended before it had begun: {cause_line(str(failure))}"
        ) from failure


@contextmanager
def told_briefly(session: SparkSession) -> Iterator[None]:
    """KeeperFailed for a job that failed, SparkLost when there is nobody left to run one."""
    try:
        yield
    except FAILURES as failure:
        if is_there(session):
            raise KeeperFailed(f"a Spark task failed: {cause_line(str(failure))}") from failure
        raise SparkLost(
            "Spark's Java has ended in the middle of its work: nothing of that is published, the next keeper does it"
        ) from failure


def count_tasks_at_once(session: SparkSession) -> int:
    """How many tasks run side by side, as far as Spark knows now."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except PySparkAttributeError:
        # Spark Connect does not tell. A range is cut into as many parts.
        return session.range(1 << 16).select(spark_partition_id()).distinct().count()


def runs_here(session: SparkSession) -> bool:
    """Whether all tasks run on this machine, side by side; Spark Connect does not tell."""
    try:
        return is_local(session.sparkContext.master)
    except PySparkAttributeError:
        return False


def is_there(session: SparkSession) -> bool:
    """Whether the session can be given something to do."""
    try:
        return bool(session.version) and not session.sparkContext._jsc.sc().isStopped()
    except PySparkAttributeError:
        return True
    except (*FAILURES, AttributeError):
        return False


def stop_quietly(session: SparkSession) -> None:
    """End the session; one whose JVM is gone has ended."""
    with suppress(*FAILURES, AttributeError):
        session.stop()

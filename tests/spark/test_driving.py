"""Failures of jobs, and signals that do not break off in the middle of Spark's protocol."""

import os
import signal
import threading

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import KeeperFailed
from holdfast.spark.driving import apart, count_tasks_at_once, is_there, told_briefly


def test_a_job_that_failed_is_told_in_one_line(spark: SparkSession) -> None:
    """While the session is there it is the job's own affair."""
    with pytest.raises(KeeperFailed) as failed, told_briefly(spark):
        raise OSError("\nsomething else\nand more")
    assert str(failed.value) == "a Spark task failed: something else"


def test_a_signal_ends_who_waits_and_not_who_asks(spark: SparkSession) -> None:
    """The session is as good as before: it can be asked, and stopped."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit

    before = signal.signal(signal.SIGUSR1, leave)
    is_asked, is_interrupted = threading.Event(), threading.Event()

    def ask() -> int:
        is_asked.set()
        is_interrupted.wait()
        return spark.range(1000).count()

    def interrupt() -> None:
        is_asked.wait()
        os.kill(os.getpid(), signal.SIGUSR1)
        is_interrupted.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(SystemExit):
            apart(ask)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert is_there(spark)
    assert spark.range(7).count() == 7


def test_what_is_raised_apart_is_raised_here() -> None:
    """As if it had been done here."""
    with pytest.raises(KeyError):
        apart(lambda: dict[str, int]()["nothing"])
    assert apart(lambda: 5) == 5


def test_how_many_tasks_run_at_once(spark: SparkSession) -> None:
    """The session has two cores."""
    assert count_tasks_at_once(spark) == 2

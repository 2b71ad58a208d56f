"""A query that is stopped in the middle of a batch ends as one that was stopped, whatever Java has to say to that."""

import re
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import NotEnoughReplicas, QueryFailed, WriteRefused
from holdfast.spark.brevity import told_to_spark, was_stopped
from holdfast.spark.steps import Step
from tests.spark.streams import consume, make_topic, read_files, start_sink, wanted, write_files

SPARKS_PATTERN = re.compile(
    r"py4j.protocol.Py4JJavaError: An error occurred while calling((.|\r\n|\r|\n)*)"
    r"(java.lang.InterruptedException|java.io.InterruptedIOException)"
)
JAVA = "py4j.protocol.Py4JJavaError: An error occurred while calling o1.collect.\n"
TRACE = "\tat org.apache.spark.Somewhere.run(Somewhere.scala:1)\n" * 1000
TRACEBACK_MAX = 2_000
STOPS = 3
WAIT_S_MAX = 120.0


class Deaths:
    """What threads of Spark's JVM die of."""

    def __init__(self) -> None:
        self.causes: list[str] = []

    def uncaughtException(self, thread: Any, cause: Any) -> None:
        """One has."""
        self.causes.append(cause.getClass().getName())

    class Java:
        """For py4j."""

        implements: ClassVar = ["java.lang.Thread$UncaughtExceptionHandler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A hook: a task that comes to the step says so, and stays there until it is killed."""

    step: Step
    there: Path

    def __call__(self, step: Step) -> None:
        if step is self.step:
            self.there.touch()
            time.sleep(WAIT_S_MAX)


@pytest.mark.timeout(600)
def test_stopped_in_a_batch(spark: SparkSession, holdfast: str, tmp_path: Path) -> None:
    """Again and again; the query knows that it was stopped, and the next one writes every row once."""
    make_topic(holdfast, "stopped")
    write_files(tmp_path / "in", 2)
    frame = read_files(spark, tmp_path / "in")
    for number in range(STOPS):
        there = tmp_path / f"there-{number}"
        hook = Hold(step=(Step.WRITING, Step.WRITTEN)[number % 2], there=there)
        query = start_sink(frame, holdfast, "stopped", tmp_path / "checkpoint", hook)
        deadline = time.monotonic() + WAIT_S_MAX
        while not there.exists():
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        query.stop()
        assert query.exception() is None
    start_sink(frame, holdfast, "stopped", tmp_path / "checkpoint").awaitTermination()
    assert consume(holdfast, "stopped") == wanted(2)


@pytest.mark.timeout(600)
def test_stopped_with_much_to_say(spark: SparkSession, tmp_path: Path) -> None:
    """Java's trace may be as long as it likes: without `told_to_spark` matching it takes more stack than there is."""
    write_files(tmp_path / "in", 1)
    is_there, is_stopped = threading.Event(), threading.Event()

    def fail(frame: DataFrame, batch_id: int) -> None:
        with told_to_spark():
            is_there.set()
            assert is_stopped.wait(WAIT_S_MAX)
            raise Py4JError(f"{JAVA}: java.lang.InterruptedException\n{TRACE}")

    stream = read_files(spark, tmp_path / "in").writeStream.foreachBatch(fail)
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert is_there.wait(WAIT_S_MAX)
    jvm, deaths = spark.sparkContext._jvm, Deaths()
    jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(deaths)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    deadline = time.monotonic() + WAIT_S_MAX
    while query.isActive:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    is_stopped.set()
    stopping.join(WAIT_S_MAX)
    jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(None)
    assert query.exception() is None
    assert deaths.causes == []


def test_stop_is_told_in_sparks_words() -> None:
    """Short, found by Spark's own pattern, and without the trace that led to it, not even as somebody's cause."""
    for failure in (
        Py4JError(f"{JAVA}: java.lang.InterruptedException\n{TRACE}"),
        Py4JError(f"{JAVA}: org.apache.spark.SparkException: Job 7 cancelled\n{TRACE}"),
    ):
        try:
            with told_to_spark():
                try:
                    raise failure
                except Py4JError as cause:
                    raise WriteRefused("the batch has to be written anew") from cause
        except QueryFailed:
            told = traceback.format_exc()
        assert len(told) < TRACEBACK_MAX
        assert SPARKS_PATTERN.search(told)


@pytest.mark.parametrize(
    ("told", "is_stop"),
    [
        (f"{JAVA}: java.lang.InterruptedException\n{TRACE}", True),
        (f"{JAVA}: java.nio.channels.ClosedByInterruptException\n{TRACE}", True),
        (f"{JAVA}: org.apache.spark.SparkException: Job 7 cancelled\n{TRACE}", True),
        (f"{JAVA}: org.apache.spark.SparkException: Job 7 cancelled part of cancelled job group 3-4\n", True),
        (
            f"{JAVA}: org.apache.spark.SparkException: Job 7 cancelled because SparkContext was shut down\n",
            True,
        ),
        ("[JOB_CANCELLED] Job 12 cancelled as part of cancellation of all jobs. SQLSTATE: XXKDA", True),
        (f"{JAVA}: ConnectionFailed: node 1 left payments-cancelled-0 out of its answer\n{TRACE}", False),
        (f"{JAVA}: StoreFailed: store 'cancelled' is shut down\n{TRACE}", False),
    ],
)
def test_a_stop_is_known_by_sparks_words_alone(told: str, is_stop: bool) -> None:
    """Names of topics are in such texts, and a topic may have any: what is no stop is tried again."""
    assert was_stopped(Py4JError(told)) is is_stop
    with pytest.raises(QueryFailed) as raised, told_to_spark():
        raise Py4JError(told)
    assert bool(SPARKS_PATTERN.search(str(raised.value))) is is_stop


def test_told_twice_is_told_the_same() -> None:
    """A sink tells what it is told, and the query around it tells that: the error that a task raised stays itself."""
    trace = f"{JAVA}: org.apache.spark.SparkException\n{TRACE}holdfast.errors.NotEnoughReplicas: one of two is there"
    with pytest.raises(NotEnoughReplicas, match="one of two"), told_to_spark(), told_to_spark():
        raise Py4JError(trace)


def test_what_is_not_javas_passes() -> None:
    """Our own errors are short, and named in what Spark throws."""
    with pytest.raises(WriteRefused, match="anew"), told_to_spark():
        raise WriteRefused("the batch has to be written anew")

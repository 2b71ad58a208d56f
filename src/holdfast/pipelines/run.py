"""Runs one part of a pipeline, service or adapter, until it is told to leave."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Final

from pyspark import cloudpickle
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.errors import HoldfastError, PipelineRefused
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.outage import Outage, passing
from holdfast.pipelines.queries import RunningQuery, adapter_query, fingerprint_query, service_query
from holdfast.pipelines.state import PartFiles, PartState
from holdfast.pipelines.status import FINGERPRINTS, SERVICE
from holdfast.pipelines.transform import find_transform
from holdfast.spark.session import spark_session
from holdfast.spark.traces import cause_line

SPARK: Final = {"spark.sql.adaptive.enabled": "false"}
"""For micro-batches: to plan anew between two stages takes longer than what it saves, and makes two jobs of one."""
POLL_S: Final = 0.1
LOOK_S: Final = 1.0
AGAIN_S: Final = 3.0
"""Before a query is started again; its clients have been patient before it ended."""
KEEP_MS: Final = 30_000
"""So often are fingerprints brought up to date, or as often as micro-batches begin: whoever asks reads the rest."""
STOP_S_MAX: Final = 60.0
"""A batch that takes longer is broken off; the next start makes it anew."""
QUERY_LOGGER: Final = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
CONTEXT_LOGGER: Final = "DataFrameQueryContextLogger"
"""Of PySpark, which logs each error of Java's that has a place in Python, once for each attempt."""

_LOG: Final = logging.getLogger(__name__)

OnState = Callable[[PartState], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What is not the pipeline's own affair."""

    master: str = "local[*]"
    config: Mapping[str, str] = field(default_factory=dict)
    """Of Spark."""
    is_once: bool = False
    """Take what is there now, then leave."""
    keeps_fingerprints: bool = False
    """Beside the service, for reconciliation."""


class Run:
    """One process of a pipeline."""

    def __init__(self, pipeline: Pipeline, part: str, options: RunOptions, *, on_state: OnState) -> None:
        self._pipeline = pipeline
        self._part = part
        self._options = options
        self._on_state = on_state
        self._files = PartFiles(pipeline.checkpoint, part)
        self._leave = threading.Event()
        self._outages: dict[RunningQuery, Outage] = {}
        now_ms = _now_ms()
        self._state = PartState(pid=os.getpid(), started_ms=now_ms, updated_ms=now_ms, phase="starting")

    def run(self) -> None:
        """Returns when it was told to leave, or when everything is taken; PipelineRefused when a query failed."""
        with self._files.hold():
            self._tell()
            try:
                self._run()
            except BaseException as failure:
                self._tell(phase="failed", error=_told(failure))
                raise
            self._tell(phase="stopped")

    def _run(self) -> None:
        transform = find_transform(self._pipeline) if self._part == SERVICE else None
        # Whoever has given a wrong address wants to know: once it has run, a query waits for a log that is away.
        with Cluster(self._pipeline.endpoint) as cluster:
            cluster.topic(self._pipeline.ingest)
        if transform is not None:
            # Workers need not find the module where this process has found it.
            cloudpickle.register_pickle_by_value(sys.modules[self._pipeline.transform.partition(":")[0]])
        session = self._start_session()
        # Not before: Spark has a handler of its own for ^C.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            self._tell(spark_ui=session.sparkContext.uiWebUrl or "")
            queries = self._start_queries(session, transform)
            self._watch(queries, self._start_fingerprints(session))
        finally:
            session.stop()

    def _start_session(self) -> SparkSession:
        config = {"spark.ui.enabled": "true"} | SPARK | dict(self._options.config)
        name = f"holdfast pipeline {self._pipeline.name} {self._part}"
        session = spark_session(name, master=self._options.master, config=config)
        _quiet(session)
        return session

    def _start_queries(
        self, session: SparkSession, transform: Callable[..., Any] | None
    ) -> list[RunningQuery]:
        interval = f"{self._pipeline.trigger.interval_ms} milliseconds"
        trigger = {"availableNow": True} if self._options.is_once else {"processingTime": interval}
        if transform is not None:
            return [service_query(session, self._pipeline, transform, trigger)]
        return [
            adapter_query(session, self._pipeline, adapter, trigger) for adapter in self._pipeline.adapters
        ]

    def _start_fingerprints(self, session: SparkSession) -> list[RunningQuery]:
        """Beside the service; what is taken once is read when somebody asks."""
        if self._part != SERVICE or self._options.is_once or not self._options.keeps_fingerprints:
            return []
        trigger = {"processingTime": f"{max(KEEP_MS, self._pipeline.trigger.interval_ms)} milliseconds"}
        return [fingerprint_query(session, self._pipeline, trigger)]

    def _watch(self, queries: Sequence[RunningQuery], beside: Sequence[RunningQuery]) -> None:
        """Until all have ended, or are told to. Those beside are not told of: they are no part of the way."""
        everything = (*queries, *beside)
        self._outages = {query: Outage() for query in everything}
        due = time.monotonic()
        while True:
            ended = [self._has_ended(query) for query in everything]  # all of them are looked at
            if all(ended):
                break
            if self._is_leaving():
                self._stop(everything)
                break
            if time.monotonic() >= due:
                due = time.monotonic() + LOOK_S
                self._look(queries, beside)
            self._leave.wait(POLL_S)
        self._look(queries, beside)
        for query in everything:
            self._raise_failure(query)

    def _has_ended(self, query: RunningQuery) -> bool:
        """Whether it is not active any more, and was not started again, either."""
        if query.is_active or self._outlast(query):
            return False
        if query.start_again_if_python_was_slow():
            self._outages[query].start_again()
            return False
        self._raise_failure(query)
        return True

    def _outlast(self, query: RunningQuery) -> bool:
        """Starts a query again that has failed of what passes, such as a log that restarts; says so."""
        found = passing(query.failure())
        if found is None or self._is_leaving():
            return False
        query.look()  # what it has done before it failed is told by nobody else
        if not self._outages[query].may_pass(was_well=query.was_well):
            return False
        _LOG.warning("the query has ended and is started again in %.0f s: %s", AGAIN_S, found)
        self._tell(error=str(found))
        self._leave.wait(AGAIN_S)
        if self._is_leaving():
            return False
        self._outages[query].start_again()
        query.start_again()
        return True

    def _is_leaving(self) -> bool:
        return self._leave.is_set() or self._files.was_asked_to_stop()

    def _raise_failure(self, query: RunningQuery) -> None:
        """But for what passes, where whoever has stopped it need not hear of it: the next start goes on from there."""
        failure = query.failure()
        if failure is not None and not (self._is_leaving() and passing(failure)):
            path = self._files.keep_trace(str(failure))
            _LOG.info("the whole trace is in %s", path)
            why = cause_line(str(failure))
            if query.name == FINGERPRINTS:
                there = self._pipeline.checkpoint / FINGERPRINTS
                raise PipelineRefused(
                    f"the query that keeps fingerprints ended: {why}. Its checkpoint is {there}, and nothing else:"
                    " without that it begins anew"
                )
            raise PipelineRefused(f"the query ended: {why}")

    def _look(self, queries: Sequence[RunningQuery], beside: Sequence[RunningQuery]) -> None:
        found = tuple(query.look() for query in queries)
        # What went wrong is told until all is well again.
        is_well = all(query.was_well for query in (*queries, *beside))
        self._tell(phase="running", queries=found, error="" if is_well else self._state.error)

    def _stop(self, queries: Sequence[RunningQuery]) -> None:
        """Between two batches. What comes in between is safe too: a batch that is broken off is made anew."""
        deadline = time.monotonic() + STOP_S_MAX
        for query in queries:
            while query.is_in_a_batch and time.monotonic() < deadline:
                time.sleep(POLL_S / 10)
            query.stop()

    def _tell(self, **changes: Any) -> None:
        self._state = replace(self._state, updated_ms=_now_ms(), **changes)
        self._files.write(self._state)
        self._on_state(self._state)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._leave.set()


def _quiet(session: SparkSession) -> None:
    """What a query fails with is told by whoever watches it: Spark logs it as well, in hundreds of lines."""
    level = session._jvm.org.apache.logging.log4j.Level.OFF
    session._jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(QUERY_LOGGER, level)
    PySparkLogger.getLogger(CONTEXT_LOGGER).disabled = True


def _told(failure: BaseException) -> str:
    """In one line; our own errors are one."""
    if isinstance(failure, HoldfastError):
        return str(failure)
    return cause_line(str(failure)) or type(failure).__name__


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

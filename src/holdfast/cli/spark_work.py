"""Spark at work for a command: a spinner while it starts, how many tasks are done, and failures in one line."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.status import Status

POLL_SECONDS = 0.3
LINE_SECONDS = 30.0
"""Where there is no terminal, a line tells so often that something goes on."""


class SparkWork:
    """What is going on, for who waits for it."""

    def __init__(self, session: "SparkSession", status: "Status | None") -> None:
        self.session = session
        self._status = status

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """A job that is called so while it runs; whatever Spark throws in here becomes one line."""
        from holdfast.spark.failures import told_in_one_line

        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(what, over), name="progress", daemon=True)
        watcher.start()
        try:
            with told_in_one_line():
                yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, what: str, over: threading.Event) -> None:
        told = time.monotonic()
        self._tell(f"{what} …", is_line=False)
        while not over.wait(POLL_SECONDS):
            is_line = time.monotonic() - told >= LINE_SECONDS
            if is_line:
                told = time.monotonic()
            self._tell(f"{what}: {_count_tasks(self.session)}", is_line=is_line)

    def _tell(self, text: str, *, is_line: bool) -> None:
        if self._status is not None:
            self._status.update(text)
        elif is_line:
            click.echo(text, err=True)


@contextmanager
def spark_work(app_name: str, master: str) -> Iterator[SparkWork]:
    """A session for one command: the one that runs already, or else a new one that ends with the block."""
    from pyspark.sql import SparkSession
    from rich.console import Console

    from holdfast.spark.failures import told_in_one_line
    from holdfast.spark.session import spark_session

    status = Console(stderr=True).status("starting Spark …") if sys.stderr.isatty() else None
    if status is not None:
        status.start()
    try:
        is_ours = SparkSession.getActiveSession() is None
        with told_in_one_line():
            session = spark_session(app_name, master=master)
        try:
            yield SparkWork(session, status)
        finally:
            if is_ours:
                session.stop()
    finally:
        if status is not None:
            status.stop()


def _count_tasks(session: "SparkSession") -> str:
    """How far the stages are that run now; under Spark Connect nobody can tell."""
    context = getattr(session, "_sc", None)
    if context is None:
        return "at work"
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    total = sum(stage.numTasks for stage in stages if stage is not None)
    return f"{done} of {total} tasks" if total else "planning"

"""One SIGKILL at one step of a micro-batch, and what is in the topic afterwards; shared by tests and `make soak`."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.spark.steps import Step
from tests.process import HoldfastProcess
from tests.spark.streams import FORMS, KillAt, consume, make_topic, read_files, wanted, write_files

FILES = 3
DRIVER_S_MAX = 300.0
STARTS_MAX = 6

Victim = Literal["driver", "worker", "holdfast"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Who dies, at which step, the how manieth time that any process comes to it."""

    victim: Victim
    form: str
    step: Step
    nth: int = 2

    def __str__(self) -> str:
        return f"{self.victim}-{self.form}-{self.step.name.lower()}-{self.nth}"


def matrix(forms: Iterable[str] = FORMS) -> Iterator[Kill]:
    """Every victim at every step that it can be killed at, in both forms of the sink."""
    for form in forms:
        for step in Step:
            yield Kill(victim="driver", form=form, step=step)
            yield Kill(victim="holdfast", form=form, step=step)
            if step in {Step.WRITING, Step.WRITTEN}:
                yield Kill(victim="worker", form=form, step=step)


def strike(kill: Kill, spark: SparkSession, holdfast: HoldfastProcess, directory: Path) -> None:
    """Copies files into a topic, with the kill on the way; raises AssertionError if a row is lost or there twice."""
    topic = f"kill.{kill}"
    make_topic(holdfast.bootstrap, topic)
    files, checkpoint, counter = (directory / name for name in ("in", "checkpoint", "steps"))
    write_files(files, FILES)
    if kill.victim == "driver":
        how = (kill.form, kill.step.name, str(kill.nth))
        run_driver("tests.spark.sink_driver", holdfast.bootstrap, topic, str(directory), *how)
    with restarted(holdfast if kill.victim == "holdfast" else None):
        pids = (holdfast.pid,) if kill.victim == "holdfast" else ()
        hook = KillAt(
            step=kill.step, nth=0 if kill.victim == "driver" else kill.nth, counter=counter, pids=pids
        )
        _run_to_the_end(spark, kill.form, holdfast.bootstrap, topic, files, checkpoint, hook)
    assert counter.stat().st_size >= kill.nth, f"{kill}: the step was never reached"
    found = consume(holdfast.bootstrap, topic)
    assert found == wanted(FILES), f"{kill}: {_told(found)}"


def run_driver(module: str, *arguments: str) -> None:
    """A driver that kills itself on its way."""
    command = [sys.executable, "-m", module, *arguments]
    ended = subprocess.run(command, timeout=DRIVER_S_MAX, check=False, cwd=Path(__file__).parents[2])
    assert ended.returncode == -9, f"the driver ended with {ended.returncode}"


def _run_to_the_end(
    spark: SparkSession, form: str, bootstrap: str, topic: str, files: Path, checkpoint: Path, hook: KillAt
) -> None:
    """As an operator would: a query that fails is started again, with the same checkpoint."""
    for start in range(STARTS_MAX):
        query = FORMS[form](read_files(spark, files), bootstrap, topic, checkpoint, hook)
        try:
            query.awaitTermination()
            return
        except PySparkException:
            # The sink has redone a batch whose worker died; without it the query ends.
            if form == "sink" or start == STARTS_MAX - 1:
                raise


@contextmanager
def restarted(holdfast: HoldfastProcess | None) -> Iterator[None]:
    """While this lasts, a Holdfast that is killed is started again."""
    if holdfast is None:
        yield
        return
    done = threading.Event()
    died = threading.Thread(target=_watch, args=(holdfast, done))
    died.start()
    try:
        yield
    finally:
        done.set()
        died.join()


def _watch(holdfast: HoldfastProcess, done: threading.Event) -> None:
    while not done.wait(0.05):
        if os.waitid(os.P_PID, holdfast.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            holdfast.kill()
            holdfast.start()
            return


def _told(found: Counter[str]) -> str:
    missing, extra = wanted(FILES) - found, found - wanted(FILES)
    return f"{missing.total()} rows are missing, {extra.total()} are there too often"

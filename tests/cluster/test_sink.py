"""Spark's sink on a cluster: executors killed in the middle of a batch, and tasks that Spark runs twice."""

import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from holdfast.spark.steps import Step
from tests.process import HoldfastProcess
from tests.spark.streams import consume, make_topic, read_files, start_sink, wanted, write_files

FILES = 3
DAWDLE_S = 20.0
"""Long enough for Spark to start a second copy elsewhere, see `conftest`."""

# Executors have Holdfast, but not its tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True, kw_only=True)
class Trouble(ABC):
    """A hook: the nth time that any task comes to a step, something happens to it."""

    step: Step
    nth: int
    counter: str

    def __call__(self, step: Step) -> None:
        if step.name != self.step.name:
            return
        with open(self.counter, "ab") as counter:  # noqa: PTH123  in a worker
            counter.write(b".")
            counter.flush()
            times = os.fstat(counter.fileno()).st_size
        if times == self.nth:
            self.happen()

    @abstractmethod
    def happen(self) -> None:
        """What it is."""


class KillExecutor(Trouble):
    """The worker's daemon has the executor's JVM as its parent; both go, and with them what the map stage left."""

    def happen(self) -> None:
        """Kills all three."""
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        for pid in (executor, daemon, os.getpid()):
            os.kill(pid, signal.SIGKILL)


class Dawdle(Trouble):
    """So slow that Spark runs a second copy on the other executor."""

    def happen(self) -> None:
        """Sleeps, and then goes on as if nothing had been."""
        time.sleep(DAWDLE_S)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Holdfast."""
    with HoldfastProcess(tmp_path_factory.mktemp("log") / "data") as process:
        yield process.bootstrap


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [KillExecutor, Dawdle])
@pytest.mark.parametrize("step", [Step.WRITING, Step.WRITTEN], ids=lambda step: step.name.lower())
def test_every_row_once(
    spark: SparkSession, log: str, tmp_path: Path, kind: type[Trouble], step: Step
) -> None:
    """Whatever becomes of a task, and however many copies of it there are."""
    topic = f"{kind.__name__}.{step.name}"
    make_topic(log, topic)
    write_files(tmp_path / "in", FILES)
    counter = tmp_path / "steps"
    hook = kind(step=step, nth=3, counter=str(counter))
    start_sink(
        read_files(spark, tmp_path / "in"), log, topic, tmp_path / "checkpoint", hook
    ).awaitTermination()
    assert counter.stat().st_size > 3, "nothing has happened"
    assert consume(log, topic) == wanted(FILES)

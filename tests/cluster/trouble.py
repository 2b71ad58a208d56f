"""What may happen to a task on a cluster: hooks for the steps of a sink."""

import os
import signal
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from pyspark import cloudpickle

from holdfast.spark.steps import Step

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

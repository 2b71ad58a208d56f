"""A guard beside the lab's brokers: the very command, as a process of its own."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import KafkaUnavailable
from holdfast.guard.state import Hold, Stage
from holdfast.guard.state_file import StateFile
from holdfast.lab.engines.kafka_writers import TOPIC
from holdfast.lab.kafka_broker import START_SECONDS_MAX, STOP_SECONDS_MAX, ends_with_us

LOOK_PAUSE_S: Final = 0.05
INTERVAL: Final = "200ms"
MARGIN: Final = "1s"
"""Days are seconds here."""


class LabGuard:
    """A running guard, seen through its state file."""

    def __init__(self, directory: Path, bootstrap: str, *, topic: str = TOPIC) -> None:
        self.file = StateFile(directory / "guard.json")
        self._log = directory / "guard.log"
        self._bootstrap = bootstrap
        self._topic = topic
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """What it said, over all its starts."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def stage(self) -> Stage | None:
        """How far the pause of the topic is; None if there is none."""
        hold = self.hold
        return None if hold is None else hold.stage

    @property
    def hold(self) -> Hold | None:
        """What it has written down of the topic."""
        state = self.file.read()
        return None if state is None else state.hold_of(self._topic)

    @property
    def is_dead(self) -> bool:
        """Whether it has ended, or was never started."""
        return self._process is None or self._process.poll() is not None

    def start(self, *program: str) -> None:
        """Returns when it has looked at the cluster; `program` is the module in place of `holdfast`."""
        command = [sys.executable, "-W", "ignore", "-m", *(program or ("holdfast",)), "guard"]
        command += ["--topic", self._topic]
        command += ["--bootstrap", self._bootstrap, "--state", str(self.file.path)]
        command += ["--interval", INTERVAL, "--margin", MARGIN, "--listen", "127.0.0.1:0"]
        said = len(self.log)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*ends_with_us(), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while "metrics at" not in self.log[said:]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise KafkaUnavailable(f"the guard did not start:\n{self.log}")
            time.sleep(LOOK_PAUSE_S)

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_SECONDS_MAX)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def beside(directory: Path, bootstrap: str) -> Iterator[LabGuard]:
    """A guard from entry to exit."""
    guard = LabGuard(directory, bootstrap)
    try:
        guard.start()
        yield guard
    finally:
        guard.kill()

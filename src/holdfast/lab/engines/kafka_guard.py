"""A guard beside the lab's brokers: the very command, as a process of its own."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import KafkaUnavailable
from holdfast.guard.state import Stage
from holdfast.guard.state_file import StateFile
from holdfast.lab.engines.kafka_writers import TOPIC
from holdfast.lab.kafka_broker import START_SECONDS_MAX, STOP_SECONDS_MAX, ends_with_us

LOOK_PAUSE_S: Final = 0.05
INTERVAL: Final = "200ms"
MARGIN: Final = "1s"
"""Days are seconds here."""


class LabGuard:
    """A running guard, seen through its state file."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.file = StateFile(directory / "guard.json")
        self._log = directory / "guard.log"
        self._bootstrap = bootstrap
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """What it said, over all its starts."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def stage(self) -> Stage | None:
        """How far the pause of the lab's topic is; None if there is none."""
        state = self.file.read()
        hold = None if state is None else state.hold_of(TOPIC)
        return None if hold is None else hold.stage

    def start(self) -> None:
        """Returns when it has looked at the cluster."""
        command = [sys.executable, "-W", "ignore", "-m", "holdfast", "guard", "--topic", TOPIC]
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

"""A pipeline's service or adapter as the process that users run, kept alive as an orchestrator would."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from bench.story.failure import StoryFailed
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.state import PartFiles

RESTARTS_MAX: Final = 20
STOP_S_MAX: Final = 120.0
CONF: Final = (
    # Half the processor time of a JVM that lives for a minute goes into optimising compilation.
    "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1", "--conf", "spark.ui.enabled=false",
)  # fmt: skip


class Part:
    """`holdfast pipeline run FILE --only PART`, started again whenever it ends."""

    def __init__(self, pipeline: Pipeline, name: str, log: Path) -> None:
        self.name = name
        self.restarts = 0
        self.given_up: Counter[str] = Counter()
        """By topic, over all lives."""
        self._pipeline = pipeline
        self._log = log
        self._files = PartFiles(pipeline.checkpoint, name)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """In the background."""
        words = [
            "pipeline",
            "run",
            str(self._pipeline.path),
            "--only",
            self.name,
            "--master",
            "local[2]",
            *CONF,
        ]
        with self._log.open("ab") as log:
            # A process group of its own: ^C reaches the story alone, which then ends all of it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *words], stdout=log, stderr=log, process_group=0
            )

    def kill(self) -> None:
        """SIGKILL, and what it has told of itself is all that is known of it."""
        process = self._running()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self._bury()

    def tend(self) -> bool:
        """Starts it again if it has ended by itself; tells whether it had."""
        if self._running().poll() is None:
            return False
        self._bury()
        self.start_again()
        return True

    def start_again(self) -> None:
        """Another life."""
        self.restarts += 1
        if self.restarts > RESTARTS_MAX:
            raise StoryFailed(f"the {self.name} has ended {RESTARTS_MAX} times: see {self._log}")
        self.start()

    def stop(self) -> None:
        """When the batch at hand is done."""
        process = self._running()
        self._files.ask_to_stop()
        process.wait(STOP_S_MAX)
        self._bury()

    def end(self) -> None:
        """At once, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def given_up_now(self) -> int:
        """Over all lives, and this one so far."""
        return sum(self.given_up.values()) + sum(self._told().values())

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    def _told(self) -> Counter[str]:
        """What this life has told so far; a state that was left by another one is not its own."""
        state = self._files.read()
        told: Counter[str] = Counter()
        if self._process is not None and state is not None and state.pid == self._process.pid:
            for query in state.queries:
                told.update(query.given_up)
        return told

    def _bury(self) -> None:
        self.given_up += self._told()
        self._process = None

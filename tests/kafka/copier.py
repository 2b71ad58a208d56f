"""Kafka's own TransactionalMessageCopier: the Java client consumes, produces and commits in transactions."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from holdfast.lab.kafka_broker import ends_with_us, find_java

TOOL = "org.apache.kafka.tools.TransactionalMessageCopier"


@dataclass(frozen=True)
class Copier:
    """Copies one partition of a topic to another topic, exactly once; each run goes on where the last ended."""

    bootstrap: str
    jars: Path
    logs: Path
    source: str
    target: str
    partition: int
    transaction_size: int
    group_mode: bool = False
    """Whether partitions come from the group instead of by hand."""

    @property
    def name(self) -> str:
        """Its transactional id."""
        return f"copier.{self.target}.{self.partition}"

    def run_to_the_end(self) -> int:
        """Returns the exit code."""
        with self._running() as process:
            for _ in _lines(process):
                pass
            return process.wait()

    def run_until_killed(self, lines: int, pause_s: float) -> None:
        """SIGKILL after so many lines of progress and a moment more: one line stands for one transaction."""
        with self._running() as process:
            for number, _ in enumerate(_lines(process), 1):
                if number == lines:
                    break
            try:
                process.wait(pause_s)
            except subprocess.TimeoutExpired:
                process.kill()

    @contextmanager
    def _running(self) -> Iterator["subprocess.Popen[str]"]:
        # Several JVMs share the machine: small heaps, and no time spent on code that soon dies.
        java = [
            find_java(),
            "-Xmx96m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{self.jars}/*",
        ]
        command = [*ends_with_us(), *java, TOOL, *self._arguments()]
        with (
            (self.logs / f"{self.name}.log").open("a") as log,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def _arguments(self) -> list[str]:
        options = {
            "--broker-list": self.bootstrap,
            "--input-topic": self.source,
            "--input-partition": str(self.partition),
            "--output-topic": self.target,
            "--consumer-group": f"copiers.{self.target}",
            "--transactional-id": self.name,
            "--transaction-size": str(self.transaction_size),
        }
        switches = ["--enable-random-aborts", "--use-group-metadata", *(["--group-mode"] * self.group_mode)]
        return [word for option in options.items() for word in option] + switches


def _lines(process: "subprocess.Popen[str]") -> IO[str]:
    assert process.stdout is not None
    return process.stdout

"""Kafka's own Java producers: one process that is told what to write line by line, from one source file."""

import base64
import subprocess
from importlib import resources
from pathlib import Path

from holdfast.errors import KafkaRefusal, KafkaUnavailable, UsageError
from holdfast.lab.kafka_broker import ends_with_us, find_java
from holdfast.rules.transaction import Outcome

SOURCE = "JavaWriter.java"
CLOSE_SECONDS_MAX = 10.0
ANSWER = "lab "
NOTHING = "-"


class JavaWriters:
    """Implements `kafka_writers.Writers`; which generation of the protocol it speaks Kafka's client decides."""

    def __init__(self, bootstrap: str, jars: Path, directory: Path, *, generation: int) -> None:
        self.generation = generation
        java = find_java()
        _check_compiler(java)
        self._log = directory / "java-writer.log"
        quiet = directory / "java-writer.properties"
        quiet.write_text("log4j.rootLogger=OFF\n")
        with (
            resources.as_file(resources.files("holdfast.lab.engines") / SOURCE) as source,
            self._log.open("wb") as log,
        ):
            self._process = subprocess.Popen(
                [
                    *ends_with_us(),
                    java,
                    "-Dorg.apache.logging.log4j.level=OFF",
                    f"-Dlog4j.configuration=file:{quiet}",
                    "-cp",
                    f"{jars}/*",
                    str(source),
                    bootstrap,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                start_new_session=True,  # ^C is for the lab, which then ends it
            )
            try:
                self._read()  # it is compiled: the file may go
            except BaseException:
                self.close()
                raise

    def produce(self, key: str, value: str | None) -> int:
        """Through the leader."""
        return self._tell("produce", _coded(key), _coded(value))

    def begin(self, name: str, version: int) -> None:
        """Under the generation that the client and the cluster have agreed on."""
        self._tell("begin", name)

    def send(self, name: str, key: str, value: str | None) -> int:
        """Acknowledged by all that are in sync."""
        return self._tell("send", name, _coded(key), _coded(value))

    def end(self, name: str, outcome: Outcome) -> None:
        """By the coordinator."""
        self._tell("commit" if outcome is Outcome.COMMITTED else "abort", name)

    def close(self) -> None:
        """Its process ends when it is told nothing more."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _tell(self, *words: str) -> int:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(words) + "\n")
        except OSError as failure:
            raise self._gone() from failure
        kind, _, rest = self._read().partition(" ")
        if kind != "ok":
            raise KafkaRefusal(f"Kafka's Java client: {rest}")
        return int(rest)

    def _read(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER).strip()
        raise self._gone()

    def _gone(self) -> KafkaUnavailable:
        said = self._log.read_text(errors="replace").strip().splitlines()
        return KafkaUnavailable(
            f"Kafka's Java client has ended: {said[0] if said else 'it does not say why'}"
        )


def _check_compiler(java: str) -> None:
    """A JRE runs brokers, but no source files."""
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)
    if "jdk.compiler" not in listed.stdout:
        raise UsageError(
            f"--client java needs a JDK, and {java} has no compiler: set JAVA_HOME to one that has"
        )


def _coded(text: str | None) -> str:
    return NOTHING if text is None else base64.b64encode(text.encode()).decode()

"""A real Holdfast process for tests: started on a free port, stopped or killed by its process id."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0


class Broker(Protocol):
    """What clients need of a broker, be it Holdfast or Apache Kafka."""

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        ...


class HoldfastProcess:
    """`holdfast up` on one data directory; may be started again after a stop or a kill."""

    def __init__(
        self,
        data: Path,
        *options: str,
        port: int = 0,
        log: Path | None = None,
        keeps_ports: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.port = port
        self._keeps_ports = keeps_ports
        self._environment = environment or {}
        self.announcement = ""
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self._errors = log or data.parent / f"{data.name}.stderr"

    def __enter__(self) -> "HoldfastProcess":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process is not None:
            self.kill()

    @property
    def _has_several_nodes(self) -> bool:
        return len(self.announcement.split(":")) > 2

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether it was started and neither stopped nor killed since."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def find_pid(self) -> int | None:
        """The process id, for one who does not know whether it runs."""
        process = self._process
        return None if process is None else process.pid

    @property
    def log(self) -> str:
        """What it wrote to stderr, over all starts."""
        return self._errors.read_text() if self._errors.exists() else ""

    def start(self) -> None:
        """Start it and wait until it has said that it listens.

        A restart keeps the port of a single node; several would need the ports behind it, which may be taken. With
        `keeps_ports` whoever chose the port has seen to that.
        """
        self.spawn()
        self._await_announcement()

    def spawn(self) -> None:
        """Start it and do not wait."""
        is_free_to_choose = self._has_several_nodes and not self._keeps_ports
        listen = f"127.0.0.1:{0 if is_free_to_choose else self.port}"
        command = [sys.executable, "-m", "holdfast", "up", "--data", str(self.data), "--listen", listen]
        if "--config" not in self._options:
            # Records of these tests bear fixed times of years ago: no round of retention or upkeep may come in between.
            settings = self._errors.with_suffix(".toml")
            settings.write_text("expire_seconds = 86400\n[keeper]\nround_seconds = 86400\n")
            command += ["--config", str(settings)]
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                [*command, *self._options],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **self._environment, "PYTHONUNBUFFERED": "1"},
            )

    def _await_announcement(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], START_SECONDS_MAX)
        self.announcement = self._process.stdout.readline() if readable else ""
        if "listening on" not in self.announcement:
            self.kill()
            raise AssertionError(f"holdfast up did not start: {self.announcement!r}\n{self.log}")
        self.port = int(self.announcement.split("listening on ")[1].split(",")[0].rpartition(":")[2])

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL, as a crash would."""
        return self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"no end within {STOP_SECONDS_MAX} s of {number.name}\n{self.log}") from None
        finally:
            assert process.stdout is not None
            process.stdout.close()

"""A Spark standalone cluster on this machine, from the pip-installed PySpark: a master and workers, ended by pid.

Its executors run a Python that has what Holdfast needs, but not Holdfast: what they import of it was sent to them.
"""

import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, TypeVar

from pyspark.find_spark_home import _find_spark_home

from holdfast.lab.kafka_broker import ends_with_us
from holdfast.spark.java import find_system_java

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 20.0
POLL_SECONDS = 0.002
CORES = 2
"""Of each worker: one for the session of the tests, and one for a command beside it."""

SESSION = {
    "spark.sql.shuffle.partitions": "4",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
"""Two executors, one on each worker."""
WORKERS = {"worker-1": "127.0.0.1", "worker-2": "127.0.0.2"}
"""Two hosts: Spark repeats a slow task on another host only."""

Found = TypeVar("Found")


def wait_for(find: Callable[[], Found | None], what: str, *, seconds_max: float = START_SECONDS_MAX) -> Found:
    """What it finds, once it finds something."""
    deadline = time.monotonic() + seconds_max
    while not (found := find()):
        assert time.monotonic() < deadline, f"no {what} within {seconds_max} s"
        time.sleep(POLL_SECONDS)
    return found


class SparkCluster:
    """A master and two workers on loopback, on ports that they choose; what they write is below `directory`."""

    def __init__(self, directory: Path, *, cache: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._workers: list[int] = []
        self.python = make_python(directory / "python")
        self.url = ""
        home = Path(_find_spark_home())
        self._spark_class = str(home / "bin" / "spark-class")
        java = find_system_java().executable.resolve()
        hidden = ("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV", "NUMBA")
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(hidden)},
            "JAVA_HOME": str(java.parent.parent),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(directory / "conf"),
            "SPARK_DAEMON_MEMORY": "256m",
            # A JVM that lives for minutes spends half of its processor time on optimising.
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
            "XDG_CACHE_HOME": str(cache),
        }

    def __enter__(self) -> Self:
        (self._directory / "conf").mkdir(parents=True)
        try:
            self._launch("master", "127.0.0.1", "org.apache.spark.deploy.master.Master")
            self.url = wait_for(lambda: self._read("master", r"Starting Spark master at (\S+)"), "master")
            for name, host in WORKERS.items():
                options = ["--cores", str(CORES), "--memory", "2g", "--work-dir", str(self._directory / name)]
                main = "org.apache.spark.deploy.worker.Worker"
                self._workers.append(self._launch(name, host, main, *options, self.url))
            for name in WORKERS:
                wait_for(lambda name=name: self._read(name, "(Successfully registered)"), name)  # type: ignore[misc]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Workers end their executors; whoever is left after that is killed, by pid."""
        end_all(self._processes)

    @contextmanager
    def connect_server(self) -> Iterator[str]:
        """The address of a Spark Connect server whose jobs run on this cluster.

        It is ended with its executors: tests after it count those of their own session.
        """
        spark_submit = str(Path(self._spark_class).with_name("spark-submit"))
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            **SESSION,
        }
        command = [spark_submit, "--master", self.url]
        command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        self._run(
            "connect",
            command,
            {"PYSPARK_PYTHON": str(self.python), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "1g"},
        )
        try:
            found = wait_for(lambda: self._read("connect", r"started at: \S*?:(\d+)"), "Connect server")
            yield f"sc://127.0.0.1:{found}"
        finally:
            end_all([self._processes.pop()])
            wait_for(lambda: not self.executors(), "end of the server's executors")

    def executors(self) -> list[int]:
        """The process ids of all executors' JVMs, of whatever application."""
        return [
            pid
            for worker in self._workers
            for pid in children(worker)
            if b"CoarseGrainedExecutorBackend" in command_line(pid)
        ]

    def log(self, name: str) -> str:
        """What the master, a worker or the Connect server wrote."""
        return (self._directory / f"{name}.log").read_text(errors="replace")

    def _read(self, name: str, pattern: str) -> str | None:
        found = re.search(pattern, self.log(name))
        dead = [process.args for process in self._processes if process.poll() is not None]
        assert not dead, f"{dead} has ended:\n{self.log(name)}"
        return found[1] if found else None

    def _launch(self, name: str, host: str, main: str, *options: str) -> int:
        command = [self._spark_class, main, "--host", host, "--port", "0", "--webui-port", "0", *options]
        return self._run(name, command, {"SPARK_LOCAL_IP": host})

    def _run(self, name: str, command: Sequence[str], more: dict[str, str]) -> int:
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*ends_with_us(), *command],
                cwd=self._directory,
                env=self._environment | more,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process.pid


def end_all(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """The last one first; whoever of their children is left after that is killed, by pid."""
    family = [pid for process in processes for pid in descendants(process.pid)]
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    kill(family)


def make_python(directory: Path) -> Path:
    """A Python with every package of this one but Holdfast."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(directory)
    ours = next(Path(path) for path in sys.path if Path(path, "numba").is_dir())
    theirs = directory / ours.relative_to(sys.prefix)
    for package in ours.iterdir():
        if "holdfast" not in package.name and not (theirs / package.name).exists():
            (theirs / package.name).symlink_to(package)
    return directory / "bin" / "python"


def kill(pids: Sequence[int]) -> None:
    """SIGKILL, whoever of them is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> Iterator[int]:
    """Children, their children, and so on."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def children(pid: int) -> list[int]:
    """Of all threads of a process: a JVM forks in any of them."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def command_line(pid: int) -> bytes:
    """What a process was called with; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

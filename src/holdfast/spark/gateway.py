"""Starts the JVM that PySpark talks to, so that there is no moment at which it could outlive us."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.find_spark_home import _find_spark_home
from pyspark.serializers import UTF8Deserializer, read_int

from holdfast.errors import JavaUnavailable

START_S_MAX: Final = 180.0
END_S_MAX: Final = 20.0
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A running JVM and what PySpark needs to reach it."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str

    def end(self) -> None:
        """The JVM exits when its standard input ends; it gets some time to tidy up."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            _kill(self.process)


def start_gateway(settings: Mapping[str, str], environment: Mapping[str, str], directory: Path) -> Gateway:
    """Runs Spark's own launch script and waits until the JVM listens; whatever interrupts that ends the JVM.

    PySpark would do the same, but loses sight of a JVM that is interrupted while it starts. One whose parent is
    killed later sees its standard input end. A process group of its own keeps ^C from it.
    """
    connection = directory / "connection"
    command = [str(Path(_find_spark_home()) / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env={**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection), "SPARK_CONNECT_MODE": "0"},
        process_group=0,
    )
    try:
        _await_connection(process, connection)
        with connection.open("rb") as info:
            return Gateway(process=process, port=read_int(info), secret=UTF8Deserializer().loads(info))
    except BaseException:
        _kill(process)
        raise


def _await_connection(process: subprocess.Popen[bytes], connection: Path) -> None:
    deadline = time.monotonic() + START_S_MAX
    while not connection.exists():
        if process.poll() is not None:
            raise JavaUnavailable(
                f"Spark's Java ended with code {process.returncode} before it was ready; its own words stand above"
            )
        if time.monotonic() > deadline:
            raise JavaUnavailable(f"Spark's Java was not ready after {START_S_MAX:.0f} s")
        time.sleep(POLL_S)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The whole group: until the JVM takes its place, the launch script has a child."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

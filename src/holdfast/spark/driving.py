"""How a keeper drives a session: so that signals end it in good order, and what fails is told in one line."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkAttributeError, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

import holdfast
from holdfast.errors import KeeperFailed, SparkLost
from holdfast.spark.failures import find_own
from holdfast.spark.master import is_local

FAILURES: Final = (PySparkException, Py4JError, OSError, EOFError)
"""What PySpark raises: it has errors of its own, those of its way to the JVM, and those of sockets."""
LINE_MAX: Final = 300

_CAUSE = re.compile(r"^.*\b(\w+(?:Error|Exception)): (\S.*)$", re.MULTILINE)
"""A line of a stack trace that says why, be it Python's or Java's; of causes that stand in one line, the last."""
_FRAME: Final = re.compile(r'^ *File "(.+)", line ([0-9]+), in (.+)$')
_CALLED: Final = re.compile(r"was called from\n(.+):([0-9]+)$", re.MULTILINE)
"""Of an expression of Java's that has failed: where Python has made it."""
_LIBRARIES: Final = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3[^/]*/|/(?:pyspark|holdfast-package)\.zip/"
)
_OWN: Final = str(Path(holdfast.__path__[0]))
_CLASS: Final = re.compile(r"^(?:[a-zA-Z_]\w*\.)*([A-Za-z_]\w*)(:|$)")
_STATE: Final = re.compile(r" SQLSTATE: \w{5};?$")

Done = TypeVar("Done")


def apart(work: Callable[[], Done]) -> Done:
    """Do something with Spark in a thread of its own, and wait for it.

    A signal ends the thread that waits. If it ended the one that talks to the JVM, in the middle of an answer, then the
    next question, that of an orderly end, would be given the rest of it.
    """
    done: Future[Done] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as failure:
            done.set_exception(failure)

    threading.Thread(target=run, name="spark", daemon=True).start()
    return done.result()


def begin(start: Callable[[], SparkSession]) -> SparkSession:
    """A session; SparkLost if its JVM does not live long enough."""
    try:
        return apart(start)
    except FAILURES as failure:
        raise SparkLost(
            f"Spark's Java has ended before it had begun: {cause_line(str(failure))}"
        ) from failure


@contextmanager
def told_briefly(session: SparkSession) -> Iterator[None]:
    """KeeperFailed for a job that failed, SparkLost when there is nobody left to run one."""
    try:
        yield
    except FAILURES as failure:
        if is_there(session):
            raise KeeperFailed(f"a Spark task failed: {cause_line(str(failure))}") from failure
        raise SparkLost(
            "Spark's Java has ended in the middle of its work: nothing of that is published, the next keeper does it"
        ) from failure


def count_tasks_at_once(session: SparkSession) -> int:
    """How many tasks run side by side, as far as Spark knows now."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except PySparkAttributeError:
        # Spark Connect does not tell. A range is cut into as many parts.
        return session.range(1 << 16).select(spark_partition_id()).distinct().count()


def runs_here(session: SparkSession) -> bool:
    """Whether all tasks run on this machine, side by side; Spark Connect does not tell."""
    try:
        return is_local(session.sparkContext.master)
    except PySparkAttributeError:
        return False


def is_there(session: SparkSession) -> bool:
    """Whether the session can be given something to do."""
    try:
        return bool(session.version) and not session.sparkContext._jsc.sc().isStopped()
    except PySparkAttributeError:
        return True
    except (*FAILURES, AttributeError):
        return False


def stop_quietly(session: SparkSession) -> None:
    """End the session; one whose JVM is gone has ended."""
    with suppress(*FAILURES, AttributeError):
        session.stop()


def cause_line(message: str) -> str:
    """In one line, what the text of an exception ends with: our own error, Python's with its place, or Java's cause."""
    text = message.strip()
    own = find_own(text)
    found = str(own) if own is not None else _python_line(text.split("\n")) or _java_line(text)
    return found[:LINE_MAX]


def _python_line(lines: list[str]) -> str | None:
    """The error that the last traceback ends with, unless Java tells of a cause behind it."""
    frames = [(number, found) for number, line in enumerate(lines) if (found := _FRAME.match(line))]
    if not frames:
        return None
    behind = lines[frames[-1][0] + 1 :]
    while behind and (not behind[0] or behind[0][0].isspace()):
        del behind[0]
    if not behind or any(line.startswith("Caused by: ") for line in behind) or "Py4JJavaError" in behind[0]:
        return None
    error = _STATE.sub("", _CLASS.sub(r"\1\2", behind[0].strip()))
    called = _CALLED.search("\n".join(behind))
    if called is not None:
        return f"{error} ({Path(called[1]).name}:{called[2]})"
    users = [found for _, found in frames if not (_LIBRARIES.search(found[1]) or found[1].startswith(_OWN))]
    if not users:
        return error
    return f"{error} ({Path(users[-1][1]).name}:{users[-1][2]}, in {users[-1][3]})"


def _java_line(text: str) -> str:
    """The innermost cause that is named, or else the first line."""
    causes = _CAUSE.findall(text)
    return f"{causes[-1][0]}: {causes[-1][1]}" if causes else text.partition("\n")[0]

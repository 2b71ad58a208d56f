"""What Spark throws, in one line: whoever types a query wants to know what is wrong with it, not where in the JVM."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger

from holdfast import errors
from holdfast.errors import HoldfastError, QueryFailed, UsageError
from holdfast.spark.driving import cause_line

_CONTEXT_LOGGER = "SQLQueryContextLogger"
_OURS = re.compile(r"^(?:.*\s)?holdfast\.errors\.(\w+): (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^\[[A-Z_0-9.]+\] ")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Raises what Spark throws in here as one of our own errors."""
    # PySpark logs every error of analysis besides, with the stack of the JVM.
    logger = PySparkLogger.getLogger(_CONTEXT_LOGGER)
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    except (PySparkException, Py4JJavaError) as failure:
        raise explain(failure) from failure
    finally:
        logger.disabled = was_disabled


def explain(failure: PySparkException | Py4JJavaError) -> HoldfastError:
    """Our own error if a task or a plan raised one; else what Spark says first, or Java's innermost cause."""
    text = str(failure)
    ours = find_own(text)
    if ours is not None:
        return ours
    if isinstance(failure, Py4JJavaError):
        return QueryFailed(cause_line(text))
    line = shorten(text)
    if isinstance(failure, ParseException | AnalysisException):
        return UsageError(line)
    return QueryFailed(line)


def find_own(text: str) -> HoldfastError | None:
    """The error of ours that a trace ends with, if there is one."""
    ours = _OURS.findall(text)
    if not ours:
        return None
    # The last one is the one that was raised; those before it are its causes.
    name, message = ours[-1]
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, HoldfastError) and kind.__init__ is HoldfastError.__init__:
        return kind(message)
    return QueryFailed(message)


def shorten(text: str) -> str:
    """The first sentences of Spark's message, without its class, state, plan and stack."""
    plain = _STATE.sub("", _CLASS.sub("", text.strip()))
    return " ".join(plain.split("\n\n")[0].split())

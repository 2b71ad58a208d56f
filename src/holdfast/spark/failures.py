"""What Spark throws, in one line: whoever types a query wants to know what is wrong with it, not where in the JVM."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger

from holdfast.errors import HoldfastError, QueryFailed, UsageError
from holdfast.spark.traces import cause_line, find_own, shorten

_CONTEXT_LOGGER = "SQLQueryContextLogger"


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

"""What a function of `foreachBatch` raises, in few words: Spark's JVM does not survive many.

To tell a query that somebody stops from one that fails, Spark matches the whole Python traceback with a regular
expression, once it has the words "py4j.protocol.Py4JJavaError: An error occurred while calling" in it. Java's matcher
takes some frames of stack for each character behind them, and a Java stack trace of two screens is enough for a
StackOverflowError, which ends the query in place of whatever had happened.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from holdfast.errors import QueryFailed
from holdfast.spark.traces import cause_line, find_own

STOPS: Final = re.compile(
    r"java\.lang\.InterruptedException|java\.io\.InterruptedIOException|java\.nio\.channels\.ClosedByInterruptException"
    r"|SparkContext (?:was|is|has been) shut ?down|\b(?:Job \S+|Stage(?: \S+)?) (?:was )?cancelled\b"
)
"""What Spark says of a job whose query somebody stops. What we say may be in the same text, with anybody's names."""

STOPPED: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling: java.lang.InterruptedException"
)
"""What Spark looks for; a query that says this while it is stopped has ended well."""


@contextmanager
def told_to_spark() -> Iterator[None]:
    """For a whole micro-batch: one line, our own error's or a QueryFailed, where a traceback would have Java's."""
    try:
        yield
    except Exception as failure:
        # None of these may be in the traceback, not even as the cause of another.
        if not any(isinstance(each, Py4JError) for each in _chain(failure)):
            raise
        if was_stopped(failure):
            raise QueryFailed(f"the query is stopped, and this batch with it ({STOPPED})") from None
        raise find_own(str(failure)) or QueryFailed(cause_line(str(failure))) from None


def was_stopped(failure: BaseException) -> bool:
    """Whether somebody stops the query: then nothing is to be tried again."""
    texts = [str(each) for each in _chain(failure) if isinstance(each, Py4JError | PySparkException)]
    return any(STOPS.search(text) for text in texts)


def _chain(failure: BaseException | None) -> Iterator[BaseException]:
    """A failure, its cause, the cause's cause: all that a traceback shows, so nothing behind a `from None`."""
    while failure is not None:
        yield failure
        failure = failure.__cause__ if failure.__suppress_context__ else failure.__context__

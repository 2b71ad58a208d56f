"""SQL over topics: which topics a query names, and the query with each of them as a view of its name."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import UsageError
from holdfast.spark.failures import shorten
from holdfast.spark.schema import SCHEMA
from holdfast.spark.table import Snapshot

TOPICS_MAX = 100

_UNKNOWN = "TABLE_OR_VIEW_NOT_FOUND"
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")


def find_topics(session: SparkSession, text: str) -> list[str]:
    """The topics that a query names; UsageError if it is not a sound query. Nothing is read or run.

    Views without a row stand in for topics, so that Spark goes on to the next name that it does not know.
    """
    topics: list[str] = []
    try:
        while len(topics) <= TOPICS_MAX:
            unknown = _find_unknown(session, text)
            if unknown is None:
                return topics
            session.createDataFrame([], SCHEMA).createOrReplaceTempView(quote(unknown))
            topics.append(unknown)
    finally:
        _drop_views(session, topics)
    raise UsageError(f"the query names more than {TOPICS_MAX} topics")


@contextmanager
def run(session: SparkSession, text: str, topics: Sequence[str], snapshot: Snapshot) -> Iterator[DataFrame]:
    """The query over the snapshot; nothing is read before somebody asks for rows, which has to be in the block."""
    try:
        for topic in topics:
            snapshot.frame(topic).createOrReplaceTempView(quote(topic))
        yield session.sql(text)
    finally:
        _drop_views(session, topics)


def quote(name: str) -> str:
    """As an identifier in SQL."""
    return "`" + name.replace("`", "``") + "`"


def _drop_views(session: SparkSession, topics: Sequence[str]) -> None:
    for topic in topics:
        session.sql(f"DROP VIEW IF EXISTS {quote(topic)}")


def _find_unknown(session: SparkSession, text: str) -> str | None:
    try:
        # As a part of a query, so that what is no query is refused rather than carried out.
        session.sql(f"SELECT * FROM (\n{text.strip().rstrip(';')}\n)")  # noqa: S608  it is the user's own
    except ParseException as refusal:
        raise UsageError(f"not a query that can be read: {_without_place(shorten(str(refusal)))}") from None
    except AnalysisException as refusal:
        if refusal.getCondition() != _UNKNOWN:
            raise UsageError(f"not a sound query: {shorten(str(refusal))}") from None
        written = (refusal.getMessageParameters() or {}).get("relationName", "")
        parts = [part.replace("``", "`") for part in _QUOTED.findall(written)]
        if len(parts) != 1:
            raise UsageError(
                f"write the topic in backticks: {quote('.'.join(parts))}; a dot alone would mean a table in a schema"
            ) from None
        return parts[0]
    return None


def _without_place(line: str) -> str:
    """Line and column are those of the text around the query, too."""
    return re.sub(r"\s*\(line \d+, pos \d+\)", "", line)

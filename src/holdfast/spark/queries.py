"""SQL over topics: which topics a query names, and the query with each of them as a view of its name."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import UsageError
from holdfast.spark.schema import SCHEMA
from holdfast.spark.table import Snapshot
from holdfast.spark.traces import shorten

TOPICS_MAX = 100

_UNKNOWN = "TABLE_OR_VIEW_NOT_FOUND"
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_NOT_PLAIN = re.compile(r"\b(?:from|join)\s+([\w.]*[-.][\w.-]*)", re.IGNORECASE)


def find_topics(session: SparkSession, text: str) -> list[str]:
    """The topics that a query names; UsageError if it is not a sound query. Nothing is read or run.

    To Spark `Orders` and `orders` are one table, to Kafka two topics: a query that names both is only sound if it is so
    where Spark tells them apart.
    """
    topics = _find(session, text)
    if not (twice := _find_twice(topics, text)):
        return topics
    try:
        with setting(session, _CASE, "true"):
            found = _find(session, text)
    except UsageError as refusal:
        raise UsageError(
            f"{' and '.join(twice)} may be two topics: write the name everywhere as the topic has it, "
            f"and if there are two, columns and aliases always in the same case, too ({refusal})"
        ) from None
    return found if _differ_in_case(found) else topics


@contextmanager
def run(session: SparkSession, text: str, topics: Sequence[str], snapshot: Snapshot) -> Iterator[DataFrame]:
    """The query over the snapshot; nothing is read before somebody asks for rows, which has to be in the block."""
    with setting(session, _CASE, "true") if _differ_in_case(topics) else nullcontext():
        try:
            for topic in topics:
                snapshot.frame(topic).createOrReplaceTempView(quote(topic))
            yield session.sql(text)
        finally:
            _drop_views(session, topics)


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """One of the session's settings, as long as the block lasts."""
    before = session.conf.get(name)
    session.conf.set(name, value)
    try:
        yield
    finally:
        session.conf.set(name, before)


def quote(name: str) -> str:
    """As an identifier in SQL."""
    return "`" + name.replace("`", "``") + "`"


_CASE = "spark.sql.caseSensitive"


def _find(session: SparkSession, text: str) -> list[str]:
    """Views without a row stand in for topics, so that Spark goes on to the next name that it does not know."""
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


def _find_twice(topics: Sequence[str], text: str) -> list[str]:
    """The spellings of the first topic that the query writes in several; it may be a column that it names so."""
    plain = _TEXT.sub("''", text)
    for topic in topics:
        found = re.findall(rf"(?<![\w-]){re.escape(topic)}(?![\w-])", plain, re.IGNORECASE)
        if spellings := sorted({topic, *found} - {topic}):
            return [topic, *spellings]
    return []


def _differ_in_case(topics: Sequence[str]) -> bool:
    """Whether two of them differ in nothing else."""
    return len({topic.lower() for topic in topics}) < len(topics)


def _drop_views(session: SparkSession, topics: Sequence[str]) -> None:
    for topic in topics:
        session.sql(f"DROP VIEW IF EXISTS {quote(topic)}")


def _find_unknown(session: SparkSession, text: str) -> str | None:
    query = text.strip().rstrip(";")
    if not query:
        raise UsageError("there is no query; for example: SELECT count(*) FROM orders")
    try:
        # As a part of a query, so that what is no query is refused rather than carried out.
        session.sql(f"SELECT * FROM (\n{query}\n)")  # noqa: S608  it is the user's own
    except ParseException as refusal:
        why = _without_place(shorten(str(refusal)))
        raise UsageError(f"not a query that can be read: {why}{_advice(query)}") from None
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


def _advice(query: str) -> str:
    """For names that a Kafka user has no second thoughts about."""
    found = _NOT_PLAIN.search(_TEXT.sub("''", query))
    return f"; write the topic in backticks: {quote(found[1])}" if found else ""


def _without_place(line: str) -> str:
    """Line and column are those of the text around the query, too."""
    return re.sub(r"\s*\(line \d+, pos \d+\)", "", line)

"""Tries a transform on no messages at all, whose plan tells what it gives back, then on some, if there are any."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from holdfast.errors import UsageError
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.frames import REASON_HEADER, UNKNOWN_STATE, Transform, end, with_identity
from holdfast.pipelines.streams import columns_of
from holdfast.records.record import Record
from holdfast.spark.schema import COLUMNS, KEY_HASH, select
from holdfast.spark.traces import cause_line

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: Python counts no further."""


def rehearse(
    session: SparkSession,
    pipeline: Pipeline,
    transform: Transform,
    messages: Sequence[tuple[int, Record]] = (),
) -> None:
    """UsageError tells what is wrong with the transform, be it an error of its own; messages are by partition."""
    empty = session.createDataFrame([], select(columns_of(pipeline)))
    some = _as_frame(session, pipeline, messages) if messages else None
    try:
        end(with_identity(empty, pipeline.identity), pipeline, transform)
        if some is not None:
            _check_ends(end(with_identity(some, pipeline.identity), pipeline, transform), len(messages))
    except UsageError:
        raise
    except PySparkException as failure:
        raise UsageError(f"{pipeline.transform} fails: {cause_line(str(failure))}") from failure
    except Exception as failure:
        what = f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0]}"
        raise UsageError(f"{pipeline.transform} fails: {what}") from failure


def _as_frame(session: SparkSession, pipeline: Pipeline, messages: Sequence[tuple[int, Record]]) -> DataFrame:
    """As the source gives them."""
    rows = [
        (
            *(each.key, each.value, pipeline.ingest, partition, each.offset),
            *(_EPOCH + timedelta(milliseconds=min(each.timestamp_ms, _LAST_MS)), 0),
            [(name, value) for name, value in each.headers] or None,
        )
        for partition, each in messages
    ]
    frame = session.createDataFrame(rows, select(COLUMNS))
    return frame.withColumn(KEY_HASH, sql.hash("key")) if KEY_HASH in columns_of(pipeline) else frame


def _check_ends(ended: DataFrame, messages: int) -> None:
    # All columns, as they would be written.
    rows = ended.collect()
    if len(rows) != messages:
        raise UsageError(
            f"the transform gives back {len(rows):,} rows for {messages:,} messages: one row for each is wanted"
        )
    for told in (each.value.decode() for row in rows for each in row.headers if each.key == REASON_HEADER):
        if told.startswith(UNKNOWN_STATE):
            raise UsageError(f"the transform gives a message an {told}")

"""The books of one micro-batch: counted by Spark, kept by the driver, written as records."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from holdfast.pipelines.config import WINDOW_MS, Mode, Pipeline
from holdfast.pipelines.frames import count
from holdfast.pipelines.tally import Sums, TallyRecord, encode_tally

RECORDS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)


def keep_books(
    pipeline: Pipeline, identified: DataFrame, ended: DataFrame, batch_id: int
) -> list[TallyRecord]:
    """What the batch holds, per tenant and window. What went in is counted where the books are written down."""
    window_ms = pipeline.tally.window_ms if pipeline.tally is not None else WINDOW_MS
    ingested = identified if pipeline.mode is Mode.TRANSACTION else None
    stages: dict[tuple[str, int], dict[str, Sums]] = defaultdict(dict)
    for row in count(ingested, ended, window_ms).collect():
        stages[row.tenant, row.window_start_ms][row.stage] = _sums(row)
    return [
        TallyRecord(
            pipeline=pipeline.name,
            tenant=tenant,
            window_start_ms=start_ms,
            window_end_ms=start_ms + window_ms,
            batch_id=batch_id,
            stages=dict(sorted(found.items())),
        )
        for (tenant, start_ms), found in sorted(stages.items())
    ]


def as_rows(session: SparkSession, books: Sequence[TallyRecord], topic: str) -> DataFrame:
    """Records for the tally topic, under the tenant as their key."""
    rows = [(topic, record.tenant.encode(), encode_tally(record)) for record in books]
    return session.createDataFrame(rows, RECORDS)


def totals(books: Iterable[TallyRecord]) -> dict[str, int]:
    """Messages by stage, over all tenants and windows."""
    found: dict[str, int] = defaultdict(int)
    for record in books:
        for stage, sums in record.stages.items():
            found[stage] += sums.count
    return dict(found)


def _sums(row: Any) -> Sums:
    return Sums(
        count=row["count"],
        hash_sum=int(row.hash_sum),
        hash_xor=row.hash_xor,
        value_bytes=row.value_bytes,
        time_ms_min=row.time_ms_min,
        time_ms_max=row.time_ms_max,
    )

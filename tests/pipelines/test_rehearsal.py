"""A transform is tried on the columns that it will be given, hash of the key and all."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from examples.compliance.checks import assess
from holdfast.errors import UsageError
from holdfast.pipelines.config import Mode, Reader
from holdfast.pipelines.frames import Transform
from holdfast.pipelines.rehearsal import rehearse
from holdfast.records.record import Record
from holdfast.spark.schema import KEY_HASH
from tests.pipelines.files import make_pipeline


@pytest.mark.parametrize(
    ("mode", "reader", "has_hash"),
    [
        (Mode.ADAPTER, Reader.HOLDFAST, True),
        (Mode.TRANSACTION, Reader.HOLDFAST, True),
        (Mode.DUAL, Reader.HOLDFAST, False),
        (Mode.ADAPTER, Reader.KAFKA, False),
    ],
)
def test_the_hash_is_there_where_it_will_be(
    spark: SparkSession, tmp_path: Path, mode: Mode, reader: Reader, has_hash: bool
) -> None:
    pipeline = replace(make_pipeline(tmp_path, mode=mode.value, prefix="p"), reader=reader)

    def needs_it(frame: DataFrame) -> DataFrame:
        return assess(frame.where(sql.col(KEY_HASH) > 0))

    if has_hash:
        rehearse(spark, pipeline, needs_it)
    else:
        with pytest.raises(UsageError, match=KEY_HASH):
            rehearse(spark, pipeline, needs_it)


@pytest.mark.parametrize("name", [KEY_HASH, KEY_HASH.upper()])
def test_a_transform_may_have_a_column_of_that_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Then there are two of them, which nobody may ask for by name."""
    pipeline = make_pipeline(tmp_path, mode="adapter", prefix="p")
    rehearse(spark, pipeline, lambda frame: assess(frame).select("*", sql.lit(1).alias(name)))


SOME = [
    (
        0,
        Record(
            key=b"k", value=b"{}", headers=[("ce_id", b"%d" % number), ("tenant", b"acme")], offset=number
        ),
    )
    for number in range(3)
]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda frame: frame, None),
        (
            lambda frame: frame.where("offset > 0"),
            "gives back 2 rows for 3 messages: one row for each is wanted",
        ),
        (
            lambda frame: frame.withColumn("end_state", sql.lit("losst")),
            "gives a message an unknown end state losst",
        ),
        (
            lambda frame: frame.withColumn(
                "reason", sql.udf(lambda value: json.loads(value)["amount"])("value")
            ),
            r"checks:assess fails: KeyError: 'amount' \(test_rehearsal.py:\d+, in <lambda>\)",
        ),
        (
            lambda frame: frame.withColumn(
                "value", sql.udf(lambda value: json.loads(value)["amount"])("value")
            ),
            r"checks:assess fails: KeyError: 'amount'",
        ),
    ],
    ids=["good", "drops", "unknown", "raises", "raises beside"],
)
@pytest.mark.parametrize("mode", ["transaction", "dual"])
def test_it_is_tried_on_messages(
    spark: SparkSession, tmp_path: Path, mode: str, change: Transform, told: str | None
) -> None:
    """What no plan shows: how many rows there are, which end states, and what is raised for a message."""
    pipeline = make_pipeline(tmp_path, mode=mode, prefix="p")

    def transform(frame: DataFrame) -> DataFrame:
        return change(assess(frame))

    if told is None:
        rehearse(spark, pipeline, transform, SOME)
    else:
        rehearse(spark, pipeline, transform)
        with pytest.raises(UsageError, match=told):
            rehearse(spark, pipeline, transform, SOME)

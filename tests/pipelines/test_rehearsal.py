"""A transform is tried on the columns that it will be given, hash of the key and all."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from examples.compliance.checks import assess
from holdfast.errors import UsageError
from holdfast.pipelines.config import Mode, Reader
from holdfast.pipelines.rehearsal import rehearse
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

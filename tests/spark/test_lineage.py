"""Whether a column is still the one that was read, and what the sink saves by knowing."""

import random
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from holdfast.client.producer import partition_of_key
from holdfast.spark.lineage import passes_through
from holdfast.spark.outputs import Outputs
from holdfast.spark.schema import KEY_HASH
from holdfast.spark.shaping import key_hash, shape
from holdfast.spark.write_options import Delivery, options_from

OUTPUTS = Outputs(topics=(("a", 3), ("b", 4)))
SEED = 20261118


def hashed(spark: SparkSession) -> DataFrame:
    """Keys of many lengths, and none, with their hashes as the source has them."""
    chance = random.Random(SEED)
    keys = [None, b"", *(chance.randbytes(number % 40) for number in range(60))]
    rows = [(key, b"v", "ab"[number % 2]) for number, key in enumerate(keys)]
    frame = spark.createDataFrame(rows, "key binary, value binary, topic string")
    return frame.withColumn(KEY_HASH, key_hash("key"))


def rekeyed(frame: DataFrame) -> DataFrame:
    """Other keys, with the hashes of the old ones."""
    return frame.withColumn("key", sql.concat("key", sql.lit("x").cast("binary")))


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (lambda frame: frame, True),
        (lambda frame: frame.withColumn("more", sql.length("key")).where("more > 3").drop("value"), True),
        (lambda frame: frame.select(KEY_HASH, "key"), True),
        (rekeyed, False),
        (lambda frame: frame.withColumn("key", sql.col("value")), False),
        (lambda frame: frame.withColumn("old", sql.col("key")).withColumn("key", sql.col("old")), False),
        (lambda frame: frame.drop(KEY_HASH), False),
        (lambda frame: frame.withColumn(KEY_HASH, sql.lit(1)), False),
        (lambda frame: frame.where("value is null").union(rekeyed(frame)), False),
        (lambda frame: frame.unionByName(rekeyed(frame)), False),
        (lambda frame: frame.union(rekeyed(frame)).localCheckpoint(), False),
        (lambda frame: frame.union(rekeyed(frame)).localCheckpoint(eager=False), False),
        (lambda frame: frame.where("value is null").intersect(frame), False),
        (lambda frame: frame.select("*", sql.lit(1).alias(KEY_HASH)), False),
        (lambda frame: frame.select("*", sql.lit(b"x").alias("KEY")), False),
        (lambda frame: frame.groupBy("key").agg(sql.max(KEY_HASH).alias(KEY_HASH)), False),
    ],
)
def test_what_is_computed_is_another_column(
    spark: SparkSession, change: Callable[[DataFrame], DataFrame], is_same: bool
) -> None:
    """A copy of it is one, too, which costs only time."""
    frame = hashed(spark)
    assert passes_through(frame, change(frame), ("key", KEY_HASH)) is is_same


def test_rows_that_have_a_hash_go_where_the_others_go(spark: SparkSession) -> None:
    """As Kafka's clients choose; and no worker is asked for what is known."""
    options = options_from({"bootstrap": "127.0.0.1:1", "topics": "a,b"}, default=Delivery.EXACTLY_ONCE)
    frame = hashed(spark).localCheckpoint()
    known = shape(frame, options, OUTPUTS)
    asked = shape(frame.drop(KEY_HASH), options, OUTPUTS)
    assert known.columns == asked.columns
    assert known.collect() == asked.collect()
    for row, (key, topic) in zip(known.collect(), frame.select("key", "topic").collect(), strict=True):
        if key is not None:
            partitions, first = (3, 0) if topic == "a" else (4, 3)
            assert row.slot == first + partition_of_key(bytes(key), partitions)
    plans = [each._jdf.queryExecution().executedPlan().toString() for each in (known, asked)]
    assert ["ArrowEvalPython" in plan for plan in plans] == [False, True]

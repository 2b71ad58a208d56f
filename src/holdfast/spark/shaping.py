"""Any DataFrame with a column `value` → rows with the partition that they go to, in native expressions.

Rows come out as (slot, key, value, timestamp, headers): the slot numbers the output partition, the timestamp
counts milliseconds. Where a row goes is decided by its content alone. A stage that Spark computes again, perhaps in
another order, sends every row to the same task again.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegerType

from holdfast.spark.aside import NOTED
from holdfast.spark.columns import check_columns
from holdfast.spark.kept_columns import built_once
from holdfast.spark.outputs import Outputs
from holdfast.spark.schema import KEY_HASH
from holdfast.spark.write_options import WriteOptions


@sql.arrow_udf(IntegerType())
def key_hash(keys: pa.Array) -> pa.Array:
    """Kafka's hash of keys, a whole Arrow batch at a time."""
    from holdfast.records.encode import hashes_of_keys  # noqa: PLC0415  numba is for workers

    return hashes_of_keys(keys)


def shape(frame: DataFrame, options: WriteOptions, outputs: Outputs) -> DataFrame:
    """The rows with their slots and, if there is one, the column `noted`; see `placing.fill_times` for their times.

    No value of the moment may stand here: Spark compiles a plan anew that differs in as much as a number.
    """
    return frame.select(*_shaped(tuple(frame.columns), options, outputs))


@built_once
def _shaped(names: tuple[str, ...], options: WriteOptions, outputs: Outputs) -> list[Column]:
    key = sql.col("key").cast("binary") if "key" in names else sql.lit(None).cast("binary")
    timestamp = sql.unix_millis("timestamp") if "timestamp" in names else sql.lit(None).cast("long")
    return [
        _slot(names, options, outputs).alias("slot"),
        key.alias("key"),
        sql.col("value").cast("binary").alias("value"),
        timestamp.alias("timestamp"),
        *(sql.col(name) for name in ("headers", NOTED) if name in names),
    ]


def place(frame: DataFrame, options: WriteOptions, outputs: Outputs) -> DataFrame:
    """The frame with topic and partition of every row, each output partition's rows in one task."""
    check_columns(frame.schema, options)
    topic = sql.lit(options.topic) if options.topic is not None else frame["topic"]
    firsts = outputs.first_slots
    slot = _slot(tuple(frame.columns), options, outputs)
    first = sql.lit(0) if options.topic is not None else _look_up(firsts, topic)
    kept = [frame[name] for name in frame.columns if name not in {"topic", "partition"}]
    placed = frame.select(*kept, topic.alias("topic"), slot.alias("partition"), first.alias("first_slot"))
    slots = placed["partition"]
    shuffled = placed.repartitionById(options.writers or len(outputs), slots)
    return shuffled.withColumn("partition", slots - placed["first_slot"]).drop("first_slot")


def _slot(names: Sequence[str], options: WriteOptions, outputs: Outputs) -> Column:
    if options.topic is not None:
        (_, count), *_ = outputs.topics
        return _partition(names, sql.lit(count), sql.lit(options.topic)).cast("int")
    counts, firsts = dict(outputs.topics), outputs.first_slots
    topic = sql.col("topic")
    count = _look_up(counts, topic)
    unknown = sql.raise_error(
        sql.concat(sql.lit("column topic: there is no topic "), sql.coalesce(topic, sql.lit("null")))
    )
    known = sql.when(count.isNull(), unknown.cast("int")).otherwise(count)
    return (_look_up(firsts, topic) + _partition(names, known, topic)).cast("int")


def _look_up(numbers: dict[str, int], topic: Column) -> Column:
    pairs = [sql.lit(each) for pair in numbers.items() for each in pair]
    return sql.try_element_at(sql.create_map(*pairs), topic)


def _partition(names: Sequence[str], count: Column, topic: Column) -> Column:
    """As Kafka's clients choose: the row's own choice, else by its key; rows without a key are spread."""
    content = [name for name in ("value", "timestamp", "headers") if name in names]
    chosen = sql.pmod(sql.xxhash64(*content), count).cast("int")
    if "key" in names:
        # A worker is asked for a hash that the rows do not have: that takes longer than all else of a small batch.
        known = KEY_HASH in names
        hashed = sql.col(KEY_HASH) if known else key_hash(sql.col("key").cast("binary"))
        by_key = sql.pmod(hashed, count).cast("int")
        chosen = sql.when(sql.col("key").isNull(), chosen).otherwise(by_key)
    if "partition" not in names:
        return chosen
    given = sql.col("partition")
    outside = sql.raise_error(
        sql.concat(sql.lit("column partition: "), topic, sql.lit(" has no partition "), given.cast("string"))
    )
    return (
        sql.when(given.isNull(), chosen)
        .when((given < 0) | (given >= count), outside.cast("int"))
        .otherwise(given)
    )

"""`df.write` and `df.writeStream` with `format("holdfast")`: columns, options, and what is refused."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from holdfast.client.producer import partition_of_key
from holdfast.errors import TopicAlreadyExists
from holdfast.spark.sink import Sink
from tests.spark.streams import consume, make_topic, read_files, wanted, write_files

ROWS = 200


def rows(spark: SparkSession) -> DataFrame:
    """Keys that are there or null, headers, times."""
    number = sql.col("id")
    header = sql.struct(sql.lit("trace").alias("key"), number.cast("string").cast("binary").alias("value"))
    return spark.range(0, ROWS, 1, 2).select(
        sql.when(number % 4 != 0, sql.concat(sql.lit("key-"), number % 20)).alias("key"),
        sql.when(number % 9 != 0, sql.concat(sql.lit("value "), number)).alias("value"),
        sql.timestamp_millis(1_700_000_000_000 + number).alias("timestamp"),
        sql.when(number % 3 == 0, sql.array(header)).alias("headers"),
        sql.lit("written").alias("topic"),
        sql.when(number % 10 == 0, sql.lit(2)).cast("int").alias("partition"),
        number,
    )


def test_a_batch_write_is_read_back(spark: SparkSession, holdfast: str) -> None:
    """Every column as it was, each key where Kafka's clients would put it, with compression on the way."""
    make_topic(holdfast, "written")
    frame = rows(spark)
    writer = frame.drop("id").write.format("holdfast").mode("append").option("bootstrap", holdfast)
    writer.option("compression", "lz4").option("batchBytes", "700").save()
    reader = spark.read.format("holdfast").option("bootstrap", holdfast).option("topic", "written")
    found = {row.timestamp: row for row in reader.load().collect()}
    assert len(found) == ROWS
    for row in frame.collect():
        written = found[row.timestamp]
        assert written.key == (None if row.key is None else row.key.encode())
        assert written.value == (None if row.value is None else row.value.encode())
        assert written.headers == row.headers
        if row.partition is not None:
            assert written.partition == row.partition
        elif row.key is not None:
            assert written.partition == partition_of_key(row.key.encode(), 3)


def test_streams_at_least_once(spark: SparkSession, holdfast: str, tmp_path: Path) -> None:
    """Without a shuffle, by the sink and by the format: without failures each row is there once."""
    write_files(tmp_path / "in", 2)
    options: dict[str, Any] = {"bootstrap": holdfast, "delivery": "at_least_once"}
    for topic in ("loose.sink", "loose.format"):
        make_topic(holdfast, topic)
        writer = read_files(spark, tmp_path / "in").writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / topic))
        if topic == "loose.sink":
            writer = writer.foreachBatch(Sink(**options, topic=topic))
        else:
            writer = writer.format("holdfast").options(**options).option("topic", topic)
        writer.start().awaitTermination()
        assert consume(holdfast, topic) == wanted(2)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["value"], {"topic": "written", "colour": "red"}, "option colour is not known"),
        (["value"], {"topic": "written", "delivery": "exactly_once"}, "exactly_once is for streams"),
        (["value"], {"topic": "nowhere"}, "there is no topic 'nowhere'"),
        (["value", "99 as partition"], {"topic": "placed"}, "placed has no partition 99"),
    ],
)
def test_refused(
    spark: SparkSession, holdfast: str, columns: list[str], options: dict[str, Any], message: str
) -> None:
    """Before a row is written where it can be; the failure names the column or the option."""
    with suppress(TopicAlreadyExists):
        make_topic(holdfast, "placed")
    frame = rows(spark).selectExpr(*columns)
    with pytest.raises(PySparkException, match=message):
        frame.write.format("holdfast").mode("append").option("bootstrap", holdfast).options(**options).save()


def test_nothing_is_overwritten(spark: SparkSession, holdfast: str) -> None:
    """A topic is a log."""
    frame = rows(spark).select("value")
    with pytest.raises(PySparkException, match="appended to"):
        frame.write.format("holdfast").mode("overwrite").option("bootstrap", holdfast).option(
            "topic", "written"
        ).save()

"""What Spark reads is what was produced: every column, every codec, every way to cut a topic into ranges."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kafka.protocol.consumer import FetchRequest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from holdfast.client.producer import partition_of_key
from holdfast.records.build import build_batch
from holdfast.records.record import Record
from tests.client.fake_cluster import OFFSET_OUT_OF_RANGE, fake_cluster, fetched

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_CODEC = 600
FIRST_MS = 1_700_000_000_123


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record as a client produced it, and where the broker says it is."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] | None


def produce(address: str, topic: str, codec: str, records: list[dict[str, Any]]) -> list[Sent]:
    sent: list[Sent] = []

    def delivered(error: KafkaError | None, message: Message, record: dict[str, Any]) -> None:
        assert error is None, error
        headers = record.get("headers")
        place = {"topic": topic, "partition": message.partition(), "offset": message.offset()}
        sent.append(
            Sent(
                **place,
                key=record.get("key"),
                value=record.get("value"),
                timestamp_ms=record["timestamp"],
                headers=tuple(headers) if headers else None,
            )
        )

    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 5})
    for record in records:
        producer.produce(topic, **record, on_delivery=lambda e, m, record=record: delivered(e, m, record))
    assert producer.flush(30) == 0
    return sent


def varied(number: int) -> dict[str, Any]:
    """Keys and values that are there, null or empty; none, one or several headers, with null values too."""
    record: dict[str, Any] = {"timestamp": FIRST_MS + 997 * number}
    if number % 4:
        record["key"] = b"" if number % 5 == 0 else b"key-%d" % (number % 50)
    if number % 7:
        record["value"] = b"" if number % 11 == 0 else b"value %d " % number * (number % 13)
    if number % 3:
        record["headers"] = [("trace", b"%d" % number), ("leer-ü", None), ("trace", b"")][: number % 3 + 1]
    return record


@pytest.fixture(scope="module")
def sent(holdfast: str) -> list[Sent]:
    """Topic `varied`: every codec in turn, over three partitions."""
    records = [varied(number) for number in range(len(CODECS) * RECORDS_PER_CODEC)]
    parts = [
        produce(holdfast, "varied", codec, records[index * RECORDS_PER_CODEC :][:RECORDS_PER_CODEC])
        for index, codec in enumerate(CODECS)
    ]
    assert {each.partition for part in parts for each in part} == {0, 1, 2}
    return [each for part in parts for each in part]


def load(spark: SparkSession, address: str, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("holdfast").option("bootstrap", address).option("topic", topic)
    return reader.options(**options).load()


def rows(frame: DataFrame) -> list[Sent]:
    collected = frame.select(
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        sql.unix_millis("timestamp").alias("timestamp_ms"),
        "headers",
    ).collect()
    return [
        Sent(
            **{name: row[name] for name in ("topic", "partition", "offset", "key", "value", "timestamp_ms")},
            headers=None if row.headers is None else tuple((each.key, each.value) for each in row.headers),
        )
        for row in collected
    ]


def in_order(records: list[Sent]) -> list[Sent]:
    return sorted(records, key=lambda each: (each.topic, each.partition, each.offset))


def test_every_column_equals_what_was_produced(spark: SparkSession, holdfast: str, sent: list[Sent]) -> None:
    """Keys, values, nulls, headers, timestamps, partitions and offsets come out as they went in."""
    frame = load(spark, holdfast, "varied")
    assert in_order(rows(frame)) == in_order(sent)
    assert [row.timestampType for row in frame.select("timestampType").distinct().collect()] == [0]


def test_schema_is_that_of_sparks_kafka_source(spark: SparkSession, holdfast: str, sent: list[Sent]) -> None:
    """Names, order and types of the columns."""
    assert load(spark, holdfast, "varied").schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


@pytest.mark.parametrize(
    ("zone", "local"),
    [("America/St_Johns", "2023-11-14 18:43:20.123"), ("Asia/Kathmandu", "2023-11-15 03:58:20.123")],
)
def test_timestamps_in_any_session_time_zone(
    spark: SparkSession, holdfast: str, sent: list[Sent], zone: str, local: str
) -> None:
    """A timestamp is a moment: the session's zone changes how it is written, not which moment it is."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        earliest = load(spark, holdfast, "varied").select(
            sql.unix_millis(sql.min("timestamp")).alias("ms"),
            sql.min("timestamp").cast("string").alias("local"),
        )
        assert tuple(earliest.collect()[0]) == (FIRST_MS, local)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_offset_ranges(spark: SparkSession, holdfast: str, sent: list[Sent]) -> None:
    """startingOffsets and endingOffsets as in Spark's Kafka source: per partition, -2 earliest, -1 latest."""
    starting = json.dumps({"varied": {"0": 17, "1": -2, "2": 3}})
    ending = json.dumps({"varied": {"0": 18, "1": 250, "2": -1}})
    frame = load(spark, holdfast, "varied", startingOffsets=starting, endingOffsets=ending)
    expected = [
        each
        for each in sent
        if (each.partition == 0 and each.offset == 17)
        or (each.partition == 1 and each.offset < 250)
        or (each.partition == 2 and each.offset >= 3)
    ]
    assert in_order(rows(frame)) == in_order(expected)


@pytest.mark.parametrize(
    ("options", "tasks"),
    [({}, 3), ({"minPartitions": 10}, 10), ({"maxRecordsPerPartition": 100}, 30)],
)
def test_pieces(
    spark: SparkSession, holdfast: str, sent: list[Sent], options: dict[str, Any], tasks: int
) -> None:
    """However a topic is cut into tasks, every record is read once."""
    frame = load(spark, holdfast, "varied", **options)
    assert frame.rdd.getNumPartitions() >= tasks
    assert in_order(rows(frame)) == in_order(sent)


def test_several_topics_and_aliases(spark: SparkSession, holdfast: str, sent: list[Sent]) -> None:
    """A list of topics, under the names that Spark's Kafka source gives to the options."""
    other = produce(holdfast, "other", "none", [{"key": b"k", "value": b"v", "timestamp": FIRST_MS}])
    frame = (
        spark.read.format("holdfast")
        .option("kafka.bootstrap.servers", holdfast)
        .option("subscribe", "other, varied")
        .load()
    )
    assert in_order(rows(frame)) == in_order(sent + other)


def test_columns(spark: SparkSession, holdfast: str, sent: list[Sent]) -> None:
    """`columns`, or a schema, reads those columns alone, in that order."""
    expected = sorted((each.offset, each.key) for each in sent if each.partition == 1 and each.key)
    chosen = load(spark, holdfast, "varied", columns="offset,key,partition")
    by_schema = (
        spark.read.format("holdfast")
        .schema("offset long, key binary, partition int")
        .options(bootstrap=holdfast, topic="varied")
        .load()
    )
    for frame in (chosen, by_schema):
        assert frame.columns == ["offset", "key", "partition"]
        found = frame.where("partition = 1 and length(key) > 0").select("offset", "key").collect()
        assert sorted((row.offset, row.key) for row in found) == expected


@pytest.mark.parametrize("through", ["agent", "stores"])
def test_the_hash_of_a_key(spark: SparkSession, holdfast: str, sent: list[Sent], through: str) -> None:
    """Only for those who ask; also without the key itself. It is what Kafka's clients choose partitions by."""
    expected = {
        (each.partition, each.offset): None if each.key is None else partition_of_key(each.key, 2**31 - 1)
        for each in sent
    }
    rows = load(spark, holdfast, "varied", columns="partition,offset,keyHash", through=through).collect()
    found = {
        (row.partition, row.offset): None if row.keyHash is None else row.keyHash % (2**31 - 1)
        for row in rows
    }
    assert found == expected


def test_constant_columns_alone(spark: SparkSession, holdfast: str, sent: list[Sent]) -> None:
    """A read without any column of the records still counts them."""
    assert load(spark, holdfast, "varied", columns="topic,partition").count() == len(sent)


def test_stopping_early(spark: SparkSession, holdfast: str, sent: list[Sent]) -> None:
    """A query that needs a few rows gets them, and leaves the session as it was."""
    assert len(load(spark, holdfast, "varied").limit(5).collect()) == 5
    assert load(spark, holdfast, "varied").count() == len(sent)


def test_empty_topic(spark: SparkSession, holdfast: str) -> None:
    """A topic without records is an empty DataFrame."""
    with fake_cluster() as (brokers, _):
        assert load(spark, brokers.bootstrap, "orders").collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "nope"}, "option topic: there is no topic 'nope'"),
        ({"bootstrap": "127.0.0.1:1"}, r"option bootstrap: cannot connect to 127\.0\.0\.1:1"),
        ({"startingOffsets": '{"varied": {"0": 1}}'}, r"option startingOffsets: .*partitions \[0, 1, 2\]"),
        (
            {"endingOffsets": '{"varied": {"0": 99999999, "1": -1, "2": -1}}'},
            "option endingOffsets: .*99999999",
        ),
        ({"isolation": "serializable"}, "option isolation: 'serializable'"),
        ({"failOnDataLoss": "false"}, "option failOnDataLoss: .*can only be true"),
    ],
)
def test_mistakes_name_the_option(
    spark: SparkSession, holdfast: str, sent: list[Sent], options: dict[str, str], message: str
) -> None:
    """Whatever is wrong, the exception's last line names the option and the reason."""
    reader = spark.read.format("holdfast").options(**({"bootstrap": holdfast, "topic": "varied"} | options))
    with pytest.raises(AnalysisException, match=message):
        reader.load().count()


def test_a_tasks_failure_reaches_the_user(spark: SparkSession) -> None:
    """What goes wrong inside a task is told in the words of the error, not as a lost worker."""
    with fake_cluster() as (brokers, _):
        brokers.log = build_batch([Record(value=b"x")], base_offset=50)

        def expire(_: Any) -> dict[str, Any]:
            brokers.log_start = 50
            return fetched(error_code=OFFSET_OUT_OF_RANGE)

        brokers.brokers[0].handlers[FetchRequest.API_KEY] = expire
        frame = load(spark, brokers.bootstrap, "orders")
        with pytest.raises(
            PythonException, match="offsets 0 to 49 of orders-0 were removed before they were read"
        ):
            frame.count()

"""What a write may be told, and every way to get it wrong."""

from typing import Any

import pytest
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

from holdfast.client.endpoint import Endpoint
from holdfast.errors import UsageError
from holdfast.records.batch import Codec
from holdfast.spark.columns import check_columns
from holdfast.spark.write_options import Delivery, WriteOptions, options_from, parse_write_options

BASE = {"bootstrap": "127.0.0.1:9092", "topic": "orders"}


def parse(**options: str) -> WriteOptions:
    return parse_write_options(BASE | options, default=Delivery.EXACTLY_ONCE)


def test_what_is_said_and_what_is_not() -> None:
    """Defaults; names in any case; what Spark hands to every sink is no mistake."""
    options = parse(
        checkpointLocation="/tmp/x", queryName="q", COMPRESSION="zstd", transactionTimeoutMs="5000"
    )
    assert options.topic == "orders"
    assert options.delivery is Delivery.EXACTLY_ONCE
    assert options.codec is Codec.ZSTD
    assert options.transaction_ms == 5_000
    assert options.checkpoint == "/tmp/x"


def test_the_names_of_sparks_kafka_sink() -> None:
    """Queries move over unchanged."""
    given = {
        "kafka.bootstrap.servers": "h:1",
        "kafka.transactional.id": "t",
        "kafka.compression.type": "lz4",
        "kafka.batch.size": "7",
    }
    options = parse_write_options(given, default=Delivery.AT_LEAST_ONCE)
    assert (options.endpoint, options.transactional_id, options.batch_bytes) == (Endpoint("h:1"), "t", 7)
    assert options.codec is Codec.LZ4


def test_keywords() -> None:
    """Python's spelling of the same names."""
    words: dict[str, Any] = {"transactional_id": "t", "batch_bytes": 9, "topics": "a,b", "writers": 2}
    options = options_from({"bootstrap": "h:1"} | words, default=Delivery.EXACTLY_ONCE)
    assert (options.transactional_id, options.batch_bytes, options.writers) == ("t", 9, 2)
    assert options.names == ("a", "b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bootstrap": ""}, "option bootstrap is missing"),
        ({"bootstrap": "nowhere"}, "option bootstrap: 'nowhere'"),
        ({"topic": "a,b"}, "option topic: 'a,b' is not the name of a topic"),
        ({"topic": "sp ace"}, "cannot be the name of a topic"),
        ({"topics": "a"}, "option topics is for rows with a column topic"),
        ({"colour": "red"}, "option colour is not known"),
        ({"compression": "zip"}, "option compression: 'zip'"),
        ({"delivery": "maybe"}, "option delivery: 'maybe' is not one of exactly_once, at_least_once"),
        ({"writers": "0"}, "option writers: '0'"),
        ({"kafka.bootstrap.servers": "h:2"}, "option bootstrap is given twice"),
    ],
)
def test_mistakes(options: dict[str, str], message: str) -> None:
    """Each is told by the name of its option."""
    with pytest.raises(UsageError, match=message):
        parse(**options)


TEXT, NUMBER = StringType(), LongType()


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ({"value": TEXT}, None, "option topic is missing, and there is no column topic"),
        ({"key": TEXT}, "t", "column value is missing"),
        ({"value": NUMBER}, "t", "column value is bigint, not string or binary"),
        ({"value": TEXT, "id": NUMBER}, "t", "column id: a record has only key, value"),
        ({"value": TEXT, "headers": ArrayType(TEXT)}, "t", "column headers is array<string>"),
        ({"value": TEXT, "timestamp": NUMBER}, "t", "column timestamp is bigint, not timestamp"),
    ],
)
def test_columns(columns: dict[str, DataType], topic: str | None, message: str) -> None:
    """What is no record is refused before anything is written."""
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    with pytest.raises(UsageError, match=message):
        check_columns(schema, WriteOptions(endpoint=Endpoint("h:1"), topic=topic))

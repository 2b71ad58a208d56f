"""Topics as streams: every record once over micro-batches of bounded size, with offsets that people can read."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, fetch_group_offsets
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.errors import ConnectionFailed, HoldfastError, UnknownTopicOrPartition
from holdfast.spark.options import parse_stream_options
from holdfast.spark.schema import SCHEMA
from holdfast.spark.standing import Standing
from holdfast.spark.stream_reader import HoldfastStreamReader
from tests.spark.streams import make_topic, run

FIRST_MS = 1_700_000_000_000


def produce(bootstrap: str, topic: str, first: int, end: int, *, transaction: str | None = None) -> None:
    """Values from `first` on, over three partitions in turn, one per millisecond."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    producer = Producer(settings | ({"transactional.id": transaction} if transaction else {}))
    if transaction:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number in range(first, end):
        producer.produce(topic, value=b"%d" % number, partition=number % 3, timestamp=FIRST_MS + number)
    assert producer.flush(30) == 0
    if transaction:
        producer.abort_transaction(30)


def stream(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("holdfast").option("bootstrap", bootstrap)
    default = {} if "startingTimestamp" in options else {"startingOffsets": "earliest"}
    return reader.options(**default, **options).load()


def collect(frame: DataFrame, directory: Path) -> tuple[list[int], StreamingQuery]:
    """Runs the query on what is there, and reads all that it and those before it have written."""
    values = frame.selectExpr("cast(cast(value as string) as int) as number")
    writer = values.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    query = run(lambda: writer.trigger(availableNow=True).start(str(directory / "out")))
    found = frame.sparkSession.read.parquet(str(directory / "out")).collect()
    return sorted(row.number for row in found), query


def test_bounded_batches_and_visible_progress(spark: SparkSession, holdfast: str, tmp_path: Path) -> None:
    """Limited by offsets; aborted rows are left out; a group says where the query stands; a restart goes on."""
    make_topic(holdfast, "stream")
    produce(holdfast, "stream", 0, 60)
    produce(holdfast, "stream", 900, 903, transaction="aborted")
    options = {"topic": "stream", "maxOffsetsPerTrigger": "25", "group": "spark-lag"}
    found, query = collect(stream(spark, holdfast, **options), tmp_path)
    assert found == list(range(60))
    progress = [each for each in query.recentProgress if each["numInputRows"]]
    assert len(progress) == 3
    ends = [json.loads(each["sources"][0]["endOffset"])["stream"] for each in progress]
    with Cluster(holdfast) as cluster:
        last = list_offsets(cluster, "stream", dict.fromkeys(range(3), LATEST))
        committed = fetch_group_offsets(cluster, "spark-lag")
        topic_id = str(cluster.topic("stream").topic_id)
    assert [sum(end.values()) for end in ends] == [25, 50, sum(last.values())]
    latest = json.loads(progress[0]["sources"][0]["latestOffset"])["stream"]
    assert latest == {str(partition): end for partition, end in last.items()}
    assert committed == {TopicPartition("stream", partition): end for partition, end in last.items()}
    for shown in ("startOffset", "endOffset", "latestOffset"):
        assert json.loads(progress[1]["sources"][0][shown])["topic ids"] == {"stream": topic_id}
    produce(holdfast, "stream", 60, 70)
    found, _ = collect(stream(spark, holdfast, **options), tmp_path)
    assert found == list(range(70))


def test_patterns_times_and_bytes(spark: SparkSession, holdfast: str, tmp_path: Path) -> None:
    """New topics that the pattern fits are read from their beginning, whatever the query began with."""
    for topic in ("logs.a", "logs.b", "elsewhere"):
        make_topic(holdfast, topic)
        produce(holdfast, topic, 0, 30)
    options = {"subscribePattern": r"logs\..*", "startingTimestamp": str(FIRST_MS + 20)}
    frame = stream(spark, holdfast, **options, maxBytesPerTrigger="100")
    found, query = collect(frame, tmp_path)
    assert found == sorted([*range(20, 30)] * 2)
    assert len([each for each in query.recentProgress if each["numInputRows"]]) > 1
    make_topic(holdfast, "logs.c")
    produce(holdfast, "logs.c", 100, 110)
    found, _ = collect(stream(spark, holdfast, **options), tmp_path)
    assert found == sorted([*range(20, 30)] * 2 + [*range(100, 110)])


def test_batches_by_time_and_pattern(spark: SparkSession, holdfast: str) -> None:
    """The end is exclusive; where no record is that late the read ends at the end."""
    make_topic(holdfast, "timed.x")
    produce(holdfast, "timed.x", 0, 30)

    def numbers(**options: str) -> list[int]:
        reader = spark.read.format("holdfast").option("bootstrap", holdfast)
        frame = reader.options(subscribePattern=r"timed\..", **options).load()
        return sorted(int(row.value) for row in frame.select("value").collect())

    assert numbers(startingTimestamp=str(FIRST_MS + 10), endingTimestamp=str(FIRST_MS + 12)) == [10, 11]
    assert numbers(startingTimestamp=str(FIRST_MS + 28), endingTimestamp=str(FIRST_MS + 999)) == [28, 29]
    by_partition = json.dumps({"timed.x": {"0": FIRST_MS + 27, "1": FIRST_MS + 99, "2": FIRST_MS}})
    assert numbers(startingOffsetsByTimestamp=by_partition) == sorted([27, *range(2, 30, 3)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "stream", "endingOffsets": "latest"}, "a stream has no end"),
        ({"topic": "stream", "speed": "11"}, "option speed is not known"),
        ({"topic": "nowhere"}, "there is no topic 'nowhere'"),
    ],
)
def test_refused(
    spark: SparkSession, holdfast: str, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    """The last line of the failure names the option."""
    with pytest.raises(PySparkException, match=message):
        collect(stream(spark, holdfast, **options), tmp_path)


def test_a_query_that_runs_waits_for_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins is told at once: its address may be wrong."""
    reader = HoldfastStreamReader(parse_stream_options({"bootstrap": "127.0.0.1:1", "topic": "t"}), SCHEMA)
    refused: list[HoldfastError] = [
        UnknownTopicOrPartition("it has just come back"),
        ConnectionFailed("restarting"),
        ConnectionFailed("restarting"),
    ]

    def ends(self: HoldfastStreamReader) -> Standing:
        if refused:
            raise refused.pop()
        return Standing(positions={TopicPartition("t", 0): 7}, ids={})

    monkeypatch.setattr(HoldfastStreamReader, "_ends", ends)
    with pytest.raises(ConnectionFailed):
        reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"t": {"0": 3}}, ReadAllAvailable()) == {"t": {"0": 7}}
    assert not refused

"""The stream's reader driven by hand, as Spark drives it: what it makes of topics that change under it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.topics import delete_topics
from holdfast.errors import OffsetOutOfRange
from holdfast.spark import stream_reader
from holdfast.spark.options import parse_stream_options
from holdfast.spark.schema import SCHEMA
from holdfast.spark.source import RangePartition
from holdfast.spark.standing import Standing, StreamOffset
from holdfast.spark.stream_reader import HoldfastStreamReader
from tests.spark.streams import make_topic

ALL = ReadAllAvailable()
Open = Callable[..., HoldfastStreamReader]


@pytest.fixture
def opened(holdfast: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Readers of the process's topics from their beginning, without much patience."""
    monkeypatch.setattr(stream_reader, "Cluster", partial(Cluster, patience_s=0.3))
    with ExitStack() as readers:

        def make(**options: str) -> HoldfastStreamReader:
            given = {"bootstrap": holdfast, "startingOffsets": "earliest", **options}
            reader = HoldfastStreamReader(parse_stream_options(given), SCHEMA)
            readers.callback(reader.stop)
            return reader

        yield make


def produce(bootstrap: str, topic: str, count: int, *, partition: int = 0) -> None:
    """So many records to one partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, value=b"%d" % number, partition=partition)
    assert producer.flush(30) == 0


def delete(bootstrap: str, topic: str) -> None:
    """At once."""
    with Cluster(bootstrap) as cluster:
        assert delete_topics(cluster, [topic]) == {topic: None}


def create_anew(bootstrap: str, topic: str, count: int) -> None:
    """Another topic of the same name, with so many records in partition 0."""
    delete(bootstrap, topic)
    make_topic(bootstrap, topic, partitions=1)
    produce(bootstrap, topic, count)


def without_ids(offset: StreamOffset) -> StreamOffset:
    """As earlier versions wrote it."""
    return {topic: partitions for topic, partitions in offset.items() if topic != "topic ids"}


def ranges(
    reader: HoldfastStreamReader, start: StreamOffset, end: StreamOffset
) -> list[tuple[str, int, int]]:
    """What the batch's tasks are to read."""
    planned = [each.offsets for each in reader.partitions(start, end) if isinstance(each, RangePartition)]
    return [(str(found), found.start, found.end) for found in planned]


@pytest.mark.parametrize("count", [60, 140], ids=["shorter", "longer"])
def test_a_topic_that_is_created_anew(holdfast: str, opened: Open, count: int) -> None:
    """Another topic whose offsets mean other records: told by its id, however long it is, after a restart, too."""
    topic = f"anew-{count}"
    make_topic(holdfast, topic, partitions=1)
    produce(holdfast, topic, 100)
    reader = opened(topic=topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert ranges(reader, start, end) == [(f"{topic}-0", 0, 100)]
    assert reader.latestOffset(end, ALL) == end
    create_anew(holdfast, topic, count)
    lost = f"topic {topic}, with id .*, was deleted and created anew, .* up to 0:100: begin a new query"
    for each in (reader, opened(topic=topic)):
        with pytest.raises(OffsetOutOfRange, match=lost):
            each.latestOffset(end, ALL)
    with pytest.raises(OffsetOutOfRange, match=lost):
        opened(topic=topic).partitions(start, end)


def test_a_topic_that_is_shorter_than_it_was(holdfast: str, opened: Open) -> None:
    """Told by its length where no id is known: of brokers that are too old, and by checkpoints of earlier versions."""
    make_topic(holdfast, "short", partitions=1)
    produce(holdfast, "short", 10)
    reader = opened(topic="short")
    end = reader.latestOffset(without_ids(reader.initialOffset()), ALL)
    create_anew(holdfast, "short", 6)
    with pytest.raises(OffsetOutOfRange, match="short-0 was read up to 10 and now ends at 6: was the topic"):
        reader.latestOffset(without_ids(end), ALL)


def test_an_end_that_comes_back(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader does not know at once how far its partition reaches: nothing is lost, and nothing read again."""
    reader = opened(topic="t")
    place = TopicPartition("t", 0)
    ends = [5, 6, 9]
    monkeypatch.setattr(reader, "_ends", lambda: Standing(positions={place: ends.pop(0)}, ids={}))
    assert reader.latestOffset({"t": {"0": 7}}, ALL) == {"t": {"0": 9}}
    assert not ends


def test_a_target_behind_the_query(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """With availableNow the end may have been asked of such a leader: then there is nothing to do."""
    reader = opened(topic="t")
    place = TopicPartition("t", 0)
    ends = [5, 9, 9]
    monkeypatch.setattr(reader, "_ends", lambda: Standing(positions={place: ends.pop(0)}, ids={}))
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"t": {"0": 7}}, ALL) == {"t": {"0": 7}}
    assert reader.latestOffset({"t": {"0": 3}}, ALL) == {"t": {"0": 5}}

"""The stream's reader driven by hand, as Spark drives it: what it makes of topics that change under it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable

from holdfast.client.cluster import Cluster, Partition, Topic
from holdfast.client.groups import TopicPartition, fetch_group_offsets
from holdfast.client.topics import delete_topics
from holdfast.errors import OffsetOutOfRange, UnknownTopicOrPartition
from holdfast.spark import stream_reader
from holdfast.spark.options import parse_stream_options
from holdfast.spark.plan import find_topics
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


def add_partition(bootstrap: str, topic: str) -> None:
    """A second one."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)


def remove_before(bootstrap: str, topic: str, offset: int, *, partition: int) -> None:
    """What retention does some day."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (removed,) = admin.delete_records([Place(topic, partition, offset)]).values()
    assert removed.result(30).low_watermark == offset


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


def test_a_partition_that_is_added(holdfast: str, opened: Open) -> None:
    """Read from offset 0, whatever the query began with and however often the batch is made."""
    make_topic(holdfast, "wider", partitions=1)
    produce(holdfast, "wider", 5)
    reader = opened(topic="wider", startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    add_partition(holdfast, "wider")
    produce(holdfast, "wider", 50, partition=1)
    end = reader.latestOffset(start, ALL)
    assert (end["wider"], reader.latestOffset(end, ALL)) == ({"0": 5, "1": 50}, end)
    for each in (reader, opened(topic="wider")):
        assert ranges(each, start, end) == [("wider-1", 0, 50)]


@pytest.mark.parametrize("left", [20, 0])
def test_a_partition_that_is_added_and_trimmed(holdfast: str, opened: Open, left: int) -> None:
    """What was removed before the query came to it is lost to the query, as it is of every other partition."""
    topic = f"trimmed-{left}"
    make_topic(holdfast, topic, partitions=1)
    reader = opened(topic=topic)
    start = reader.initialOffset()
    add_partition(holdfast, topic)
    produce(holdfast, topic, 50, partition=1)
    remove_before(holdfast, topic, 50 - left, partition=1)
    end = reader.latestOffset(start, ALL)
    for each in (reader, opened(topic=topic)):
        (task,) = each.partitions(start, end)
        with pytest.raises(
            OffsetOutOfRange, match=f"offsets 0 to {49 - left} of {topic}-1 were removed before"
        ):
            list(each.read(task))


def test_a_topic_that_comes_later(holdfast: str, opened: Open) -> None:
    """What a pattern fits then has been read from nowhere yet: the same holds for all of its partitions."""
    make_topic(holdfast, "later.a", partitions=1)
    reader = opened(subscribePattern="later.*", startingOffsets="latest", maxOffsetsPerTrigger="3")
    start = reader.initialOffset()
    make_topic(holdfast, "later.b", partitions=2)
    produce(holdfast, "later.b", 4, partition=1)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert ranges(reader, start, end) == [("later.b-1", 0, 3)]
    remove_before(holdfast, "later.b", 2, partition=1)
    (task,) = reader.partitions(start, end)
    with pytest.raises(OffsetOutOfRange, match=r"offsets 0 to 1 of later\.b-1 were removed before"):
        list(reader.read(task))


def test_a_named_topic_that_is_gone(holdfast: str, opened: Open) -> None:
    """Whoever has named it wants it read: the query fails, be it in a batch that is made again."""
    make_topic(holdfast, "named", partitions=1)
    produce(holdfast, "named", 3)
    reader = opened(topic="named")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    delete(holdfast, "named")
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic 'named'"):
        reader.latestOffset(start, ALL)
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic 'named'"):
        opened(topic="named").partitions(start, end)


def test_a_topic_of_a_pattern_that_is_gone(
    holdfast: str, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Done with, and told once with how far it was read; the others are read on, and the group hears of them alone."""
    for topic, count in (("going.a", 5), ("going.b", 2)):
        make_topic(holdfast, topic, partitions=1)
        produce(holdfast, topic, count)
    options = {"subscribePattern": r"going\..", "maxOffsetsPerTrigger": "3", "group": "leaver"}
    reader = opened(**options)
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    first = reader.latestOffset(start, limit)
    assert first["going.a"] == {"0": 3}
    delete(holdfast, "going.a")
    produce(holdfast, "going.b", 1)
    second = reader.latestOffset(first, limit)
    assert reader.partitions(first, second)
    reader.commit(second)
    assert reader.latestOffset(second, limit) == second
    assert (second["going.a"], second["going.b"]) == ({"0": 3}, {"0": 3})
    with Cluster(holdfast) as cluster:
        assert fetch_group_offsets(cluster, "leaver") == {TopicPartition("going.b", 0): 3}
    told = "topic going.a is gone: it was read up to 0:{}; its last known end is {}"
    assert [each.getMessage() for each in caplog.records] == [told.format(3, "0:5")]
    # What was planned of it is to be read all the same, or not at all.
    assert ranges(opened(**options), start, second) == [("going.a-0", 0, 3), ("going.b-0", 0, 3)]
    # Back again, it is another topic.
    make_topic(holdfast, "going.a", partitions=1)
    produce(holdfast, "going.a", 9)
    with pytest.raises(OffsetOutOfRange, match=r"topic going\.a, with id .*, was deleted and created anew"):
        reader.latestOffset(second, limit)


def test_a_topic_that_is_not_chosen_any_more(
    holdfast: str, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """What was planned of it is read, and no more; it is not gone."""
    for topic in ("kept.a", "left.b"):
        make_topic(holdfast, topic, partitions=1)
        produce(holdfast, topic, 2)
    reader = opened(subscribePattern=r"(kept|left)\..")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    produce(holdfast, "left.b", 2)
    for options in ({"subscribePattern": r"kept\.."}, {"topic": "kept.a"}):
        changed = opened(**options)
        assert ranges(changed, start, end) == [("kept.a-0", 0, 2), ("left.b-0", 0, 2)]
        assert changed.latestOffset(end, ALL) == end
    assert not caplog.records


def test_a_topic_that_goes_while_it_is_asked_of(
    holdfast: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata names it still, and nobody tells where it ends."""
    make_topic(holdfast, "fading.a", partitions=1)
    produce(holdfast, "fading.a", 2)
    reader = opened(subscribePattern=r"fading\..")
    start = reader.initialOffset()
    ghost = Topic(name="fading.b", partitions={0: Partition(index=0, leader=1, replicas=(1,), in_sync=(1,))})
    monkeypatch.setattr(stream_reader, "find_topics", lambda *given: [*find_topics(*given), ghost])
    assert reader.latestOffset(start, ALL)["fading.a"] == {"0": 2}

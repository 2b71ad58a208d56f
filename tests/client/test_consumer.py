"""The raw consumer: every record once and in order, none that was aborted, positions that always move."""

import pytest
from kafka.protocol.consumer import FetchRequest

from holdfast.client.cluster import Cluster
from holdfast.client.consumer import Consumer
from holdfast.client.offsets import Isolation
from holdfast.errors import ConnectionFailed, CorruptBatch, OffsetOutOfRange
from holdfast.records.batch import Codec
from holdfast.records.build import build_batch
from holdfast.records.control import filler_batch
from holdfast.records.record import Record
from tests.client.fake_cluster import fake_cluster, fetched

COMMITTED = Isolation.READ_COMMITTED


def batch(base_offset: int, *values: bytes, producer_id: int = -1, codec: Codec = Codec.NONE) -> bytes:
    return build_batch(
        [Record(value=value) for value in values],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
        codec=codec,
    )


def consumer(cluster: Cluster, offset: int = 0, isolation: Isolation = COMMITTED) -> Consumer:
    return Consumer(cluster, "orders", {0: offset}, isolation=isolation)


def values(reader: Consumer) -> list[bytes | None]:
    return [record.value for _, record in reader.poll(0)]


def test_reads_on() -> None:
    """Each poll goes on where the last one ended, also from the middle of a batch."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0, b"a", b"b", b"c", codec=Codec.ZSTD)
        reader = consumer(client, offset=1)
        assert values(reader) == [b"b", b"c"]
        assert reader.positions == {0: 3}
        assert values(reader) == []
        brokers.log += batch(3, b"d")
        assert values(reader) == [b"d"]


@pytest.mark.parametrize(("topic", "partition"), [("payments", 0), ("orders", 1)])
def test_an_answer_for_another_partition_is_no_answer(topic: str, partition: int) -> None:
    """What was asked for is asked for again, and not waited for without an end."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0, b"a")
        brokers.misdirect_once(topic, partition)
        reader = consumer(client)
        assert values(reader) == []
        assert values(reader) == [b"a"]
    with fake_cluster(patience_s=0) as (brokers, client):
        brokers.brokers[0].handlers[FetchRequest.API_KEY] = lambda _: {"responses": []}
        with pytest.raises(ConnectionFailed, match="left orders-0 out of its answer"):
            values(consumer(client))


def test_position_of_a_reader_that_stops() -> None:
    """After each record the position is behind it and no further."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0, b"a", b"b", b"c")
        reader = consumer(client)
        stream = reader.poll(0)
        assert next(stream)[1].value == b"a"
        assert reader.positions == {0: 1}


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [(COMMITTED, [b"good"]), (Isolation.READ_UNCOMMITTED, [b"void", b"good", b"void"])],
)
def test_aborted(isolation: Isolation, expected: list[bytes]) -> None:
    """What was aborted is left out of read_committed, and the position passes it all the same."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0, b"void", producer_id=5) + batch(1, b"good") + batch(2, b"void", producer_id=5)
        brokers.aborted = [(5, 0)]
        reader = consumer(client, isolation=isolation)
        assert values(reader) == expected
        assert reader.positions == {0: 3}


def test_control_batches() -> None:
    """A control batch is no record, but the position passes it."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0, b"a") + filler_batch(base_offset=1, last_offset=9)
        reader = consumer(client)
        assert values(reader) == [b"a"]
        assert reader.positions == {0: 10}


def test_follows_the_leader() -> None:
    """When leadership moves, the new leader is asked, from the same position."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0, b"a") + batch(1, b"b")
        reader = consumer(client, offset=1)
        client.metadata(["orders"])
        brokers.leader = 1
        assert values(reader) == []
        assert values(reader) == [b"b"]
        assert brokers.fetches(1) == [1]


def test_gives_up() -> None:
    """A broker that stays away is an error, not an endless wait."""
    with fake_cluster(patience_s=0.2) as (brokers, client):
        reader = consumer(client)
        for broker in brokers.brokers:
            broker.handlers = dict.fromkeys(broker.handlers, lambda _: None)

        def poll_for_ever() -> None:
            while True:
                values(reader)

        with pytest.raises(ConnectionFailed):
            poll_for_ever()


def test_out_of_range() -> None:
    """An offset that is not there is said to be so, with advice."""
    with fake_cluster() as (_, client), pytest.raises(OffsetOutOfRange, match="start from the beginning"):
        values(consumer(client, offset=7))


def test_damaged_batch() -> None:
    """Bytes that are not what they claim to be are never shown as records."""
    with fake_cluster() as (brokers, client):
        damaged = bytearray(batch(0, b"a"))
        damaged[-1] ^= 1
        broker = brokers.brokers[0]
        broker.handlers[1] = lambda _: fetched(records=bytes(damaged), high_watermark=1)
        with pytest.raises(CorruptBatch):
            values(consumer(client))

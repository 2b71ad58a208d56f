"""Reading ranges: nothing lost, nothing endless, whatever the broker answers."""

from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from holdfast.client.reader import Chunk, OffsetRange, read_range
from holdfast.errors import CorruptBatch, OffsetOutOfRange, TransientRefusal
from holdfast.records.batch import BatchView
from holdfast.records.build import build_batch
from holdfast.records.control import filler_batch
from holdfast.records.record import Record
from tests.client.fake_cluster import fake_cluster, fetched


def batch(base_offset: int, count: int = 10) -> bytes:
    records = [Record(key=b"k", value=b"%05d" % (base_offset + index)) for index in range(count)]
    return build_batch(records, base_offset=base_offset)


def orders(start: int, end: int) -> OffsetRange:
    return OffsetRange(topic="orders", partition=0, start=start, end=end)


def bases(chunks: list[Chunk]) -> list[int]:
    return [view.base_offset for chunk in chunks for view in chunk.batches]


def test_several_fetches() -> None:
    """A range longer than one answer is read in order, each batch once."""
    with fake_cluster() as (brokers, client):
        brokers.log = b"".join(batch(base) for base in range(0, 100, 10))
        chunks = list(read_range(client, orders(0, 100), fetch_bytes=3 * len(batch(0))))
        assert bases(chunks) == list(range(0, 100, 10))
        assert brokers.fetches(0) == [0, 30, 60, 90]


def test_bytes_are_untouched() -> None:
    """The reader hands on the very bytes that the broker stores."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0) + batch(10)
        (chunk,) = read_range(client, orders(0, 20))
        assert bytes(chunk.batches[0].buffer) == brokers.log


def test_short_tail_is_fetched_again() -> None:
    """An answer that ends in the middle of a batch loses nothing: the batch comes whole with the next one."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0) + batch(10) + batch(20)
        chunks = list(read_range(client, orders(0, 30), fetch_bytes=len(batch(0)) + 7))
        assert bases(chunks) == [0, 10, 20]


def test_start_inside_a_batch() -> None:
    """The batch that holds the first offset is read, though it begins before."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0) + batch(10)
        assert bases(list(read_range(client, orders(15, 20)))) == [10]


def test_stops_at_the_end() -> None:
    """Reading stops when the range is passed, although the log goes on."""
    with fake_cluster() as (brokers, client):
        brokers.log = b"".join(batch(base) for base in range(0, 100, 10))
        list(read_range(client, orders(0, 25), fetch_bytes=1))
        assert brokers.fetches(0) == [0, 10, 20]


def test_holes_and_fillers_are_passed() -> None:
    """Offsets without records are passed as batch headers say: a gap, and a filler over a removed tail."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0) + batch(50) + filler_batch(base_offset=60, last_offset=99)
        chunks = list(read_range(client, orders(0, 100), fetch_bytes=1))
        assert bases(chunks) == [0, 50, 60]
        assert chunks[-1].next_offset == 100


def test_follows_a_moved_leader() -> None:
    """When leadership moves in the middle, the other node is asked from where reading stood."""
    with fake_cluster() as (brokers, client):
        brokers.log = b"".join(batch(base) for base in range(0, 40, 10))
        chunks = []
        for chunk in read_range(client, orders(0, 40), fetch_bytes=2 * len(batch(0))):
            chunks.append(chunk)
            brokers.leader = 1
        assert bases(chunks) == [0, 10, 20, 30]
        assert brokers.fetches(0) == [0, 20]
        assert brokers.fetches(1) == [20]


def test_follows_a_broken_connection() -> None:
    """A connection that breaks off is opened anew and reading goes on without loss or repetition."""
    with fake_cluster() as (brokers, client):
        brokers.log = b"".join(batch(base) for base in range(0, 40, 10))
        answers = [None]

        def break_off_once(request: Any) -> Any:
            return answers.pop() if answers and len(brokers.fetches(0)) == 2 else brokers.fetch(request, 0)

        brokers.brokers[0].handlers[FetchRequest.API_KEY] = break_off_once
        chunks = list(read_range(client, orders(0, 40), fetch_bytes=len(batch(0))))
        assert bases(chunks) == [0, 10, 20, 30]
        assert brokers.fetches(0) == [0, 10, 10, 20, 30]


@pytest.mark.parametrize(("topic", "partition"), [("payments", 0), ("orders", 1)])
def test_an_answer_for_another_partition_is_no_answer(topic: str, partition: int) -> None:
    """Its batches are whole and their CRCs hold, but they are somebody else's."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0)
        brokers.misdirect_once(topic, partition)
        (chunk,) = read_range(client, orders(0, 10))
        assert bytes(chunk.batches[0].buffer) == brokers.log
        assert brokers.fetches(0) == [0, 0]


def test_reads_one_replica() -> None:
    """With a node id that replica is asked, leader or not."""
    with fake_cluster() as (brokers, client):
        brokers.log = batch(0)
        brokers.brokers[1].handlers[FetchRequest.API_KEY] = lambda _: fetched(
            records=batch(0), high_watermark=10
        )
        assert bases(list(read_range(client, orders(0, 10), node_id=1))) == [0]
        assert brokers.fetches(0) == []


@pytest.mark.parametrize("answer", [b"", batch(0)], ids=["nothing", "only what was read before"])
def test_no_progress_is_an_error(answer: bytes) -> None:
    """A partition that ends below the range fails within the patience, and says where it stood."""
    with fake_cluster(patience_s=0.2) as (brokers, client):
        handler = brokers.brokers[0].handlers
        handler[FetchRequest.API_KEY] = lambda _: fetched(records=answer, high_watermark=10)
        with pytest.raises(TransientRefusal, match="nothing at offset 10, though it was to be read up to 20"):
            list(read_range(client, orders(10, 20)))


def test_removed_records_are_an_error() -> None:
    """Offsets that retention took before they were read are named; nothing is skipped in silence."""
    with fake_cluster() as (brokers, client):
        brokers.log, brokers.log_start = batch(50), 50
        with pytest.raises(OffsetOutOfRange, match="offsets 20 to 49 of orders-0 were removed"):
            list(read_range(client, orders(20, 60)))


def test_beyond_the_end_is_an_error() -> None:
    """An offset that the log does not reach, and never does, ends with the patience."""
    with fake_cluster(patience_s=0.2) as (brokers, client):
        brokers.log = batch(0)
        with pytest.raises(TransientRefusal, match="does not reach offset 15"):
            list(read_range(client, orders(15, 20)))


def test_damaged_batch_is_an_error() -> None:
    """A batch that fails its checksum is never handed on."""
    with fake_cluster(patience_s=0.2) as (brokers, client):
        damaged = bytearray(batch(0))
        damaged[-1] ^= 1
        brokers.log = bytes(damaged)
        with pytest.raises(CorruptBatch):
            list(read_range(client, orders(0, 10)))


def test_aborted_list_is_handed_on() -> None:
    """What a stock broker says about aborted transactions comes with the batches."""
    with fake_cluster() as (brokers, client):
        brokers.log, brokers.aborted = batch(0), [(7, 3)]
        (chunk,) = read_range(client, orders(0, 10))
        assert [(each.producer_id, each.first_offset) for each in chunk.aborted] == [(7, 3)]
        assert isinstance(chunk.batches[0], BatchView)

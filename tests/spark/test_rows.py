"""Stored batches as Arrow batches, without Spark around it."""

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from holdfast.client.aborted import AbortedTransaction
from holdfast.client.offsets import Isolation
from holdfast.client.reader import FETCH_BYTES, Chunk, OffsetRange
from holdfast.records.batch import Codec
from holdfast.records.build import build_batch
from holdfast.records.control import ControlType, control_batch
from holdfast.records.record import Record
from holdfast.records.walk import walk
from holdfast.spark.rows import ROWS_MAX, STORED_BYTES_MIN, gather, read_rows
from holdfast.spark.schema import select
from tests.client.fake_cluster import fake_cluster


def read(
    log: bytes, columns: list[str], *, aborted: list[tuple[int, int]] | None = None, end: int
) -> list[pa.RecordBatch]:
    with fake_cluster() as (brokers, client):
        brokers.log, brokers.aborted = log, aborted or []
        wanted = OffsetRange(topic="orders", partition=0, start=0, end=end)
        return list(read_rows(client, wanted, select(columns), isolation=Isolation.READ_COMMITTED))


def transactional(base_offset: int, producer_id: int, value: bytes) -> bytes:
    return build_batch(
        [Record(value=value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def test_aborted_and_control_records_never_appear() -> None:
    """On a stock broker the reader drops aborted batches by itself, and control batches always."""
    log = (
        transactional(0, 7, b"void")
        + transactional(1, 8, b"kept")
        + control_batch(ControlType.ABORT, base_offset=2, producer_id=7, producer_epoch=0)
        + control_batch(ControlType.COMMIT, base_offset=3, producer_id=8, producer_epoch=0)
        + transactional(4, 7, b"later")
    )
    (batch,) = read(log, ["offset", "value"], aborted=[(7, 0)], end=5)
    assert batch.to_pydict() == {"offset": [1, 4], "value": [b"kept", b"later"]}


def test_nothing_visible() -> None:
    """A range of aborted and control records alone gives no rows, and no empty Arrow batch."""
    log = transactional(0, 7, b"void") + control_batch(
        ControlType.ABORT, base_offset=1, producer_id=7, producer_epoch=0
    )
    assert read(log, ["value"], aborted=[(7, 0)], end=2) == []


def many(count: int, *, value: bytes = b"x", first: int = 0) -> bytes:
    """So many records in batches of 100, at the offsets from `first` on."""
    return b"".join(
        build_batch([Record(value=value)] * 100, base_offset=base)
        for base in range(first, first + count, 100)
    )


def test_small_batches_are_put_together() -> None:
    """Many small Kafka batches become few large Arrow batches, with a bound on their rows."""
    count = 100 * (ROWS_MAX // 100)
    batches = read(many(count), ["offset"], end=count)
    assert len(batches) == 2
    assert ROWS_MAX // 2 <= batches[0].num_rows < ROWS_MAX
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(count))


def test_what_compresses_well_is_read_as_before() -> None:
    """Fewer rows at a time: all that is read together may inflate to no more than a gigabyte."""
    value = bytes(20_000)
    log = b"".join(
        build_batch([Record(value=value)] * 50, base_offset=base, codec=Codec.ZSTD)
        for base in range(0, ROWS_MAX // 2, 50)
    )
    (chunk,) = [Chunk(batches=tuple(walk(log)), aborted=())]
    assert [sum(batch.record_count for batch in walk(found)) for found in gather([chunk])] == [32_800, 32_750]


def test_large_answers_are_not_copied_and_small_ones_wait_for_each_other() -> None:
    """However little an answer misses of the bytes that it might have."""
    large = many(1_000, value=bytes(STORED_BYTES_MIN // 1_000))
    small = [many(100, first=first) for first in (1_000, 1_100, 1_200)]
    chunks = [Chunk(batches=tuple(walk(log)), aborted=()) for log in (large, *small)]
    assert STORED_BYTES_MIN <= len(large) < FETCH_BYTES
    found = list(gather(chunks))
    assert list(map(bytes, found)) == [large, b"".join(small)]
    assert isinstance(found[0], memoryview)


@pytest.mark.parametrize("seed", range(20))
def test_batches_are_gathered_in_order_and_copied_only_where_something_lies_between(seed: int) -> None:
    chance = Random(seed)
    producers = chance.choice([(7,), (7, 8), (8,)])
    chunks, visible, base = [], [], 0
    for _ in range(3):
        made = []
        for _ in range(chance.randint(1, 6)):
            made.append((producer := chance.choice(producers), transactional(base, producer, b"x")))
            base += 1
        log = b"".join(batch for _, batch in made)
        aborted = (AbortedTransaction(producer_id=7, first_offset=0),)
        chunks.append(Chunk(batches=tuple(walk(log)), aborted=aborted))
        visible += [batch for producer, batch in made if producer == 8]
    (found,) = gather(chunks) if visible else (b"",)
    assert bytes(found) == b"".join(visible)
    copies = [isinstance(each, bytes) for chunk in chunks[:1] for each in gather([chunk])]
    fates = [batch.producer_id == 8 for batch in chunks[0].batches]
    stretches = sum(now and not before for before, now in pairwise([False, *fates]))
    assert copies == [stretches > 1] * bool(stretches)


def test_two_answers_are_two_pieces_wherever_their_batches_lie() -> None:
    first, void, second = transactional(0, 8, b"a"), transactional(1, 7, b"b"), transactional(2, 8, b"c")
    aborted = (AbortedTransaction(producer_id=7, first_offset=1),)
    chunks = [Chunk(batches=tuple(walk(log)), aborted=aborted) for log in (first, void + second)]
    assert chunks[1].batches[1].position == chunks[0].batches[0].size_bytes
    assert list(gather(chunks)) == [first + second]


def test_times_that_spark_cannot_hold() -> None:
    """A producer may claim any 64-bit time; one beyond Spark's range is null and spoils no other."""
    last = (2**63 - 1) // 1000
    times = [0, 2**62, -(2**62), -1, 2**63 - 1, last, last + 1, -last, -last - 1]
    log = b"".join(
        build_batch([Record(value=b"x", timestamp_ms=time)], base_offset=offset)
        for offset, time in enumerate([*times, -(2**63)])
    )
    (batch,) = read(log, ["timestamp"], end=10)
    kept = [0, None, None, -1000, None, 1000 * last, None, -1000 * last, None, None]
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == kept


def test_log_append_time() -> None:
    """Records of a topic with LogAppendTime carry the broker's time and say so."""
    log = build_batch([Record(value=b"x", timestamp_ms=5)], log_append_time_ms=77)
    (batch,) = read(log, ["timestamp", "timestampType"], end=1)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [77_000]
    assert batch["timestampType"].to_pylist() == [1]

"""Arrow columns as record batches: the plain reader finds in them what was in the columns."""

import random

import numpy as np
import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from holdfast.errors import UsageError
from holdfast.records.batch import Codec, validate
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.encode import Rows, hashes_of_keys

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SEED = 20_261_117


def some_records(count: int) -> list[Record]:
    """Keys, values and headers that are there, empty or null; times before, at and after the first."""
    chance = random.Random(SEED)
    return [
        Record(
            key=chance.choice([None, b"", chance.randbytes(chance.randrange(1, 200))]),
            value=chance.choice([None, b"", chance.randbytes(chance.randrange(1, 3_000))]),
            headers=tuple(
                (f"name-{'ü' * chance.randrange(3)}{each}", chance.choice([None, b"", b"text" * each]))
                for each in range(chance.choice([0, 0, 1, 5]))
            ),
            timestamp_ms=chance.choice([0, -1, 1_700_000_000_000 + chance.randrange(-(10**9), 10**9), 2**62]),
        )
        for _ in range(count)
    ]


def columns(records: list[Record]) -> dict[str, pa.Array]:
    headers = [
        [{"key": name, "value": value} for name, value in record.headers] or None for record in records
    ]
    return {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "timestamp_ms": pa.array([record.timestamp_ms for record in records], pa.int64()),
        "headers": pa.array(headers, HEADERS),
    }


def told(records: list[Record]) -> list[tuple[object, ...]]:
    return [(each.key, each.value, tuple(each.headers), each.timestamp_ms) for each in records]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_holds_the_rows_that_were_chosen(codec: Codec) -> None:
    """In their order, with whom they are from; and byte by byte what the plain builder makes of them."""
    records = some_records(300)
    rows = Rows(**columns(records))
    chosen = np.array(random.Random(SEED).sample(range(300), 120), np.int64)
    batch = rows.build(
        chosen, codec=codec, producer_id=7, producer_epoch=3, base_sequence=40, transactional=True
    )
    view = validate(batch)
    assert told(list(read_records(view))) == told([records[row] for row in chosen])
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (7, 3, 40)
    assert view.is_transactional
    wanted = build_batch(
        [records[row] for row in chosen],
        codec=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=40,
        transactional=True,
    )
    assert bytes(batch) == wanted


def test_slices_of_arrays_are_read_where_they_lie() -> None:
    """Spark's batches may be parts of larger ones."""
    records = some_records(90)
    parts = {name: array.slice(31, 40) for name, array in columns(records).items()}
    every = np.arange(40, dtype=np.int64)
    batch = Rows(**parts).build(
        every, codec=Codec.NONE, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False
    )
    assert told(list(read_records(validate(batch)))) == told(records[31:71])


def test_pieces_fit_and_nothing_is_left_out() -> None:
    """A row that is too large for itself goes alone: the broker has the last word on it."""
    records = [Record(value=b"x" * size) for size in (10, 500, 10, 20_000, 10, 400, 400, 400)]
    rows = Rows(**columns(records))
    pieces = list(rows.cut(np.arange(8, dtype=np.int64), bytes_max=1_000))
    assert np.concatenate(pieces).tolist() == list(range(8))
    assert [3] in [piece.tolist() for piece in pieces]
    for piece in pieces:
        batch = rows.build(
            piece, codec=Codec.NONE, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False
        )
        assert len(batch) <= 1_000 or len(piece) == 1


def test_keys_hash_as_in_kafkas_clients() -> None:
    """Of every length modulo four; kafka-python has the same function."""
    keys = [random.Random(SEED + size).randbytes(size) for size in range(40)] + [None]
    wanted = [None if key is None else murmur2(key) & 0x7FFF_FFFF for key in keys]
    assert hashes_of_keys(pa.array(keys, pa.binary())).to_pylist() == wanted


def test_a_header_needs_a_name() -> None:
    """Kafka's clients could not read it."""
    parts = columns([Record(value=b"1")]) | {"headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}
    with pytest.raises(UsageError, match="no key"):
        Rows(**parts)

"""Fingerprints: the same for what says the same, however it is packed; another for everything else."""

import numpy as np
import pytest

from holdfast.records.arrow import decode
from holdfast.records.batch import Codec
from holdfast.records.build import build_batch
from holdfast.records.fingerprint import COLUMNS, fingerprint
from holdfast.records.record import Record

TIME_MS = 1_700_000_000_000


def prints(*records: Record, codec: Codec = Codec.NONE, base_offset: int = 0) -> list[int]:
    batch = build_batch(list(records), base_offset=base_offset, codec=codec)
    table = decode(batch, columns=list(COLUMNS))
    return [int(each) for part in table.to_batches() for each in fingerprint(part, seed=7)]


def record(value: bytes | None = b"v", *headers: tuple[str, bytes | None], time_ms: int = TIME_MS) -> Record:
    return Record(key=b"k", value=value, headers=list(headers), timestamp_ms=time_ms)


def test_packing_does_not_matter() -> None:
    """Codec, offsets and neighbours are not what a record says."""
    one, other = record(b"x" * 100, ("a", b"1")), record(None)
    together = prints(one, other)
    assert [*prints(one, codec=Codec.LZ4, base_offset=9), *prints(other)] == together


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (record(b"v"), record(b"w")),
        (record(b""), record(None)),
        (record(b"v", time_ms=TIME_MS + 1), record(b"v")),
        (record(b"v", ("a", b"")), record(b"v", ("a", None))),
        (record(b"v", ("a", b"1"), ("b", b"2")), record(b"v", ("b", b"2"), ("a", b"1"))),
        (record(b"v", ("a", b"1")), record(b"v")),
        (record(b"v", ("a", b"1")), record(b"v", ("b", b"1"))),
    ],
)
def test_everything_said_counts(one: Record, other: Record) -> None:
    """Value, null, time, headers and their order."""
    assert prints(one) != prints(other)
    assert prints(one, other) == [*prints(one), *prints(other)]


def test_many_records_have_many_prints() -> None:
    """None of ten thousand meets another."""
    rows = [record(b"%d" % number, ("h", b"%d" % (number % 3))) for number in range(10_000)]
    assert len(np.unique(prints(*rows))) == len(rows)

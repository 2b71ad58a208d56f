"""What is covered by kept fingerprints, as a pure function; and their records, there and back."""

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.client.groups import TopicPartition
from holdfast.client.reader import OffsetRange
from holdfast.errors import CorruptData
from holdfast.pipelines.recon.kept import (
    Coverage,
    Spans,
    Sums,
    begins_late,
    cover,
    decode_coverage,
    decode_key,
    decode_sums,
    encode_coverage,
    encode_key,
    encode_sums,
)
from holdfast.pipelines.recon.reading import LATE
from holdfast.spark.reconcile import Group

PLACE = TopicPartition("in", 0)
COVERAGE = Coverage(
    life="a",
    seed=1 << 62,
    bucket_bits=4,
    window_ms=600_000,
    lateness_ms=900_000,
    since_ms=0,
    spans={PLACE: (3, 9)},
    whole_since_ms=1_200_000,
    topic_ids={"in": UUID(int=7), "out": None},
)


def offsets(start: int, end: int) -> OffsetRange:
    return OffsetRange(topic="in", partition=0, start=start, end=end)


@settings(max_examples=100, deadline=None)
@given(batches=st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=3), max_size=8))
def test_every_covered_offset_is_counted_once_whatever_comes_again(
    batches: list[list[tuple[int, int]]],
) -> None:
    spans: Spans = {}
    counted: list[int] = []
    for batch in batches:
        spans, fresh = cover(spans, [offsets(start, start + size) for start, size in batch])
        counted += [offset for found in fresh for offset in range(found.start, found.end)]
    for start, end in spans.values():
        assert set(range(start, end)) <= set(counted)
        assert all(counted.count(offset) == 1 for offset in range(start, end))


def test_coverage_begins_late_where_records_were_before_it() -> None:
    """In a partition that is new to it, or behind a hole; not where it only goes on."""
    begun = {PLACE: (0, 10)}
    assert not begins_late({}, begun)
    assert not begins_late(begun, {PLACE: (0, 12), TopicPartition("in", 1): (0, 3)})
    assert not begins_late({PLACE: (3, 9)}, {PLACE: (3, 12)})
    assert begins_late({}, {PLACE: (3, 9)})
    assert begins_late(begun, {PLACE: (12, 15)})
    assert begins_late(begun, begun | {TopicPartition("in", 1): (1, 3)})


def test_behind_a_hole_coverage_begins_anew() -> None:
    spans, _ = cover({}, [offsets(0, 10)])
    assert cover(spans, [offsets(5, 12)]) == ({PLACE: (0, 12)}, [offsets(10, 12)])
    assert cover(spans, [offsets(12, 15)]) == ({PLACE: (12, 15)}, [offsets(12, 15)])
    assert cover(spans, [offsets(0, 10)]) == (spans, [])


def test_records_there_and_back() -> None:
    written = encode_coverage(COVERAGE)
    assert decode_coverage(written) == COVERAGE
    first_kept = written.replace(b'"whole_since_ms":1200000,', b"").replace(b'"format":2', b'"format":1')
    assert decode_coverage(first_kept) == replace(COVERAGE, whole_since_ms=0, topic_ids={})
    group = Group("a/b/ü", LATE, 1_794_614_400_000)
    cells = np.arange(64, dtype=np.uint64).reshape(16, 4) + np.uint64(1 << 63)
    made = Sums(life="a", part="7", group=group, cells=cells, spans={PLACE: (3, 9)})
    key = encode_key(group, "7")
    assert decode_key(key) == (group, "7")
    found = decode_sums(key, encode_sums(made))
    assert (found.group, found.part, found.life, found.spans) == (group, "7", "a", made.spans)
    assert (found.cells == cells).all()


@pytest.mark.parametrize(
    "value", [b"", b"[]", b'{"format":2}', b'{"format":3}', b'{"format":1,"life":"a","cells":"!","spans":{}}']
)
def test_what_is_no_record_of_ours_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_sums(encode_key(Group("acme", 0, 0), "7"), value)
    with pytest.raises(CorruptData):
        decode_coverage(value)
    with pytest.raises(CorruptData):
        decode_key(b"coverage")

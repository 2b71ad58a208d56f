"""How ranges of offsets are resolved and shared out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.reader import OffsetRange
from holdfast.errors import UsageError
from holdfast.records.build import build_batch
from holdfast.records.record import Record
from holdfast.spark.options import parse_options
from holdfast.spark.plan import plan, split
from tests.client.fake_cluster import fake_cluster


def pieces_of(offsets: list[tuple[int, int]]) -> list[OffsetRange]:
    return [
        OffsetRange(topic="t", partition=partition, start=start, end=start + size)
        for partition, (start, size) in enumerate(offsets)
    ]


limit = st.none() | st.integers(1, 50)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 200)), max_size=6), limit, limit)
def test_pieces_cover_every_offset_once(
    offsets: list[tuple[int, int]], partitions_min: int | None, records_max: int | None
) -> None:
    """Whatever the limits, the pieces together are the ranges, none is empty, and the limits hold."""
    ranges = pieces_of(offsets)
    pieces = split(ranges, partitions_min=partitions_min, records_max=records_max)
    covered = [(piece.partition, offset) for piece in pieces for offset in range(piece.start, piece.end)]
    assert covered == [
        (found.partition, offset) for found in ranges for offset in range(found.start, found.end)
    ]
    assert all(piece.start < piece.end for piece in pieces)
    if records_max is not None:
        assert all(piece.end - piece.start <= records_max for piece in pieces)
    if partitions_min is not None:
        assert len(pieces) >= min(partitions_min, len(covered))


def test_large_partitions_are_cut_more_often() -> None:
    """minPartitions follows the sizes: a hot partition does not hold everything up."""
    pieces = split(pieces_of([(0, 900), (0, 100)]), partitions_min=10, records_max=None)
    assert [piece.partition for piece in pieces] == [0] * 9 + [1]


@pytest.mark.parametrize(
    ("options", "start", "end"),
    [
        ({}, 5, 30),
        ({"startingOffsets": '{"orders": {"0": 7}}', "endingOffsets": '{"orders": {"0": 9}}'}, 7, 9),
        ({"startingOffsets": '{"orders": {"0": -2}}', "endingOffsets": '{"orders": {"0": -1}}'}, 5, 30),
    ],
)
def test_resolved_offsets(options: dict[str, str], start: int, end: int) -> None:
    """Words and sentinels become the offsets that the broker names."""
    with fake_cluster() as (brokers, client):
        brokers.log, brokers.log_start = build_batch([Record(value=b"x")], base_offset=29), 5
        ranges = plan(client, parse_options({"bootstrap": brokers.bootstrap, "topic": "orders"} | options))
        assert ranges == [OffsetRange(topic="orders", partition=0, start=start, end=end)]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"startingOffsets": '{"orders": {"0": 4}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": 31}}'}, "startingOffsets"),
        ({"endingOffsets": '{"orders": {"0": 31}}'}, "endingOffsets"),
        (
            {"startingOffsets": '{"orders": {"0": 9}}', "endingOffsets": '{"orders": {"0": 8}}'},
            "startingOffsets",
        ),
        ({"startingOffsets": '{"orders": {"1": 9}}'}, "startingOffsets"),
        ({"startingOffsets": '{"other": {"0": 9}}'}, "startingOffsets"),
    ],
)
def test_offsets_that_are_not_there(options: dict[str, str], option: str) -> None:
    """Offsets outside of the log, backward ranges and missing partitions are refused by name."""
    with fake_cluster() as (brokers, client):
        brokers.log, brokers.log_start = build_batch([Record(value=b"x")], base_offset=29), 5
        with pytest.raises(UsageError, match=f"^option {option}"):
            plan(client, parse_options({"bootstrap": brokers.bootstrap, "topic": "orders"} | options))

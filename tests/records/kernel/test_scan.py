"""scan: the kernel finds what the plain reader finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import CorruptBatch
from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.control import filler_batch
from holdfast.records.kernel import Columns, Scan, count_data_records, scan
from holdfast.records.walk import walk
from tests.records import oracles
from tests.records.kernel.logs import random_log


@st.composite
def buffers(draw: st.DrawFn) -> bytes:
    """Several batches: data in any codec, with gaps, empty ones and control batches among them."""
    parts = []
    offset = draw(st.integers(0, 2**40))
    for kind in draw(st.lists(st.sampled_from(["data", "data", "gaps", "empty", "control"]), max_size=6)):
        codec = draw(st.sampled_from(Codec))
        match kind:
            case "data":
                bare = draw(oracles.records)
                parts.append(build_batch(bare, base_offset=offset, codec=codec))
                offset += len(bare)
            case "gaps":
                gone = draw(st.integers(1, 50))
                bare = [oracles.at_offset(draw(oracles.record), offset + gone)]
                parts.append(
                    build_batch(bare, base_offset=offset, codec=codec, last_offset=offset + 2 * gone)
                )
                offset += 2 * gone + 1
            case "empty":
                parts.append(build_batch([], base_offset=offset, last_offset=offset + 3))
                offset += 4
            case "control":
                parts.append(filler_batch(base_offset=offset))
                offset += 1
    return b"".join(parts)


def rows(found: Scan) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """What the columns point at."""
    data, columns = found.data.tobytes(), found.columns

    def field(start: int, length: int) -> bytes | None:
        return None if length < 0 else data[start : start + length]

    return [
        (int(offset), int(timestamp), field(key_start, key_bytes), field(value_start, value_bytes))
        for offset, timestamp, key_start, key_bytes, value_start, value_bytes, _ in zip(*columns, strict=True)
    ]


def plain(buffer: bytes, *, control: bool = False) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """The same from the plain reader."""
    return [
        (record.offset or 0, record.timestamp_ms, record.key, record.value)
        for view in walk(buffer)
        if control or not view.is_control
        for record in read_records(view)
    ]


@settings(max_examples=120)
@given(buffer=buffers())
def test_scan_finds_every_record(buffer: bytes) -> None:
    """Offsets, timestamps, keys and values, through every codec, with and without control records."""
    assert rows(scan(buffer)) == plain(buffer)
    assert rows(scan(bytearray(buffer), include_control=True)) == plain(buffer, control=True)


@settings(max_examples=80)
@given(buffer=buffers(), bounds=st.tuples(st.integers(-5, 120), st.integers(-5, 120)))
def test_a_range_is_half_open(buffer: bytes, bounds: tuple[int, int]) -> None:
    """Exactly the offsets in [start, end), in the middle of batches too, and row counts that add up."""
    first = next((view.base_offset for view in walk(buffer)), 0)
    start, end = first + min(bounds), first + max(bounds)
    found = scan(buffer, start=start, end=end)
    assert rows(found) == [row for row in plain(buffer) if start <= row[0] < end]
    assert found.batches["row_count"].sum() == len(found.columns.offset)


def test_log_append_time() -> None:
    """Every record has the broker's time."""
    found = scan(build_batch([Record(timestamp_ms=1), Record(timestamp_ms=9)], log_append_time_ms=500))
    assert found.columns.timestamp.tolist() == [500, 500]


def test_columns_are_reused_when_they_are_large_enough() -> None:
    """`out` saves memory that would be thrown away, and a short one does no harm."""
    batch = build_batch([Record(value=b"x")] * 10)
    roomy, tight = Columns.empty(100), Columns.empty(9)
    assert np.shares_memory(scan(batch, out=roomy).columns.offset, roomy.offset)
    assert not np.shares_memory(scan(batch, out=tight).columns.offset, tight.offset)
    assert rows(scan(batch, out=tight)) == rows(scan(batch, out=roomy)) == plain(batch)


@pytest.mark.parametrize("codec", Codec)
def test_a_wrong_crc_names_its_batch(codec: Codec) -> None:
    """The second of three batches is damaged: its position is reported, unless CRCs are not wanted."""
    batches = [build_batch([Record(value=bytes(50))], base_offset=n, codec=codec) for n in range(3)]
    damaged = bytearray(b"".join(batches))
    damaged[len(batches[0]) + 30] ^= 1
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        scan(damaged)
    assert caught.value.position == len(batches[0])
    assert len(scan(damaged, check_crcs=False).columns.offset) == 3


@pytest.mark.parametrize("seed", range(10))
def test_masks_have_an_entry_for_every_data_record(seed: int) -> None:
    """The count for a mask is what a scan finds."""
    for buffer in random_log(seed).pieces:
        assert count_data_records(buffer) == len(scan(buffer).columns.offset)


@pytest.mark.parametrize("bounds", [{"inflated_bytes_max": 20}, {"inflated_total_bytes_max": 41}])
def test_a_count_that_cannot_be_inflated_is_refused(bounds: dict[str, int]) -> None:
    """Three records need 21 bytes: as many as a batch, or two of them, may not inflate to."""
    batch = build_batch([Record()] * 3, codec=Codec.ZSTD)
    assert count_data_records(batch * 2, inflated_bytes_max=21, inflated_total_bytes_max=42) == 6
    with pytest.raises(CorruptBatch, match="count") as caught:
        count_data_records(batch * 2, **bounds)
    assert caught.value.position in (0, len(batch))
    assert count_data_records(build_batch([Record()] * 3) * 2, **bounds) == 6


def test_half_a_batch_is_refused() -> None:
    """A buffer ends with a whole batch, or is cut by whole_bytes first."""
    batch = build_batch([Record()])
    with pytest.raises(CorruptBatch) as caught:
        scan(batch + batch[:-1])
    assert caught.value.position == len(batch)

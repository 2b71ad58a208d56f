"""find_tombstones: records without a value, where they stand and at which offsets."""

import numpy as np
import pytest

from holdfast.errors import CorruptBatch
from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.control import filler_batch
from holdfast.records.kernel import Tombstones, find_tombstones
from holdfast.records.walk import walk
from tests.records.kernel.logs import random_log


@pytest.mark.parametrize("seed", range(20))
def test_exactly_the_records_without_a_value(seed: int) -> None:
    """Rows in scan's order and the offsets that belong to them, through every codec; an empty value is a value."""
    for buffer in random_log(seed).pieces:
        data = [record for view in walk(buffer) if not view.is_control for record in read_records(view)]
        found = find_tombstones(buffer)
        assert list(zip(found.rows.tolist(), found.offsets.tolist(), strict=True)) == [
            (row, record.offset) for row, record in enumerate(data) if record.value is None
        ]


def some() -> Tombstones:
    """Rows 1, 2 and 4 at offsets 11, 12 and 21, with a control batch between them."""
    first = build_batch([Record(value=b"v"), Record(), Record()], base_offset=10)
    return find_tombstones(
        first
        + filler_batch(base_offset=13)
        + build_batch([Record(value=b""), Record()], base_offset=20, codec=Codec.LZ4)
    )


@pytest.mark.parametrize(("end", "rows"), [(11, []), (12, [1]), (21, [1, 2]), (22, [1, 2, 4])])
def test_the_bound_is_exclusive(end: int, rows: list[int]) -> None:
    """Those below an offset, ready to be marked."""
    assert some().rows_below(end).tolist() == rows


@pytest.mark.parametrize(
    ("dead", "first"), [([], 11), ([1], 12), ([1, 2], 21), ([0, 3], 11), ([1, 2, 4], -1)]
)
def test_the_first_that_lives(dead: list[int], first: int) -> None:
    """The lowest offset that is not marked, or none."""
    mask = np.zeros(5, np.bool_)
    mask[dead] = True
    assert some().first_alive(mask) == first


@pytest.mark.parametrize("codec", Codec)
def test_a_wrong_crc_names_its_batch(codec: Codec) -> None:
    """The second of three batches is damaged: its position is reported, unless CRCs are not wanted."""
    batches = [build_batch([Record(key=bytes(50))], base_offset=n, codec=codec) for n in range(3)]
    damaged = bytearray(b"".join(batches))
    damaged[len(batches[0]) + 30] ^= 1
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        find_tombstones(damaged)
    assert caught.value.position == len(batches[0])
    assert find_tombstones(damaged, check_crcs=False).offsets.tolist() == [0, 1, 2]

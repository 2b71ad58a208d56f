"""Walking buffers of many batches."""

import pytest

from holdfast.errors import CorruptBatch
from holdfast.records.build import Record, build_batch
from holdfast.records.walk import walk, walk_valid, whole_bytes

BATCHES = [build_batch([Record(value=bytes(10 * n))] * (n + 1), base_offset=100 * n) for n in range(5)]
BUFFER = b"".join(BATCHES)


def test_walk_finds_every_batch() -> None:
    """Batches come in order, each at its own position."""
    assert [(view.position, view.base_offset) for view in walk(BUFFER)] == [
        (sum(map(len, BATCHES[:n])), 100 * n) for n in range(5)
    ]
    assert [view.record_count for view in walk_valid(memoryview(BUFFER))] == [1, 2, 3, 4, 5]
    assert list(walk(b"")) == []


def test_walk_a_part() -> None:
    """position and end cut out whole batches."""
    start, end = len(BATCHES[0]), len(BUFFER) - len(BATCHES[-1])
    assert [view.base_offset for view in walk(BUFFER, position=start, end=end)] == [100, 200, 300]


@pytest.mark.parametrize("cut", [1, 11, 12, 40, 61, 70])
def test_a_torn_tail(cut: int) -> None:
    """A tail that is not whole raises at its position, after the whole batches; whole_bytes leaves it out."""
    torn = BUFFER + BATCHES[1][:cut]
    assert whole_bytes(torn) == len(BUFFER)
    batches = walk(torn)
    assert [next(batches).base_offset for _ in BATCHES] == [0, 100, 200, 300, 400]
    with pytest.raises(CorruptBatch) as caught:
        next(batches)
    assert caught.value.position == len(BUFFER)
    assert len(list(walk(torn, end=whole_bytes(torn)))) == 5


def test_an_impossible_length_is_no_torn_tail() -> None:
    """A length below the header's cannot become whole by reading on: waiting for more would never end."""
    with pytest.raises(CorruptBatch, match="shorter than its header"):
        whole_bytes(BUFFER + bytes(20))


def test_only_walk_valid_reads_the_crc() -> None:
    """A flipped payload byte passes the cheap walk and stops the careful one, at the right batch."""
    changed = bytearray(BUFFER)
    changed[-1] ^= 1
    assert len(list(walk(changed))) == 5
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        list(walk_valid(changed))
    assert caught.value.position == len(BUFFER) - len(BATCHES[-1])

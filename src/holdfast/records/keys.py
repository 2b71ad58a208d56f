"""Which records of a batch have no key, in plain Python: for the agent, which takes none such on a compacted topic.

All records are checked as `RecordReader` checks them, but what most of them look like is stepped over, not read.
"""

from typing import Final

from holdfast.errors import CorruptBatch
from holdfast.records.batch import RECORD_BYTES_MIN, BatchView
from holdfast.records.codecs import INFLATED_BYTES_MAX, decompress
from holdfast.records.record import RecordReader

_NULL: Final = 1
"""The length of a null, -1, as it is stored: n stands as 2n, and as -2n - 1 if it is negative."""

_TIMESTAMP_BYTES_MAX: Final = 10


def find_keyless(
    batch: BatchView, *, found_max: int, inflated_bytes_max: int = INFLATED_BYTES_MAX
) -> list[int]:
    """The places in the batch of its records without a key, `found_max` at most.

    The batch is as a producer made it: the offsets of its records count from its base on. Raises CorruptBatch when
    bytes do not add up; what follows the last record that was asked for is not looked at.
    """
    payload = decompress(batch.codec, batch.records, bytes_max=inflated_bytes_max)
    count = batch.record_count
    if count * RECORD_BYTES_MIN > len(payload):
        raise CorruptBatch(f"{count} records in {len(payload)} bytes", batch.position)
    found: list[int] = []
    index = position = 0
    while True:
        index, position = _skip_keyed(payload, position, index, count)
        if index == count:
            break
        reader = RecordReader(payload[position:])
        record = reader.read(base_offset=0, base_timestamp=0)
        if record.offset != index:
            raise CorruptBatch(f"offset {record.offset} is out of order", batch.position)
        if record.key is None:
            found.append(index)
            if len(found) == found_max:
                return found
        index += 1
        position += reader.position
    if position != len(payload):
        raise CorruptBatch("bytes are left over after the last record", batch.position)
    return found


def _skip_keyed(payload: memoryview, start: int, first: int, count: int) -> tuple[int, int]:  # noqa: C901, PLR0911, PLR0912
    """From the record `first` at `start` on: number and place of the next that needs a closer look.

    None does that has a key, is whole, and has the usual shape: lengths of up to three bytes, those of the key and of
    headers of one. All of it stands in one loop, because a call would cost as much as a record does.
    """
    twice, end = 2 * first, start
    try:
        for twice in range(2 * first, 2 * count, 2):
            start = end
            length = payload[start]
            at = start + 2
            if length > 0x7F:
                length += (payload[start + 1] << 7) - 0x80
                at += 1
                if length > 0x3FFF:
                    length += (payload[start + 2] << 14) - 0x4000
                    at += 1
                    if length > 0x1FFFFF:
                        return twice >> 1, start
            end = at - 1 + (length >> 1)
            if payload[at] > 0x7F:
                last = at + _TIMESTAMP_BYTES_MAX - 1
                at += 1
                while payload[at] > 0x7F:
                    at += 1
                if at > last:
                    return twice >> 1, start
            at += 1
            delta = payload[at]
            if delta > 0x7F:
                at += 1
                delta += (payload[at] << 7) - 0x80
                if delta > 0x3FFF:
                    at += 1
                    delta += (payload[at] << 14) - 0x4000
                    if delta > 0x1FFFFF:
                        return twice >> 1, start
            key = payload[at + 1]
            if key & 0x81:
                return twice >> 1, start
            at += 2 + (key >> 1)
            value = payload[at]
            if value > 0x7F:
                at += 1
                value += (payload[at] << 7) - 0x80
                if value > 0x3FFF:
                    at += 1
                    # A fourth byte would make it longer than the record is, and be noticed at its end.
                    value += (payload[at] << 14) - 0x4000
            if value & 1 and value != _NULL:
                return twice >> 1, start
            at += 1 + (value >> 1)
            if payload[at]:
                at = _skip_headers(payload, at)
            if at + 1 != end or delta != twice or length & 1:
                return twice >> 1, start
    except IndexError:
        return twice >> 1, start
    return count, end


def _skip_headers(payload: memoryview, at: int) -> int:
    """The last byte of headers that begin at `at`, if their count and all lengths have a byte each; else -1."""
    count = payload[at]
    if count & 0x81:
        return -1
    for _ in range(count >> 1):
        name = payload[at + 1]
        at += 1 + (name >> 1)
        value = payload[at + 1]
        at += 1 + (value >> 1)
        if name & 0x81 or (value & 0x81 and value != _NULL):
            return -1
    return at

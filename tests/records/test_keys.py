"""Records without a key are found where a plain reader finds them, and what that refuses is refused."""

import random
import struct
from collections.abc import Callable, Sequence
from functools import partial
from unittest.mock import patch

import pytest

from holdfast.errors import CorruptBatch, InflatesTooFar
from holdfast.records import keys
from holdfast.records.batch import HEADER_BYTES, BatchView, Codec
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.codecs import compress
from holdfast.records.keys import find_keyless
from holdfast.records.record import RecordReader
from tests.records.fuzzing import NASTY

SEEDS = 2_000
CORRUPT = "corrupt"
MIB = 1 << 20
ALL = 1_000_000


def varint(number: int, *, bytes_min: int = 1) -> bytes:
    """A number as it is stored, at least so many bytes long."""
    raw = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    size = max(bytes_min, -(-raw.bit_length() // 7))
    groups = [raw >> shift & 0x7F for shift in range(0, 7 * size, 7)]
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def framed(body: bytes) -> bytes:
    """A record."""
    return varint(len(body)) + body


SHAPES: dict[str, Sequence[Record]] = {
    "usual": [Record(key=b"k", value=b"v")],
    "no key": [Record(value=b"v")],
    "tombstone": [Record(key=b"k")],
    "nothing": [Record()],
    "empty key": [Record(key=b"", value=b"")],
    "key of two length bytes": [Record(key=bytes(64), value=b"v"), Record(value=bytes(64))],
    "value of two length bytes": [Record(key=b"k", value=bytes(64))],
    "value of three length bytes": [Record(key=b"k", value=bytes(8192)), Record(value=bytes(8192))],
    "value of four length bytes": [Record(key=b"k", value=bytes(MIB)), Record(value=bytes(MIB))],
    "headers": [Record(key=b"k", headers=[("a", b"1"), ("", None)]), Record(headers=[("a", b"1")])],
    "long header": [Record(key=b"k", headers=[("a" * 64, bytes(64))])],
    "many headers": [Record(key=b"k", headers=[("a", b"")] * 64)],
    "times": [
        Record(key=b"k" if delta % 2 else None, timestamp_ms=2**delta - 1 if delta else -(2**62))
        for delta in range(62)
    ],
    "every third": [Record(key=None if n % 3 == 0 else b"k", value=b"v") for n in range(300)],
    "offsets of three bytes": [Record(key=None if n in (8191, 8192) else b"k") for n in range(8195)],
}


def keyless(batch: BatchView) -> list[int]:
    """The same by reading every record."""
    return [index for index, record in enumerate(read_records(batch)) if record.key is None]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("shape", SHAPES)
def test_as_a_reader_finds_them(shape: str, codec: Codec) -> None:
    """Whatever the records look like, in every codec."""
    batch = BatchView(build_batch(SHAPES[shape], codec=codec))
    expected = [index for index, record in enumerate(SHAPES[shape]) if record.key is None]
    assert find_keyless(batch, found_max=ALL) == expected


@pytest.mark.parametrize(
    "shape",
    [
        "usual",
        "tombstone",
        "empty key",
        "value of two length bytes",
        "headers",
        "offsets of three bytes",
        "every third",
    ],
)
def test_what_is_usual_is_not_read(shape: str) -> None:
    """A closer look costs ten times as much: it is for records without a key and odd ones."""
    records = SHAPES[shape]
    with patch.object(keys, "RecordReader", wraps=RecordReader) as reader:
        find_keyless(BatchView(build_batch(records)), found_max=ALL)
    assert reader.call_count == sum(record.key is None for record in records)


def test_as_many_as_asked_for() -> None:
    """The first ones; what follows is not looked at."""
    batch = bytearray(build_batch(SHAPES["every third"]))
    assert find_keyless(BatchView(batch), found_max=2) == [0, 3]
    batch[-1] = 0x7F
    assert find_keyless(BatchView(batch), found_max=2) == [0, 3]
    with pytest.raises(CorruptBatch):
        find_keyless(BatchView(batch), found_max=ALL)


def test_bomb() -> None:
    """It is told from damage, and never inflated."""
    batch = BatchView(build_batch([Record(key=b"k", value=bytes(8 * MIB))], codec=Codec.ZSTD))
    with pytest.raises(InflatesTooFar, match=f"more than {MIB} bytes"):
        find_keyless(batch, found_max=ALL, inflated_bytes_max=MIB)


@pytest.mark.parametrize("codec", Codec)
def test_count_of_records_that_are_not_there(codec: Codec) -> None:
    """More than there are bytes for is refused before any is looked for."""
    batch = bytearray(build_batch([Record(key=b"k", value=bytes(50))], codec=codec, last_offset=2**31 - 2))
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="2147483647 records in"):
        find_keyless(BatchView(batch), found_max=ALL)


HEAD = b"\0\0\0"
"""Attributes, time and offset of a first record."""

LURES: dict[str, bytes] = {
    "negative length": b"\x0f" + HEAD + b"\x02k\0\0",
    "negative key": framed(HEAD + b"\x03k\0\0"),
    "long key": framed(HEAD + b"\x80\x01" + bytes(63) + b"\0\0"),
    "negative value": framed(HEAD + b"\x02k\x03v\0"),
    "very long record": b"\x80\x80\x80" + HEAD + b"\0\xf0\xff\x7f" + bytes(MIB - 8) + b"\0",
    "negative headers": framed(HEAD + b"\x02k\0\x01"),
    "many headers": framed(HEAD + b"\x02k\0\x80" + bytes(128)),
    "header without a name": framed(HEAD + b"\x02k\0\x02\x01\0"),
    "long name": framed(HEAD + b"\x02k\0\x02\x80" + bytes(64) + b"\0"),
    "negative value of a header": framed(HEAD + b"\x02k\0\x02\0\x03v"),
    "long value of a header": framed(HEAD + b"\x02k\0\x02\0\x80" + bytes(64)),
}
"""Records that add up if one looks at a number's first bytes alone, or not at its sign."""


@pytest.mark.parametrize("lure", LURES)
def test_what_only_looks_usual_is_refused(lure: str) -> None:
    """As by a reader."""
    batch = BatchView(_batch(1, LURES[lure]))
    assert _attempt(keyless, batch) == CORRUPT
    assert _attempt(partial(find_keyless, found_max=ALL), batch) == CORRUPT


def test_offset_of_four_bytes_only_looks_usual() -> None:
    """After a million records, of which there is no need here."""
    first = 1 << 20
    record = memoryview(framed(b"\0\0\x80\x80\x80\0\0\0"))
    assert keys._skip_keyed(record, 0, first, first + 1) == (first, 0)


def test_random_payloads() -> None:
    """Numbers that are negative, huge or written at length, and bytes that changed: the same verdict, always."""
    found = []
    for seed in range(SEEDS):
        batch = BatchView(_random_batch(random.Random(seed)))
        found.append(_attempt(keyless, batch))
        assert _attempt(partial(find_keyless, found_max=ALL), batch) == found[-1], f"seed {seed}"
    assert found.count(CORRUPT) > SEEDS // 4
    assert found.count([]) > SEEDS // 4
    assert sum(each not in ([], CORRUPT) for each in found) > SEEDS // 40


def _attempt(find: Callable[[BatchView], list[int]], batch: BatchView) -> list[int] | str:
    try:
        return find(batch)
    except CorruptBatch:
        return CORRUPT


def _random_batch(seeded: random.Random) -> bytes:
    """Records that follow one another, most of them sound."""
    odd = seeded.choice([0, 0.02, 0.1])
    count = seeded.choice([1, 2, 5, 70])

    def number(usual: int) -> bytes:
        if seeded.random() >= odd:
            return varint(usual)
        at_length = varint(usual, bytes_min=seeded.randrange(1, 13))
        return at_length if seeded.random() < 0.7 else varint(seeded.choice(NASTY))

    def field(content: bytes | None) -> bytes:
        return number(-1) if content is None else number(len(content)) + content

    payload = b""
    for delta in range(count):
        headers = [(b"name", seeded.choice([None, b"v"]))] * seeded.choice([0, 0, 0, 1, 2])
        body = b"\0" + number(seeded.choice([0, 5, 300, -9, 1 << 40])) + number(delta)
        body += field(seeded.choice([b"k", b"key", b"", bytes(70)] * 20 + [None]))
        body += field(seeded.choice([b"value", b"", None, bytes(90), bytes(8200)]))
        body += number(len(headers)) + b"".join(field(name) + field(value) for name, value in headers)
        payload += number(len(body)) + body
    if seeded.random() < 0.1:
        at = seeded.randrange(len(payload))
        payload = payload[:at] + seeded.randbytes(1) + payload[at + 1 :]
    if seeded.random() < 0.05:
        payload = payload[: seeded.randrange(len(payload))] if seeded.random() < 0.5 else payload + b"\0"
    return _batch(count, payload, seeded.choice([Codec.NONE] * 8 + [Codec.LZ4]))


def _batch(count: int, payload: bytes, codec: Codec = Codec.NONE) -> bytes:
    """A header for so many records, and whatever is to follow it."""
    head = bytearray(build_batch([Record()] * count)[:HEADER_BYTES])
    data = compress(codec, payload)
    struct.pack_into(">i", head, 8, HEADER_BYTES + len(data) - 12)
    struct.pack_into(">h", head, 21, codec)
    return bytes(head) + data

"""Hostile buffers from seeds, and everything that reads buffers let loose on them.

`python -m tests.records.fuzzing SEEDS` does the same in front of a guard page, where one byte read or written
beyond the end of a buffer kills the process. With NUMBA_BOUNDSCHECK=1 array accesses are checked as well.
"""

import ctypes
import mmap
import random
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np

from holdfast.errors import CorruptBatch
from holdfast.records.arrow import decode
from holdfast.records.batch import HEADER_BYTES, BatchView, Codec, seal
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.control import filler_batch
from holdfast.records.kernel import KeyIndex, copy_selected, count_data_records, find_tombstones, scan
from holdfast.records.walk import walk, walk_valid, whole_bytes

INFLATED_BYTES_MAX = 1 << 20
GUARDED_BYTES_MAX = 1 << 16


NASTY = (-(2**63), -(2**31), -2, -1, 0, 1, 63, 64, 300, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
"""Lengths, counts and deltas that nobody should send; the largest ones overflow when a position is added."""


def hostile(seed: int) -> bytes:
    """A buffer, then damaged: mostly with CRCs made to fit, so that the damage gets past them."""
    seeded = random.Random(seed)
    make = _crafted if seeded.random() < 0.4 else _batch
    batches = [bytearray(make(seeded, base_offset)) for base_offset in (0, 50, 120)]
    if make is _crafted:
        return b"".join(batches[seeded.randrange(3) :])
    for batch in batches:
        if seeded.random() < 0.7:
            _damage(seeded, batch)
        if seeded.random() < 0.9 and BatchView(batch).size_bytes == len(batch):
            seal(batch)
    buffer = b"".join(batches)
    if seeded.random() < 0.2:
        buffer = buffer[: seeded.randrange(len(buffer))]
    return seeded.randbytes(seeded.randrange(200)) if seeded.random() < 0.05 else buffer


def exercise(buffer: memoryview, seed: int, out: memoryview) -> str | None:
    """Read the buffer in every way there is; the verdict is None, or what all of them agree is wrong.

    Plain Python and kernels must agree on which buffers are good, and on every record of the good ones.
    """
    plain = _attempt(lambda: _read_plain(buffer))
    compiled = _attempt(lambda: _read_compiled(buffer))
    assert plain == compiled, (seed, plain, compiled)
    _attempt(lambda: whole_bytes(buffer))
    _attempt(lambda: list(walk(buffer)))
    _attempt(
        lambda: scan(buffer, start=20, end=60, include_control=True, inflated_bytes_max=INFLATED_BYTES_MAX)
    )
    _attempt(lambda: _select(buffer, random.Random(seed), out))
    assert _attempt(lambda: _shadowed(buffer)) == _attempt(lambda: _indexed(buffer, seed)), seed
    assert _attempt(lambda: _without_value(buffer)) == _attempt(lambda: _tombstones(buffer)), seed
    return plain if isinstance(plain, str) else None


def _batch(seeded: random.Random, base_offset: int) -> bytes:
    if seeded.random() < 0.1:
        return filler_batch(base_offset=base_offset, last_offset=base_offset + seeded.randrange(3))
    steps = [seeded.choice([1, 1, 1, 3]) for _ in range(seeded.randrange(1, 9))]
    records = [
        Record(
            key=seeded.choice([None, b"", b"key", seeded.randbytes(70)]),
            value=seeded.choice([None, b"", b"value", seeded.randbytes(200)]),
            headers=[("name", seeded.choice([None, b"v"]))] * seeded.choice([0, 0, 1, 3]),
            timestamp_ms=seeded.randrange(10**6),
            offset=base_offset + offset,
        )
        for offset in accumulate(steps)
    ]
    codec = seeded.choice([Codec.NONE] * 6 + [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    return build_batch(records, base_offset=base_offset, codec=codec)


def _crafted(seeded: random.Random, base_offset: int) -> bytes:
    """A sealed batch whose records are laid out well, save for a number here and there."""

    def number(usual: int) -> bytes:
        return _varint(seeded.choice(NASTY) if seeded.random() < 0.04 else usual)

    def field(content: bytes) -> bytes:
        return number(len(content)) + content

    count = seeded.randrange(1, 5)
    payload = b""
    for delta in range(count):
        headers = seeded.choice([0, 0, 2])
        body = b"\x00" + number(delta) + number(delta) + field(b"key") + field(bytes(seeded.randrange(90)))
        body += number(headers) + (field(b"name") + field(b"value")) * headers
        payload += number(len(body)) + body
    batch = bytearray(build_batch([Record()] * count, base_offset=base_offset)[:HEADER_BYTES] + payload)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    seal(batch)
    return bytes(batch)


def _varint(value: int) -> bytes:
    raw = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    groups = [raw >> shift & 0x7F for shift in range(0, max(raw.bit_length(), 1), 7)]
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def _damage(seeded: random.Random, batch: bytearray) -> None:
    for _ in range(seeded.choice([1, 1, 2, 5])):
        match seeded.randrange(5):
            case 0 if len(batch) > HEADER_BYTES:
                batch[seeded.randrange(HEADER_BYTES, len(batch))] = seeded.randrange(256)
            case 1:
                batch[seeded.randrange(21, HEADER_BYTES)] ^= 1 << seeded.randrange(8)
            case 2:
                at, form = seeded.choice([(8, ">i"), (23, ">i"), (57, ">i"), (0, ">q"), (21, ">h")])
                struct.pack_into(form, batch, at, seeded.choice([-1, 0, 1, 2, 7, 255, 2**15 - 1]))
            case 3 if len(batch) > HEADER_BYTES:
                at = seeded.randrange(HEADER_BYTES, len(batch))
                batch[at : at + 5] = seeded.choice(
                    [b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 5]
                )
            case _:
                struct.pack_into(">i", batch, seeded.choice([23, 57]), seeded.choice([2**31 - 1, -(2**31)]))


def _attempt(read: Callable[[], object]) -> object:
    try:
        return read()
    except CorruptBatch:
        return "corrupt"


def _read_plain(buffer: memoryview) -> list[tuple[object, ...]]:
    return [
        (record.offset, record.timestamp_ms, record.key, record.value, tuple(record.headers))
        for view in walk_valid(buffer)
        for record in read_records(view, bytes_max=INFLATED_BYTES_MAX)
    ]


def _read_compiled(buffer: memoryview) -> list[tuple[object, ...]]:
    table = decode(buffer, include_control=True, inflated_bytes_max=INFLATED_BYTES_MAX)
    table.validate(full=True)
    timestamps = table["timestamp"].cast("int64").to_pylist()
    columns = [table[name].to_pylist() for name in ("offset", "key", "value", "headers")]
    return [
        (offset, timestamp, key, value, tuple((header["key"], header["value"]) for header in headers))
        for timestamp, offset, key, value, headers in zip(timestamps, *columns, strict=True)
    ]


def _select(buffer: memoryview, seeded: random.Random, out: memoryview) -> None:
    views = list(walk(buffer))
    count = sum(view.record_count for view in views if not view.is_control)
    if not 0 <= count <= 10_000:
        return
    keep = np.array([seeded.random() < 0.5 for _ in range(count)], np.bool_)
    rewritten = copy_selected(
        buffer,
        keep,
        keep_empty=seeded.random() < 0.5,
        inflated_bytes_max=INFLATED_BYTES_MAX,
        out=np.frombuffer(out, np.uint8)[-len(buffer) :],
    )
    for view in walk_valid(rewritten.buffer):
        assert view.size_bytes >= HEADER_BYTES


def _shadowed(buffer: memoryview) -> list[bool]:
    """Which records a newer one shadows, from what a scan finds."""
    found = scan(buffer, inflated_bytes_max=INFLATED_BYTES_MAX)
    data, columns = found.data.tobytes(), found.columns
    seen: set[bytes] = set()
    dead: list[bool] = []
    for start, length in zip(columns.key_start[::-1].tolist(), columns.key_bytes[::-1].tolist(), strict=True):
        key = data[start : start + length]
        dead.append(length < 0 or key in seen)
        seen |= {key} if length >= 0 else set()
    return dead[::-1]


def _indexed(buffer: memoryview, seed: int) -> list[bool]:
    """The same from a key index, in two parts."""
    dead = np.zeros(count_data_records(buffer, inflated_bytes_max=INFLATED_BYTES_MAX), np.bool_)
    for part in range(2):
        index = KeyIndex(bytes_max=1 << 16, part=part, parts=2, seed=seed)
        index.shadow(buffer, dead, inflated_bytes_max=INFLATED_BYTES_MAX)
    return dead.tolist()


def _without_value(buffer: memoryview) -> list[int]:
    columns = scan(buffer, inflated_bytes_max=INFLATED_BYTES_MAX).columns
    return columns.offset[columns.value_bytes < 0].tolist()


def _tombstones(buffer: memoryview) -> list[int]:
    return find_tombstones(buffer, inflated_bytes_max=INFLATED_BYTES_MAX).offsets.tolist()


def guarded(length: int) -> memoryview:
    """Memory whose end is the end of what the process may touch."""
    page = mmap.PAGESIZE
    pages = -(-length // page)
    area = mmap.mmap(-1, (pages + 1) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start + pages * page), ctypes.c_size_t(page), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    return memoryview(area)[pages * page - length : pages * page]


def verdicts(seeds: range) -> Iterator[str | None]:
    """One verdict per seed, from buffers that end where memory ends."""
    source, out = guarded(GUARDED_BYTES_MAX), guarded(GUARDED_BYTES_MAX)
    for seed in seeds:
        buffer = hostile(seed)
        place = source[len(source) - len(buffer) :]
        place[:] = buffer
        yield exercise(place, seed, out)


if __name__ == "__main__":
    found = list(verdicts(range(int(sys.argv[1]))))
    sys.stdout.write(f"{len(found)} buffers, {sum(verdict is not None for verdict in found)} corrupt\n")

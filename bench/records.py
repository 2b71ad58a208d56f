"""The agent's look for keys and the record kernels against aiokafka's Cython parser: CPU time of one thread, 100-byte
values, 16 KB batches.

Run with `make bench-records`. Every figure of ours includes checking the CRC of every batch, aiokafka's none.
Output arrays of scan and rebuild are reused, as a worker that goes from segment to segment does. The key index is held
against a set of Python's over the keys that our scan finds.
"""

import random
import sys
import time

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from bench.report import Figure, compare, publish
from holdfast.records.arrow import decode
from holdfast.records.batch import Codec, assign, seal
from holdfast.records.kernel import Columns, KeyIndex, copy_selected, find_tombstones, scan
from holdfast.records.keys import find_keyless
from holdfast.records.walk import walk_valid

RECORDS = 500_000
BATCH_RECORDS = 125
VALUE_BYTES = 100
KEYS = 2_000_000
ROUNDS = 15
SEED = 1

PIECES = 20
PIECES_ROUNDS = 5
INDEX_BYTES_MAX = 256 << 20

GOALS = {
    "scan": 4.0,
    "decode to Arrow, all columns": 1.0,
    "rebuild with CRC, half of the records kept": 3.0,
    "key index, 2 M keys of 10 M records": 5.0,
}


def main() -> int:
    """Measure, and say whether the goals were reached."""
    return publish("records", [*against_aiokafka(), *against_a_set()])


def against_aiokafka() -> list[Figure]:
    """Kernels that read or write every record of one segment."""
    plain = segment(Codec.NONE)
    lz4 = segment(Codec.LZ4)
    transactional = segment(Codec.NONE, transactional=True)
    seeded = np.random.default_rng(SEED)
    half = seeded.random(RECORDS) < 0.5
    most = seeded.random(RECORDS) < 0.95
    everything = np.ones(RECORDS, np.bool_)
    out = np.empty(len(plain), np.uint8)
    columns = Columns.empty(RECORDS)
    return compare(
        lambda: parse_with_aiokafka(plain),
        {
            "scan": lambda: scan(plain, out=columns),
            "decode to Arrow, all columns": lambda: decode(plain),
            "decode to Arrow, key and offset": lambda: decode(plain, columns=["key", "offset"]),
            "decode to Arrow, all columns, lz4": lambda: decode(lz4),
            "rebuild with CRC, half of the records kept": lambda: copy_selected(plain, half, out=out),
            "rebuild with CRC, 95 % of the records kept": lambda: copy_selected(plain, most, out=out),
            "look for records without a key, plain Python": lambda: look_for_keys(plain),
            "look for records without a key, plain Python, lz4": lambda: look_for_keys(lz4),
            "rebuild as plain batches, half kept": lambda: copy_selected(
                transactional, half, plain=True, out=out
            ),
            "copy as plain batches, all kept": lambda: copy_selected(
                transactional, everything, plain=True, out=out
            ),
            "find tombstones": lambda: find_tombstones(plain),
        },
        rounds=ROUNDS,
        amount=RECORDS / 1e6,
        unit="M records/s",
        goals=GOALS,
        clock=time.thread_time,
    )


def against_a_set() -> list[Figure]:
    """Which records a newer one shadows, in a log of random keys."""
    pieces = keyed_pieces()
    return compare(
        lambda: shadow_with_a_set(pieces),
        {
            "key index, 2 M keys of 10 M records": lambda: shadow(pieces),
            "key index, CRCs not checked": lambda: shadow(pieces, check_crcs=False),
        },
        rounds=PIECES_ROUNDS,
        amount=PIECES * RECORDS / 1e6,
        unit="M records/s",
        goals=GOALS,
        clock=time.thread_time,
    )


def segment(codec: Codec, *, transactional: bool = False) -> bytes:
    """Batches as a producer sends them, with compressible text around a random number for values."""
    seeded = random.Random(SEED)
    buffer = bytearray()
    for base_offset in range(0, RECORDS, BATCH_RECORDS):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=int(codec),
            is_transactional=int(transactional),
            producer_id=4_000,
            producer_epoch=0,
            base_sequence=base_offset,
            batch_size=1 << 20,
        )
        for index in range(BATCH_RECORDS):
            key = b"%016d" % seeded.randrange(KEYS)
            value = (b'{"account": %d, "state": "active"}' % seeded.getrandbits(60)).ljust(VALUE_BYTES, b".")
            builder.append(index, 1_700_000_000_000 + base_offset + index, key, value, [])
        position = len(buffer)
        buffer += builder.build()
        assign(buffer, position, base_offset=base_offset, leader_epoch=0)
    return bytes(buffer)


def keyed_pieces() -> list[bytes]:
    """Segments that differ in their keys: one of them all for every record, 16 bytes long."""
    buffer = bytearray(segment(Codec.NONE))
    found = scan(buffer)
    batches = found.batches["position"].tolist()
    places = found.columns.key_start[:, np.newaxis] + np.arange(16)
    octets = np.frombuffer(buffer, np.uint8)
    seeded = np.random.default_rng(SEED)
    keys = seeded.integers(0, 256, (KEYS, 16), dtype=np.uint8)
    pieces = []
    for _ in range(PIECES):
        octets[places] = keys[seeded.integers(0, KEYS, RECORDS)]
        for position in batches:
            seal(buffer, position)
        pieces.append(bytes(buffer))
    return pieces


def shadow(pieces: list[bytes], *, check_crcs: bool = True) -> int:
    """One pass over all keys, newest first."""
    index = KeyIndex(bytes_max=INDEX_BYTES_MAX, seed=SEED)
    for piece in reversed(pieces):
        index.shadow(piece, np.zeros(RECORDS, np.bool_), check_crcs=check_crcs)
    return index.keys


def shadow_with_a_set(pieces: list[bytes]) -> int:
    """The same in plain Python, from the places that a scan finds."""
    seen: set[bytes] = set()
    for piece in reversed(pieces):
        columns = scan(piece).columns
        dead = np.zeros(RECORDS, np.bool_)
        starts, lengths = columns.key_start.tolist(), columns.key_bytes.tolist()
        for row in range(RECORDS - 1, -1, -1):
            key = piece[starts[row] : starts[row] + lengths[row]]
            if key in seen:
                dead[row] = True
            else:
                seen.add(key)
    return len(seen)


def parse_with_aiokafka(buffer: bytes) -> int:
    """Every record as an object with key and value."""
    records = MemoryRecords(buffer)
    count = 0
    while records.has_next():
        for _ in records.next_batch():
            count += 1
    return count


def look_for_keys(buffer: bytes) -> int:
    """As the agent does on a compacted topic, CRCs included."""
    return sum(len(find_keyless(batch, found_max=1)) for batch in walk_valid(buffer))


if __name__ == "__main__":
    sys.exit(main())

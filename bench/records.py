"""The agent's look for keys and the record kernels against aiokafka's Cython parser: CPU time of one thread, 100-byte
values, 16 KB batches.

Run with `make bench-records`. Every figure of ours includes checking the CRC of every batch, aiokafka's none.
Output arrays of scan and rebuild are reused, as a worker that goes from segment to segment does.
"""

import random
import sys
import time

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from bench.report import compare, publish
from holdfast.records.arrow import decode
from holdfast.records.batch import Codec, assign
from holdfast.records.kernel import Columns, copy_selected, scan
from holdfast.records.keys import find_keyless
from holdfast.records.walk import walk_valid

RECORDS = 500_000
BATCH_RECORDS = 125
VALUE_BYTES = 100
KEYS = 2_000_000
ROUNDS = 15
SEED = 1

GOALS = {
    "scan": 4.0,
    "decode to Arrow, all columns": 1.0,
    "rebuild with CRC, half of the records kept": 3.0,
}


def main() -> int:
    """Measure, and say whether the goals were reached."""
    plain = segment(Codec.NONE)
    lz4 = segment(Codec.LZ4)
    seeded = np.random.default_rng(SEED)
    half = seeded.random(RECORDS) < 0.5
    most = seeded.random(RECORDS) < 0.95
    out = np.empty(len(plain), np.uint8)
    columns = Columns.empty(RECORDS)
    figures = compare(
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
        },
        rounds=ROUNDS,
        amount=RECORDS / 1e6,
        unit="M records/s",
        goals=GOALS,
        clock=time.thread_time,
    )
    return publish("records", figures)


def segment(codec: Codec) -> bytes:
    """Batches as a producer sends them, with compressible text around a random number for values."""
    seeded = random.Random(SEED)
    buffer = bytearray()
    for base_offset in range(0, RECORDS, BATCH_RECORDS):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=int(codec),
            is_transactional=0,
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

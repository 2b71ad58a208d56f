"""Hostile bytes do nothing but raise CorruptBatch, whoever reads them, and cost no memory."""

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import CorruptBatch
from holdfast.records.arrow import decode
from holdfast.records.batch import BatchView, Codec, seal, validate
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.kernel import KeyIndex, copy_selected, count_data_records, find_tombstones, scan
from tests.records import fuzzing

ROOT = Path(__file__).parents[2]
SEEDS = 3_000
MIB = 1 << 20


@pytest.mark.parametrize("bounds_check", ["0", "1"])
def test_nothing_is_touched_beyond_a_buffer(bounds_check: str) -> None:
    """Thousands of damaged buffers before a guard page: no crash, one error, plain and compiled agree."""
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "NUMBA_BOUNDSCHECK": bounds_check,
        "PYTHONFAULTHANDLER": "1",
    }
    if bounds_check == "1":
        # numba's cache does not know whether code was compiled with checks: keep these apart.
        environment["NUMBA_CACHE_DIR"] = str(ROOT / "build" / "bounds-checked")
    done = subprocess.run(
        [sys.executable, "-m", "tests.records.fuzzing", str(SEEDS)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    buffers, corrupt = (int(word) for word in done.stdout.split() if word.isdigit())
    assert buffers == SEEDS
    assert SEEDS // 2 < corrupt < SEEDS


def test_a_seed_always_gives_the_same_bytes() -> None:
    """A failing seed can be run again."""
    assert fuzzing.hostile(17) == fuzzing.hostile(17)


READERS: dict[str, Callable[[bytes], object]] = {
    "read_records": lambda batch: list(read_records(validate(batch))),
    "scan": scan,
    "decode": decode,
    "find_tombstones": find_tombstones,
    "count_data_records": count_data_records,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", Codec)
def test_a_count_of_two_billion_costs_nothing(reader: str, codec: Codec) -> None:
    """A batch that declares 2³¹ - 1 records is refused before anything is allocated for them."""
    batch = bytearray(build_batch([Record(value=bytes(1000))], codec=codec, last_offset=2**31 - 1))
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    seal(batch)
    assert BatchView(batch).record_count == 2**31 - 1
    READERS[reader](build_batch([Record()]))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            READERS[reader](bytes(batch))
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_count_that_the_inflated_bytes_cannot_hold(codec: Codec) -> None:
    """Key index and tombstones refuse it before they make room for as many records."""
    batch = bytearray(build_batch([Record(value=bytes(1000))], codec=codec, last_offset=2**20))
    batch[57:61] = (100_000).to_bytes(4, "big")
    seal(batch)
    assert count_data_records(batch) == 100_000
    with pytest.raises(CorruptBatch, match="count"):
        find_tombstones(batch)
    with pytest.raises(CorruptBatch, match="count"):
        KeyIndex(bytes_max=MIB, seed=0).shadow(batch, np.zeros(100_000, np.bool_))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_inside_a_batch(codec: Codec) -> None:
    """64 MiB in a few kilobytes are refused by scan and decode within the bound that the caller sets."""
    batch = build_batch([Record(value=bytes(64 * MIB))], codec=codec)
    assert len(batch) < MIB
    tracemalloc.start()
    try:
        for reader in (scan, decode):
            with pytest.raises(CorruptBatch, match="more than"):
                reader(batch, inflated_bytes_max=4 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("reader", ["scan", "decode", "copy_selected", "shadow", "find_tombstones"])
def test_many_batches_do_not_make_a_bomb_together(reader: str) -> None:
    """Each batch is within its bound: the one with which all inflate to more than theirs is refused and named."""
    batch = build_batch([Record(value=bytes(3 * MIB)), Record()], codec=Codec.ZSTD)
    plain = build_batch([Record(value=bytes(3 * MIB)), Record()])
    half = np.array([True, False] * 12)
    readers: dict[str, Callable[..., object]] = {
        "scan": scan,
        "decode": decode,
        "copy_selected": lambda buffer, **bounds: copy_selected(buffer, half, **bounds),
        "shadow": lambda buffer, **bounds: KeyIndex(bytes_max=MIB, seed=0).shadow(buffer, ~half, **bounds),
        "find_tombstones": find_tombstones,
    }
    read = readers[reader]
    with pytest.raises(CorruptBatch, match=f"more than {20 * MIB} bytes") as caught:
        read(batch * 12, inflated_total_bytes_max=20 * MIB)
    assert caught.value.position == 6 * len(batch)
    read(batch * 6 + plain * 6, inflated_total_bytes_max=20 * MIB)

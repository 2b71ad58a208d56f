"""Fingerprints of a replica's log: 64 bits for each range of offsets, equal where readers are given the same records.

They are sums of what single records say, so that neither batches nor the order of reading matter; whoever does not
know the seed cannot choose records that look alike.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from holdfast.client.aborted import AbortedTransaction, without_aborted
from holdfast.doctor.ranges import Prints
from holdfast.doctor.source import Source
from holdfast.records.arrow import decode
from holdfast.records.batch import BatchView
from holdfast.records.fingerprint import fingerprint_entries

WORD = 1 << 64


def print_source(source: Source, start: int, end: int | None, *, size: int, seed: int) -> Prints:
    """Read a replica from an offset on, up to another one or its last stable offset."""
    sums: Counter[int] = Counter()
    stable = start
    for answer in source.read(start):
        stable = answer.stable
        _add(sums, answer.batches, answer.aborted, start=start, end=end, size=size, seed=seed)
        if end is not None and answer.batches and answer.batches[-1].next_offset >= end:
            break
    return Prints(end=stable if end is None else end, stable=stable, by_range=dict(sums))


def _add(
    sums: Counter[int],
    batches: Iterable[BatchView],
    aborted: Iterable[AbortedTransaction],
    *,
    start: int,
    end: int | None,
    size: int,
    seed: int,
) -> None:
    visible = [_octets(batch) for batch in without_aborted(batches, aborted) if not batch.is_control]
    # Whoever fetched them has checked them.
    table = decode(
        b"".join(visible), start=start, end=end, columns=("offset", "key", "value"), check_crcs=False
    )
    for rows in table.to_batches():
        _add_rows(sums, rows.filter(rows["key"].is_valid()), size, seed)


def _add_rows(sums: Counter[int], rows: pa.RecordBatch, size: int, seed: int) -> None:
    if not rows.num_rows:
        return
    numbers = rows["offset"].to_numpy() // size
    firsts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    totals = np.add.reduceat(fingerprint_entries(rows, seed), firsts)
    for number, total in zip(numbers[firsts].tolist(), totals.tolist(), strict=True):
        sums[number] = (sums[number] + total) % WORD


def _octets(batch: BatchView) -> memoryview:
    return memoryview(batch.buffer)[batch.position : batch.position + batch.size_bytes]

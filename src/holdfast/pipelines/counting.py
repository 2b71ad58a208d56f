"""In a task: rows of the column `noted` → sums by tenant, window and stage, a whole Arrow batch at a time."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.pipelines.tally import Sums

Place = tuple[str, int, str]
"""Tenant, start of the window, stage."""

Noted = dict[Place, Sums]

PLACE: Final = ("tenant", "window_start_ms", "stage")
LOW_BITS: Final = 32


def count_noted(rows: pa.Array) -> Noted:
    """Some of a task's rows; those without anything to note are not counted."""
    told = rows.drop_null() if rows.null_count else rows
    return _count(dict(zip(told.type.names, told.flatten(), strict=True))) if len(told) else {}


def add(to: Noted, more: Noted) -> None:
    """The sums of both."""
    for place, sums in more.items():
        to[place] = to[place] + sums if place in to else sums


def _count(fields: dict[str, pa.Array]) -> Noted:
    order, starts = _groups([fields[name] for name in PLACE])
    hashes, times, value_bytes = (
        _numbers(fields[name])[order] for name in ("hash", "time_ms", "value_bytes")
    )
    # In two halves: the sum of 64-bit hashes leaves 64 bits.
    high = np.add.reduceat(hashes >> LOW_BITS, starts)
    low = np.add.reduceat(hashes & ((1 << LOW_BITS) - 1), starts)
    columns = [
        np.diff(starts, append=len(order)),
        np.bitwise_xor.reduceat(hashes, starts),
        np.add.reduceat(value_bytes, starts),
        np.minimum.reduceat(times, starts),
        np.maximum.reduceat(times, starts),
    ]
    firsts = pa.array(order[starts])
    places = zip(*(fields[name].take(firsts).to_pylist() for name in PLACE), strict=True)
    rows = zip(high.tolist(), low.tolist(), *(each.tolist() for each in columns), strict=True)
    return {
        (tenant, window_start_ms, stage): Sums(
            count=count,
            hash_sum=(high_sum << LOW_BITS) + low_sum,
            hash_xor=xor,
            value_bytes=size,
            time_ms_min=earliest,
            time_ms_max=latest,
        )
        for (tenant, window_start_ms, stage), (high_sum, low_sum, count, xor, size, earliest, latest) in zip(
            places, rows, strict=True
        )
    }


def _groups(columns: list[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows in an order that has equal ones side by side, and where each group begins in it."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(column)
        codes = codes * len(encoded.dictionary) + _numbers(encoded.indices)
    order = np.argsort(codes, kind="stable")
    return order, np.flatnonzero(np.diff(codes[order], prepend=-1))


def _numbers(values: pa.Array) -> NDArray[np.int64]:
    assert values.null_count == 0, "what is noted has no nulls: they would count as some other number"
    return values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)

"""Rows numbered by whose they are and when they happened, in one pass and without a table of all windows."""

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.hashing import hash_words
from holdfast.records.kernel.jit import compiled

TOO_MANY = -1
"""In place of the number of groups: the table is too small for them."""

_U = np.uint64


@compiled
def number_rows(
    tenants: NDArray[np.int32],
    stages: NDArray[np.int8],
    windows: NDArray[np.int64],
    secret: NDArray[np.uint64],
    table: NDArray[np.int32],
    codes: NDArray[np.int32],
    firsts: NDArray[np.int32],
) -> int:
    """Numbers the groups in the order of their first rows; returns how many there are, or TOO_MANY.

    `table` is full of -1, and its length a power of two: half of it is filled at most.
    """
    mask, found = len(table) - 1, 0
    for row in range(len(tenants)):
        tenant, stage, window = tenants[row], stages[row], windows[row]
        slot = np.intp(hash_words(_U(window), _U(tenant), _U(stage), secret) & _U(mask))
        code = -1
        while code < 0:
            known = table[slot]
            if known < 0:
                if 2 * found > mask:
                    return TOO_MANY
                table[slot] = code = found
                firsts[found] = row
                found += 1
            elif (
                tenants[firsts[known]] == tenant
                and stages[firsts[known]] == stage
                and windows[firsts[known]] == window
            ):
                code = known
            else:
                slot = (slot + 1) & mask
        codes[row] = code
    return found


@compiled
def floor_times(times: NDArray[np.int64], window: int, starts: NDArray[np.int64]) -> None:
    """The start of each time's window. Neighbours mostly share one: that spares a division."""
    start = np.int64(0)
    for row in range(len(times)):
        time = times[row]
        # As unsigned numbers: a difference that does not fit, or is negative, is a large one.
        if _U(time - start) >= _U(window):
            start = time - time % window
        starts[row] = start

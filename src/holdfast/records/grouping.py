"""Rows brought into groups by tenant, stage and window, whole columns at a time."""

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.grouping import TOO_MANY, floor_times, number_rows

TABLE_MIN: Final = 1 << 12
"""Slots for groups in one batch; twice as many as groups, and more when there turn out to be too few."""

Item = TypeVar("Item", bound=np.generic)


def number_groups(
    tenants: NDArray[np.int32],
    stages: NDArray[np.int8],
    windows: NDArray[np.int64],
    secret: NDArray[np.uint64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """For each row the number of its group; and for each group its first row.

    Without the secret, which is one of `make_secret`, nobody can choose times whose windows meet in one slot.
    """
    rows = len(tenants)
    codes, firsts = np.empty(rows, np.int32), np.empty(rows, np.int32)
    columns = read_only(tenants), read_only(stages), read_only(windows)
    slots, found = TABLE_MIN, TOO_MANY
    while found == TOO_MANY:
        found = number_rows(*columns, secret, np.full(slots, -1, np.int32), codes, firsts)
        slots *= 16
    return codes, firsts[:found]


def start_windows(times: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """The start of the window in which each time lies."""
    starts = np.empty(len(times), np.int64)
    floor_times(read_only(times), window, starts)
    return starts


def read_only(array: NDArray[Item]) -> NDArray[Item]:
    """Arrow's buffers may be written to or not: one type, so that a kernel is compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view

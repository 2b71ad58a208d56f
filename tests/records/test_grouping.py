"""Rows numbered by the kernel against plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.records.grouping import TABLE_MIN, number_groups, start_windows
from holdfast.records.kernel.hashing import make_secret

SECRET = make_secret(20_261_117)
ROW = st.tuples(
    st.integers(0, 5), st.integers(0, 14), st.sampled_from([-600_000, 0, 600_000, 1 << 50, -(1 << 62)])
)


def number(rows: list[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    codes, firsts = number_groups(
        np.array(columns[0], np.int32), np.array(columns[1], np.int8), np.array(columns[2], np.int64), SECRET
    )
    return codes.tolist(), firsts.tolist()


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, max_size=60))
def test_groups_are_numbered_in_the_order_of_their_first_rows(rows: list[tuple[int, int, int]]) -> None:
    distinct = list(dict.fromkeys(rows))
    assert number(rows) == ([distinct.index(row) for row in rows], [rows.index(row) for row in distinct])


def test_more_groups_than_the_table_has_room_for_are_still_told_apart() -> None:
    rows = [(each % 7, 0, each * 600_000) for each in range(TABLE_MIN)]
    assert number([*rows, *rows])[0] == [*range(TABLE_MIN), *range(TABLE_MIN)]


@settings(max_examples=60, deadline=None)
@given(times=st.lists(st.integers(600 - (1 << 63), (1 << 63) - 1) | st.integers(-2_000, 2_000), max_size=40))
def test_windows_start_where_division_says(times: list[int]) -> None:
    assert start_windows(np.array(times, np.int64), 600).tolist() == [time // 600 * 600 for time in times]


def test_a_time_of_another_era_leaves_its_neighbours_where_they_are() -> None:
    """The difference of the two does not fit in 64 bits."""
    times = [1_000_000 - (1 << 63), 1_769_947_200_000]
    assert start_windows(np.array(times, np.int64), 600).tolist() == [time // 600 * 600 for time in times]

"""Few rows are counted here: what is found is what the law says of each id, and how many there are is known before."""

import math
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.exact import _patterns, count_wanted, noted_here, suspects_here, tally_of
from holdfast.pipelines.recon.law import Kind, Law, is_conserved, kinds_of
from holdfast.pipelines.recon.reading import LATE, UNREADABLE
from holdfast.spark.reconcile import Geometry, Group, fingerprint_batches

ROWS = st.lists(st.tuples(st.integers(0, LATE), st.integers(0, 6)), max_size=40)
LAWS = st.sampled_from([Law(delivered=frozenset()), Law(delivered=frozenset({EndState.QUALIFIED}))])


def table(rows: list[tuple[int, int]]) -> pa.Table:
    """In two chunks."""
    batches = [
        pa.record_batch(
            {
                "stage": pa.array([stage for stage, _ in part], pa.int8()),
                "identity": pa.array([b"id-%d" % single for _, single in part], pa.binary()),
            }
        )
        for part in (rows[:9], rows[9:])
    ]
    return pa.Table.from_batches(batches)


@settings(max_examples=80)
@given(rows=ROWS, law=LAWS)
def test_the_law_judges_each_id_and_the_missing_come_first(rows: list[tuple[int, int]], law: Law) -> None:
    seen: dict[bytes, Counter[int]] = defaultdict(Counter)
    for stage, single in rows:
        if stage < UNREADABLE:
            seen[b"id-%d" % single][stage] += 1
    expected = {
        identity: tally
        for identity, counts in seen.items()
        if not is_conserved(tally := tally_of(counts), law)
    }
    found = suspects_here(table(rows), law)
    assert dict(found) == expected
    assert len(found) == len(expected)
    missing = [Kind.MISSING in kinds_of(tally, law) for _, tally in found]
    assert missing == sorted(missing, reverse=True)
    noted = [stage for stage, _ in rows if stage >= UNREADABLE]
    assert [row["stage"] for row in noted_here(table(rows), 3)] == noted[:3]


@pytest.mark.parametrize("most", [3, 2_000])
def test_patterns_are_told_apart_however_often_an_id_was_seen(most: int) -> None:
    """Counts that are no digits of one number are compared as they are."""
    seen = np.random.default_rng(most).integers(0, most, (50, UNREADABLE))
    seen[7:20] = seen[:13]
    assert (math.prod((seen.max(axis=0) + 1).tolist()) >= 2**63) is (most == 2_000)
    patterns, which = _patterns(seen)
    assert (patterns[which] == seen).all()
    assert len(np.unique(patterns, axis=0)) == len(patterns)


def test_how_many_rows_there_are_to_look_at_is_known_beforehand() -> None:
    group = Group("acme", 0, 0)
    batch = pa.record_batch(
        {
            "tenant": pa.array(["acme"] * 40),
            "stage": pa.array([0] * 40, pa.int8()),
            "window": pa.array([0] * 40, pa.int64()),
            "identity": pa.array([b"%d" % number for number in range(40)], pa.binary()),
        }
    )
    cells = fingerprint_batches([batch], Geometry(seed=7, bucket_bits=2))
    assert count_wanted(cells, {group: range(4)}) == 40
    parts = [count_wanted(cells, {group: [bucket]}) for bucket in range(4)]
    assert sum(parts) == 40 > max(parts)
    assert count_wanted(cells, {Group("nobody", 0, 0): range(4)}) == 0

"""Fingerprints against plain Python sets: equal sides are equal, others differ where they differ."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.errors import FingerprintsFull
from holdfast.records.fingerprints import Fingerprints, Ids, differing, select
from holdfast.records.kernel.fingerprint import COUNT, SKIPPED, WORDS

SEED = 20_261_117

single_ids = st.binary(max_size=40)


def fingerprint(ids: list[bytes], *, bucket_bits: int = 4, seed: int = SEED) -> Fingerprints[str]:
    made = Fingerprints[str](seed=seed, bucket_bits=bucket_bits)
    made.add(["all"], np.zeros(len(ids), np.int32), Ids.of(ids))
    return made


def difference(left: list[bytes], right: list[bytes], *, bucket_bits: int = 4) -> NDArray[np.uint64]:
    return fingerprint(left, bucket_bits=bucket_bits).cells("all") - fingerprint(
        right, bucket_bits=bucket_bits
    ).cells("all")


@settings(max_examples=60)
@given(left=st.lists(single_ids, max_size=12), right=st.lists(single_ids, max_size=12))
def test_cells_are_equal_exactly_if_the_ids_are(left: list[bytes], right: list[bytes]) -> None:
    assert bool(len(differing(difference(left, right)))) == (Counter(left) != Counter(right))


@settings(max_examples=40)
@given(ids=st.lists(single_ids, max_size=12), rearranged=st.randoms(use_true_random=False))
def test_order_does_not_matter(ids: list[bytes], rearranged: random.Random) -> None:
    others = list(ids)
    rearranged.shuffle(others)
    assert not len(differing(difference(ids, others)))


@settings(max_examples=60)
@given(common=st.lists(single_ids, max_size=12), odd=single_ids)
def test_the_one_id_that_differs_is_peeled(common: list[bytes], odd: bytes) -> None:
    peeler = fingerprint([])
    for left, right, excess in (([*common, odd], common, 1), (common, [odd, *common], -1)):
        [found] = peeler.peel(difference(left, right))
        assert (found.excess, found.id) == (excess, odd if len(odd) <= 16 else None)


def test_several_ids_in_one_bucket_are_not_taken_for_one() -> None:
    ids = [b"id-%d" % number for number in range(300)]
    peeler = fingerprint([], bucket_bits=0)
    for number in range(0, 297, 3):
        one, two, three = ids[number : number + 3]
        assert peeler.peel(difference([one, two], [three], bucket_bits=0)) == []


def test_lost_and_doubled_ids_cancel_in_totals_but_not_in_cells() -> None:
    ids = [b"%032x" % number for number in range(5_000)]
    ended = [*ids[9:], *ids[100:109]]
    found = difference(ids, ended, bucket_bits=10)
    assert found[:, COUNT].sum() == 0
    peeled = fingerprint([], bucket_bits=10).peel(found)
    assert Counter(each.excess for each in peeled) == {1: 9, -1: 9}


def test_another_seed_gives_other_cells() -> None:
    assert (
        fingerprint([b"x" * 40], seed=1).cells("all") != fingerprint([b"x" * 40], seed=2).cells("all")
    ).any()


def test_groups_are_kept_apart_and_rows_of_nobody_left_out() -> None:
    made = Fingerprints[str](seed=SEED)
    ids = [b"a", b"b", b"c", b"a"]
    made.add(["one", "two"], np.array([0, 1, SKIPPED, 1], np.int32), Ids.of(ids))
    assert [made.count(group) for group in ("one", "two", "three")] == [1, 2, 0]
    assert (made.sum(["one", "two"]) == fingerprint([b"a", b"b", b"a"], bucket_bits=6).cells("all")).all()


def test_memory_stays_bounded_by_folding_and_folded_cells_still_compare() -> None:
    chance = random.Random(SEED)
    rows = [(chance.randrange(100), b"%d" % chance.randrange(10_000)) for _ in range(3_000)]
    bounded = Fingerprints[int](seed=SEED, bucket_bits=8, cells_max=1_024)
    whole = Fingerprints[int](seed=SEED, bucket_bits=8)
    for made in (bounded, whole):
        for start in range(0, len(rows), 50):
            piece = rows[start : start + 50]
            groups = sorted({group for group, _ in piece})
            codes = np.array([groups.index(group) for group, _ in piece], np.int32)
            made.add(groups, codes, Ids.of([single for _, single in piece]))
    assert bounded.bucket_bits == 3
    merged = Fingerprints[int](seed=SEED, bucket_bits=8)
    merged.merge(bounded.groups, bounded.blocks)
    doubled = Fingerprints[int](seed=SEED, bucket_bits=2)
    doubled.merge(whole.groups, whole.blocks)
    doubled.merge(bounded.groups, bounded.blocks)
    for group in range(100):
        assert (merged.cells(group) == bounded.cells(group)).all()
        assert bounded.count(group) == whole.count(group) == sum(each == group for each, _ in rows)
        assert doubled.count(group) == 2 * whole.count(group)


def test_nothing_is_merged_without_harm_and_no_group_twice() -> None:
    made = Fingerprints[int](seed=SEED, bucket_bits=4)
    made.add([7], np.zeros(1, np.int32), Ids.of([b"a"]))
    made.merge([], np.zeros((0, 1, WORDS), np.uint64))
    assert (made.bucket_bits, made.groups, made.count(7)) == (4, [7], 1)
    with pytest.raises(AssertionError, match="only one"):
        made.merge([7, 7], np.zeros((2, 16, WORDS), np.uint64))


def test_more_groups_than_cells_are_refused() -> None:
    made = Fingerprints[int](seed=SEED, cells_max=16)
    with pytest.raises(FingerprintsFull, match="longer windows"):
        made.add(range(17), np.zeros(1, np.int32), Ids.of([b"a"]))


def test_a_second_look_reads_the_ids_of_wanted_buckets_alone() -> None:
    ids = [b"%032x" % number for number in range(2_000)]
    found = difference(ids, ids[1:], bucket_bits=5)
    [bucket] = differing(found)
    codes = np.zeros(len(ids), np.int32)
    marks = select(["all"], codes, Ids.of(ids), wanted={"all": [int(bucket)]}, bucket_bits=5, seed=SEED)
    assert marks[0]
    assert marks.sum() == fingerprint(ids, bucket_bits=5).cells("all")[bucket, COUNT]
    codes[0] = SKIPPED
    assert not select(["all"], codes, Ids.of(ids), wanted={"all": [int(bucket)]}, bucket_bits=5, seed=SEED)[0]

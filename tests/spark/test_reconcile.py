"""Fingerprints as Spark tasks: what tasks make of pieces is what one process makes of everything."""

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.spark.reconcile import (
    Geometry,
    Group,
    Summed,
    among,
    decode_cells,
    drill,
    encode_cells,
    fingerprint,
    fingerprint_batches,
    fingerprint_here,
    group_rows,
    ids_of,
    search,
)

SEED = 20_261_117
ROW_TYPES = "tenant string, stage byte, window long, identity binary"
Row = tuple[str, int, int, bytes]


def rows(count: int, *, seed: int) -> list[Row]:
    """Half of all rows are of one tenant."""
    chance = random.Random(seed)
    return [
        (
            "large" if chance.random() < 0.5 else f"small-{chance.randrange(9)}",
            chance.randrange(3),
            chance.randrange(5) * 600_000,
            b"%032x" % chance.randrange(10 * count),
        )
        for _ in range(count)
    ]


def batch(made: list[Row], *, dictionary: bool = False) -> pa.RecordBatch:
    tenants, stages, windows, identities = zip(*made, strict=True)
    names = pa.array(tenants, pa.string())
    return pa.record_batch(
        {
            "tenant": names.dictionary_encode() if dictionary else names,
            "stage": pa.array(stages, pa.int8()),
            "window": pa.array(windows, pa.int64()),
            "identity": pa.array(identities, pa.binary()),
        }
    )


def read(made: list[Row]) -> Iterator[pa.RecordBatch]:
    """In small batches, some with dictionaries."""
    for start in range(0, len(made), 100):
        yield batch(made[start : start + 100], dictionary=start % 200 == 0)


def sums(made: list[Row], geometry: Geometry) -> Summed:
    cells = fingerprint_batches(read(made), geometry)
    return Summed(cells=cells, spans=dict.fromkeys(cells.groups, (0, len(made))))


PIECES = [rows(700, seed=number) for number in range(3)]
EVERYTHING = [row for piece in PIECES for row in piece]


@pytest.mark.parametrize(("start", "count"), [(0, 0), (0, 30), (0, 7), (4, 26), (11, 3)])
def test_cells_of_a_task_are_read_back_from_any_part_of_its_rows(start: int, count: int) -> None:
    """Their bytes are taken out of Arrow's buffers by hand, which know where a slice begins."""
    made = fingerprint_here(PIECES, sums, Geometry(seed=SEED, bucket_bits=3))
    groups, cells, holders = decode_cells(encode_cells(made).slice(start, count))
    assert groups == made.cells.groups[start : start + count]
    assert len(groups) == len(cells) == len(holders) == count
    for group, of_group, held in zip(groups, cells, holders, strict=True):
        assert (of_group == made.cells.cells(group)).all()
        assert held == made.holders[group]


def test_tasks_make_of_pieces_what_one_process_makes_of_all(spark: SparkSession) -> None:
    whole = fingerprint_batches(read(EVERYTHING), Geometry(seed=SEED))
    scanned = fingerprint(spark, PIECES, sums, Geometry(seed=SEED), tasks=2)
    made = scanned.cells
    assert sorted(made.groups) == sorted(whole.groups)
    for group in whole.groups:
        assert (made.cells(group) == whole.cells(group)).all()
    for number, piece in enumerate(PIECES):
        held = {group for group, holders in scanned.holders.items() if number in holders}
        assert held == {Group(*row[:3]) for row in piece}
    folded = fingerprint(spark, PIECES, sums, Geometry(seed=SEED, cells_max=512)).cells
    assert folded.bucket_bits < whole.bucket_bits
    assert [folded.count(group) for group in whole.groups] == [whole.count(group) for group in whole.groups]


def test_a_second_look_and_a_search_give_exactly_their_rows(spark: SparkSession) -> None:
    made = fingerprint_batches(read(EVERYTHING), Geometry(seed=SEED))
    group = next(group for group in made.groups if group.tenant == "large")
    wanted = {group: range(1 << made.bucket_bits)}
    found = drill(spark, PIECES, read, Geometry(seed=SEED), wanted=wanted, schema=ROW_TYPES).collect()
    assert sorted(map(tuple, found)) == sorted(row for row in EVERYTHING if Group(*row[:3]) == group)
    sought = [EVERYTHING[5][3], b"nobody"]
    matched = search(spark, PIECES, read, matches=among(sought), schema=ROW_TYPES).collect()
    assert sorted(map(tuple, matched)) == sorted(row for row in EVERYTHING if row[3] in sought)


@pytest.mark.parametrize("apart_ms", [600_000, 1 << 40])
def test_groups_of_a_batch_are_told_apart_however_far_their_windows_lie(apart_ms: int) -> None:
    made = [
        (tenant, stage, window * apart_ms // 600_000 - apart_ms, single)
        for tenant, stage, window, single in PIECES[0]
    ]
    for dictionary in (False, True):
        groups, codes = group_rows(batch(made, dictionary=dictionary))
        assert [groups[code] for code in codes] == [Group(*row[:3]) for row in made]
        assert len(set(groups)) == len(groups)
        assert codes.dtype == np.int32


def test_a_slice_of_a_column_gives_its_own_ids() -> None:
    made = batch(PIECES[0])
    for part in (made, made.slice(17, 50)):
        ids = ids_of(part["identity"])
        found = [bytes(ids.octets[ids.offsets[row] : ids.offsets[row + 1]]) for row in range(len(ids))]
        assert found == part["identity"].to_pylist()
    assert len(ids_of(pa.array([b""], pa.binary()))) == 1


def test_no_work_is_no_rows(spark: SparkSession) -> None:
    assert fingerprint(spark, [], sums, Geometry(seed=SEED)).cells.groups == []

"""Two sides of a day compared id by id, 9 lost and 9 doubled: Spark tasks around the kernel against exact joins.

Run with `make bench-recon`. All read the same Parquet files: 25 million ids of one tenant, and as many of 20 tenants
of which one has half. Every way has to name exactly the ids that are wrong. RECON_IDS scales it down for a try.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from bench.report import Figure, publish, seconds
from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.close import suspects, where_to_look
from holdfast.pipelines.recon.day import Day
from holdfast.pipelines.recon.law import Law, Stage
from holdfast.pipelines.recon.reading import INGESTED, number_of
from holdfast.records.grouping import start_windows
from holdfast.spark.reconcile import Geometry, drill, fingerprint
from holdfast.spark.session import spark_session

IDS = int(os.environ.get("RECON_IDS", "25_000_000"))
FILES = 8
TENANTS = 20
FAULTS = 9
ROUNDS = 3
SEED = 1
BATCH_ROWS = 1 << 17
ROW_GROUP_ROWS = 1 << 20
TASKS = 8
SPARK_RATIO_MIN, DUCKDB_RATIO_MIN = 20.0, 4.0

DAY = Day(date=date(2026, 2, 1))
LAW = Law(delivered=frozenset())
AUDITED = number_of(Stage.AUDIT, EndState.NOT_QUALIFIED)
ROW_TYPES = "tenant string, stage byte, window long, identity binary"
SETTINGS = {"spark.driver.memory": "2g"}

Wrong = tuple[frozenset[str], frozenset[str]]
"""The ids that are lost, and those that are doubled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One row group of a Parquet file of a side."""

    path: str
    stage: int
    row_group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Both sides, and what is wrong with the second."""

    files: tuple[File, ...]
    tenants: tuple[str, ...]
    wrong: Wrong

    def paths(self, stage: int) -> list[str]:
        """The files of a side."""
        return sorted({file.path for file in self.files if file.stage == stage})


def main() -> int:
    """Measure, and say whether the goals were reached."""
    figures = []
    spark = spark_session("bench", master="local[2]", config=SETTINGS)
    build = Path(__file__).parents[1] / "build"
    build.mkdir(exist_ok=True)
    for name, tenants in (("one tenant", 1), (f"{TENANTS} tenants, one with half", TENANTS)):
        with tempfile.TemporaryDirectory(dir=build) as directory:
            print(f"{name}: writing {IDS:,} ids a side", file=sys.stderr)
            figures += measure(spark, write(Path(directory), tenants), name)
    spark.stop()
    return publish("recon", figures)


def measure(spark: SparkSession, data: Data, name: str) -> list[Figure]:
    """Ours and the joins; each has to find what is wrong."""
    ways: dict[str, tuple[Callable[[], Wrong], int]] = {
        "ours": (lambda: ours(spark, data), ROUNDS + 1),
        "DuckDB": (lambda: duckdb_join(data), ROUNDS),
        "Spark SQL": (lambda: spark_join(spark, data), 1),
    }
    taken: dict[str, float] = {}
    for way, (work, rounds) in ways.items():
        times = []
        for _ in range(rounds):
            found: list[Wrong] = []
            times.append(seconds(lambda work=work, found=found: found.append(work())))  # type: ignore[misc]
            assert found == [data.wrong], f"{way} is wrong"
            print(f"{name}, {way}: {times[-1]:.2f} s", file=sys.stderr)
        # The first of ours starts workers; the others are what a day in a running session takes.
        taken[way] = statistics.median(times[1:] if way == "ours" else times)
    return [
        Figure(
            name=f"{name}, against {way}",
            value=round(taken["ours"], 2),
            unit="s",
            baseline=round(taken[way], 2),
            ratio=round(taken[way] / taken["ours"], 2),
            goal=goal if IDS >= 25_000_000 else None,
        )
        for way, goal in (("Spark SQL", SPARK_RATIO_MIN), ("DuckDB", DUCKDB_RATIO_MIN))
    ]


def ours(spark: SparkSession, data: Data) -> Wrong:
    """Fingerprints, then an exact look at the cells that differ."""
    made = fingerprint(spark, data.files, read_file, Geometry(seed=SEED), tasks=TASKS)
    looked = Geometry(seed=SEED, bucket_bits=made.cells.bucket_bits)
    wanted = {
        group: buckets
        for tenant in data.tenants
        for group, buckets in where_to_look(made.cells, tenant, DAY, LAW).items()
        if group.stage in {INGESTED, AUDITED}
    }
    pieces = made.holding(wanted)
    rows = drill(spark, pieces, read_file, looked, wanted=wanted, schema=ROW_TYPES, tasks=TASKS)
    found = suspects(rows, LAW).collect()
    lost = frozenset(row.identity.decode() for row in found if row[f"seen_{AUDITED}"] == 0)
    doubled = frozenset(row.identity.decode() for row in found if row[f"seen_{AUDITED}"] == 2)
    assert len(lost) + len(doubled) == len(found)
    return lost, doubled


def read_file(file: File) -> Iterator[pa.RecordBatch]:
    """The rows of a file as reconciliation reads topics."""
    reader = pq.ParquetFile(file.path, read_dictionary=["tenant"], memory_map=True)
    for batch in reader.iter_batches(BATCH_ROWS, row_groups=[file.row_group], use_threads=False):
        yield pa.record_batch(
            {
                "tenant": batch["tenant"],
                "stage": pa.repeat(pa.scalar(file.stage, pa.int8()), batch.num_rows),
                "window": pa.array(start_windows(np.asarray(batch["time_ms"]), DAY.window_ms)),
                "identity": batch["id"].cast(pa.binary()),
            }
        )


def spark_join(spark: SparkSession, data: Data) -> Wrong:
    """How it is usually done."""
    sides = [
        spark.read.parquet(*data.paths(stage))
        .groupBy("tenant", "id")
        .agg(sql.count("*").alias(f"seen_{stage}"))
        for stage in (INGESTED, AUDITED)
    ]
    joined = sides[0].join(sides[1], ["tenant", "id"], "full_outer")
    differs = sql.coalesce(f"seen_{INGESTED}", sql.lit(0)) != sql.coalesce(f"seen_{AUDITED}", sql.lit(0))
    found = joined.where(differs).collect()
    return (
        frozenset(row.id for row in found if row[f"seen_{AUDITED}"] is None),
        frozenset(row.id for row in found if row[f"seen_{AUDITED}"] == 2),
    )


def duckdb_join(data: Data) -> Wrong:
    """The same in DuckDB, with as many threads."""
    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:
        sides = [
            f"(SELECT tenant, id, count(*) AS seen FROM read_parquet({data.paths(stage)}) GROUP BY tenant, id)"
            for stage in (INGESTED, AUDITED)
        ]
        found = connection.execute(
            f"SELECT id, b.seen FROM {sides[0]} a FULL OUTER JOIN {sides[1]} b USING (tenant, id)"
            " WHERE a.seen IS DISTINCT FROM b.seen"
        ).fetchall()
    lost = frozenset(single for single, seen in found if seen is None)
    return lost, frozenset(single for single, seen in found if seen == 2)


def write(directory: Path, tenants: int) -> Data:
    """Both sides: ids of 32 hexadecimal digits in the order of their times, spread over the day."""
    chance = np.random.default_rng(SEED)
    faulty = np.sort(chance.choice(IDS, 2 * FAULTS, replace=False))
    lost, doubled = set(faulty[::2].tolist()), set(faulty[1::2].tolist())
    names = np.array([f"tenant-{number:02d}" for number in range(tenants)])
    files, wrong_lost, wrong_doubled = [], set(), set()
    bounds = np.linspace(0, IDS, FILES + 1).astype(np.int64)
    for number, (start, end) in enumerate(pairwise(bounds)):
        rows = np.arange(start, end)
        ids = hexadecimal(chance.integers(0, 256, (len(rows), 16), np.uint8))
        whose = chance.integers(0, tenants, len(rows))
        if tenants > 1:
            whose[chance.random(len(rows)) < 0.5] = 0
        times = DAY.start_ms + rows * (DAY.end_ms - DAY.start_ms) // IDS
        wrong_lost |= {ids[row - start].as_py() for row in lost if start <= row < end}
        wrong_doubled |= {ids[row - start].as_py() for row in doubled if start <= row < end}
        kept = np.setdiff1d(np.arange(len(rows)), np.array(sorted(lost), np.int64) - start)
        again = np.array(sorted(row - start for row in doubled if start <= row < end), np.int64)
        for stage, chosen in ((INGESTED, np.arange(len(rows))), (AUDITED, np.concatenate([kept, again]))):
            path = directory / f"{stage}-{number}.parquet"
            tenant = pa.DictionaryArray.from_arrays(pa.array(whose[chosen].astype(np.int32)), pa.array(names))
            table = pa.table(
                {
                    "tenant": tenant.cast(pa.string()),
                    "id": ids.take(pa.array(chosen)),
                    "time_ms": times[chosen],
                }
            )
            pq.write_table(
                table, path, use_dictionary=["tenant"], compression="none", row_group_size=ROW_GROUP_ROWS
            )
            groups = range(-(-len(chosen) // ROW_GROUP_ROWS))
            files += [File(path=str(path), stage=stage, row_group=group) for group in groups]
    return Data(
        files=tuple(files),
        tenants=tuple(names.tolist()),
        wrong=(frozenset(wrong_lost), frozenset(wrong_doubled)),
    )


def hexadecimal(raw: NDArray[np.uint8]) -> pa.Array:
    """Each row's bytes as text."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.empty((len(raw), 32), np.uint8)
    text[:, ::2], text[:, 1::2] = digits[raw >> 4], digits[raw & 15]
    offsets = pa.py_buffer(np.arange(0, 32 * len(raw) + 1, 32, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), len(raw), [None, offsets, pa.py_buffer(text)])


if __name__ == "__main__":
    sys.exit(main())

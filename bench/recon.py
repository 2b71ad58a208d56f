"""Two sides of a day compared id by id, 9 lost and 9 doubled: Spark tasks around the kernel against exact joins.

Run with `make bench-recon`. 25 million ids of one tenant, and as many of 20 tenants of which one has half. Ours reads
the log, from the stores' files; DuckDB and Spark SQL read Parquet with the same ids. Every way has to name exactly the
ids that are wrong. `python -m bench.recon PART…` runs parts of it: `write`, `ours`, `kept`, `duckdb`, `sql`, with
`one` or `many` for one of the two days, and `stream`, the rate of a pipeline whose fingerprints are kept. Days are kept
in build/recon until `clean`, and times in build/bench/recon-times.json, so that parts add up. RECON_IDS scales it down
for a try.
"""

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from bench import recon_plot
from bench.load.compaction import SETTINGS as QUIET
from bench.load.days import AUDIT, DAY, FILE, INGEST, Truth, Written, write_day
from bench.load.keeping import rates
from bench.load.process import begin
from bench.report import FIGURES, Figure, publish, seconds
from holdfast.client.cluster import Cluster
from holdfast.client.reader import OffsetRange
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.recon.beside import held_beside, place
from holdfast.pipelines.recon.close import Desk, close_day, where_to_look
from holdfast.pipelines.recon.exact import HERE_ROWS_MAX, count_wanted, suspects_here
from holdfast.pipelines.recon.keeping import Keeper
from holdfast.pipelines.recon.law import Kind
from holdfast.pipelines.recon.looking import (
    count_offsets,
    narrow,
    pieces_of_day,
    sum_up,
    view_partitions,
)
from holdfast.pipelines.recon.reading import ROW_TYPES
from holdfast.pipelines.recon.summed import Picker
from holdfast.spark.reconcile import Geometry, drill_few
from holdfast.spark.session import spark_session
from tests.process import HoldfastProcess

IDS: Final = int(os.environ.get("RECON_IDS", "25_000_000"))
TENANTS: Final = 20
ROUNDS: Final = {"ours": 4, "duckdb": 3, "sql": 1, "kept": 3}
SEED: Final = 1
KEPT_BATCHES: Final = 20
SPARK_RATIO_MIN, DUCKDB_RATIO_MIN, CLOSE_SECONDS_MAX, KEEPS_RATIO_MIN = 20.0, 4.0, 5.0, 0.9
DAYS: Final = {"one": (1, "one tenant"), "many": (TENANTS, f"{TENANTS} tenants, one with half")}
BUILD: Final = Path(__file__).parents[1] / "build" / "recon"
TIMES: Final = FIGURES / "recon-times.json"
SETTINGS: Final = {"spark.driver.memory": "2g"}

Wrong = tuple[frozenset[str], frozenset[str]]
"""The ids that are lost, and those that are doubled."""
Times = dict[str, dict[str, list[float]]]
"""Day → way → seconds of each round."""


def main(parts: Sequence[str]) -> int:
    """Measure, and say whether the goals were reached."""
    begin()
    if "clean" in parts:
        shutil.rmtree(BUILD, ignore_errors=True)
        return 0
    days = [day for day in DAYS if day in parts or not {*DAYS, "stream"} & set(parts)]
    ways = [way for way in ("write", *ROUNDS) if way in parts or not {"write", *ROUNDS} & set(parts)]
    times: Times = json.loads(TIMES.read_text()) if parts and TIMES.exists() else {}
    for day in days:
        written = Written(directory=BUILD / f"{day}-{IDS}")
        if not (written.directory / "truth.json").exists():
            shutil.rmtree(written.directory, ignore_errors=True)
            print(f"{day}: writing {IDS:,} ids a side", file=sys.stderr)
            write_day(written.directory, ids=IDS, tenants=DAYS[day][0])
        for way in ways[1:] if ways[0] == "write" else ways:
            times.setdefault(day, {}).update(_measure(way, day, written))
    if not parts:
        shutil.rmtree(BUILD)
    if not parts or "stream" in parts:
        times["stream"] = _stream()
    FIGURES.mkdir(parents=True, exist_ok=True)
    TIMES.write_text(json.dumps(times, indent=2) + "\n")
    if not any(times.values()):
        return 0
    recon_plot.draw(FIGURES / "recon.svg", times)
    figures = [figure for day in DAYS if day in times for figure in _figures(day, times[day])]
    return publish("recon", [*figures, *_stream_figures(times.get("stream", {}))])


def _measure(way: str, day: str, written: Written) -> dict[str, list[float]]:
    truth = written.truth
    expected = truth.lost, truth.doubled
    if way == "duckdb":
        return {way: _rounds(way, day, lambda: duckdb_join(written), expected)}
    spark = spark_session("bench", master="local[2]", config=SETTINGS)
    try:
        if way == "sql":
            return {way: _rounds(way, day, lambda: spark_join(spark, written), expected)}
        with _desk(spark, written) as desk:
            if way == "ours":
                return {way: _rounds(way, day, lambda: ours(desk, truth), expected)}
            return _kept(desk, day, truth) if day == "one" else {}
    finally:
        spark.stop()


def _rounds(way: str, day: str, work: Callable[[], Wrong], expected: Wrong) -> list[float]:
    """The first one of ours starts workers; the others are what a day in a running session takes."""
    times = []
    for _ in range(ROUNDS[way]):
        found: list[Wrong] = []
        times.append(seconds(lambda found=found: found.append(work())))  # type: ignore[misc]
        assert found == [expected], f"{way} is wrong"
        print(f"{DAYS[day][1]}, {way}: {times[-1]:.2f} s", file=sys.stderr)
    return times[1:] if way == "ours" else times


@contextmanager
def _desk(spark: SparkSession, written: Written) -> Iterator[Desk]:
    settings, path = written.directory / "log.toml", written.directory / "pipeline.yaml"
    settings.write_text(QUIET)
    with HoldfastProcess(written.log, "--config", str(settings)) as process:
        path.write_text(FILE.format(bootstrap=process.bootstrap))
        with Cluster(process.bootstrap) as cluster:
            yield Desk(session=spark, cluster=cluster, pipeline=load_pipeline(path))


def ours(desk: Desk, truth: Truth) -> Wrong:
    """Fingerprints of all tenants, then an exact look at the cells that differ, as `close_day` does it for one."""
    begun = time.perf_counter()
    pipeline, views = desk.pipeline, view_partitions(desk.cluster, desk.pipeline)
    with held_beside(desk.session, desk.cluster, pipeline) as held:
        assert held is not None
        pieces = place(held, pieces_of_day(pipeline, views, DAY, tenant=None, tasks=desk.tasks))
        assert all(piece.stored is not None for piece in pieces)
        planned = time.perf_counter()
        made = sum_up(desk.session, pieces, Geometry(seed=SEED), tasks=desk.tasks)
        summed = time.perf_counter()
        wanted = {
            group: buckets
            for tenant in truth.tenants
            for group, buckets in where_to_look(made.cells, tenant, DAY, desk.law).items()
        }
        looked = Geometry(seed=SEED, bucket_bits=made.cells.bucket_bits)
        holding = [narrow(*held) for held in made.holding(wanted)]
        assert count_wanted(made.cells, wanted) <= HERE_ROWS_MAX
        rows = drill_few(
            desk.session,
            holding,
            Picker(wanted, looked),
            looked,
            wanted=wanted,
            schema=ROW_TYPES,
            tasks=desk.tasks,
        )
        found = suspects_here(rows, desk.law)
    ended = time.perf_counter()
    print(
        f"  plan {planned - begun:.2f}, fingerprints {summed - planned:.2f}, exact look {ended - summed:.2f} s"
        f" at {count_offsets(holding) / count_offsets(pieces):.1%}",
        file=sys.stderr,
    )
    ended_times = {identity.decode(): sum(tally.audited.values()) for identity, tally in found}
    lost = frozenset(single for single, times in ended_times.items() if times == 0)
    doubled = frozenset(single for single, times in ended_times.items() if times == 2)
    assert len(lost) + len(doubled) == len(found)
    return lost, doubled


def _kept(desk: Desk, day: str, truth: Truth) -> dict[str, list[float]]:
    """Fingerprints kept in micro-batches, then the day closed: until it is known, looked at exactly, and named."""
    keeper = Keeper(desk.pipeline, tasks=desk.tasks)
    views = view_partitions(desk.cluster, desk.pipeline)
    keeping = 0.0
    for number in range(KEPT_BATCHES):
        ranges = [
            OffsetRange(
                topic=view.topic,
                partition=view.partition,
                start=view.read_to * number // KEPT_BATCHES,
                end=view.read_to * (number + 1) // KEPT_BATCHES,
            )
            for view in views
        ]
        keeping += seconds(lambda ranges=ranges: keeper.keep(desk.session, ranges))  # type: ignore[misc]
    keeper.close()
    print(f"{DAYS[day][1]}, kept in {keeping:.2f} s", file=sys.stderr)
    times: dict[str, list[float]] = {"keeping": [keeping]}
    for _ in range(ROUNDS["kept"]):
        marks = [time.perf_counter()]
        told = replace(desk, on_progress=lambda _, marks=marks: marks.append(time.perf_counter()))  # type: ignore[misc]
        verdict = close_day(told, truth.tenants[0], DAY)
        marks.append(time.perf_counter())
        named = {kind: {each.id for each in verdict.evidence.findings if each.kind is kind} for kind in Kind}
        assert named[Kind.MISSING] == truth.lost
        assert named[Kind.DUPLICATE] == truth.doubled
        # It tells of fingerprints, of the exact look, and of the search.
        begun, _, looked, searched, ended = marks
        for phase, taken in (
            ("known", looked - begun),
            ("look", searched - looked),
            ("search", ended - searched),
        ):
            times.setdefault(f"close: {phase}", []).append(taken)
        print(
            f"  known {looked - begun:.2f}, look {searched - looked:.2f}, search {ended - searched:.2f} s",
            file=sys.stderr,
        )
    return times


def _stream() -> dict[str, list[float]]:
    spark = spark_session("bench", master="local[2]", config=SETTINGS)
    try:
        with tempfile.TemporaryDirectory(dir=BUILD.parent) as directory:
            return rates(spark, Path(directory))
    finally:
        spark.stop()


def _stream_figures(rounds: dict[str, list[float]]) -> Iterator[Figure]:
    """A ratio is taken within its round."""
    if rounds:
        ratios = [keeps / alone for keeps, alone in zip(rounds["keeps"], rounds["alone"], strict=True)]
        yield Figure(
            name="a pipeline's rate while its fingerprints are kept",
            value=round(statistics.median(rounds["keeps"])),
            unit="messages/s",
            baseline=round(statistics.median(rounds["alone"])),
            ratio=round(statistics.median(ratios), 2),
            goal=KEEPS_RATIO_MIN,
        )


def spark_join(spark: SparkSession, written: Written) -> Wrong:
    """How it is usually done."""
    sides = [
        spark.read.parquet(*written.paths(side))
        .groupBy("tenant", "id")
        .agg(sql.count("*").alias(f"seen_{name}"))
        for name, side in (("in", INGEST), ("out", AUDIT))
    ]
    joined = sides[0].join(sides[1], ["tenant", "id"], "full_outer")
    differs = sql.coalesce("seen_in", sql.lit(0)) != sql.coalesce("seen_out", sql.lit(0))
    found = joined.where(differs).collect()
    return (
        frozenset(row.id for row in found if row.seen_out is None),
        frozenset(row.id for row in found if row.seen_out == 2),
    )


def duckdb_join(written: Written) -> Wrong:
    """The same in DuckDB, with as many threads."""
    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:
        sides = [
            f"(SELECT tenant, id, count(*) AS seen FROM read_parquet({written.paths(side)}) GROUP BY tenant, id)"
            for side in (INGEST, AUDIT)
        ]
        found = connection.execute(
            f"SELECT id, b.seen FROM {sides[0]} a FULL OUTER JOIN {sides[1]} b USING (tenant, id)"
            " WHERE a.seen IS DISTINCT FROM b.seen"
        ).fetchall()
    lost = frozenset(single for single, seen in found if seen is None)
    return lost, frozenset(single for single, seen in found if seen == 2)


def _figures(day: str, times: dict[str, list[float]]) -> Iterator[Figure]:
    taken = {way: statistics.median(each) for way, each in times.items()}
    name, whole = DAYS[day][1], IDS >= 25_000_000
    for way, said, goal in (("sql", "Spark SQL", SPARK_RATIO_MIN), ("duckdb", "DuckDB", DUCKDB_RATIO_MIN)):
        if {"ours", way} <= taken.keys():
            yield Figure(
                name=f"{name}, against {said}",
                value=round(taken["ours"], 2),
                unit="s",
                baseline=round(taken[way], 2),
                ratio=round(taken[way] / taken["ours"], 2),
                goal=goal if whole else None,
            )
    if "close: known" in taken:
        yield Figure(
            name=f"{name}, close with kept fingerprints, until it is known where to look",
            value=round(taken["close: known"], 2),
            unit="s",
            baseline=CLOSE_SECONDS_MAX,
            ratio=round(CLOSE_SECONDS_MAX / taken["close: known"], 2),
            goal=1.0 if whole else None,
        )
        for phase, said in (("look", "the exact look"), ("search", "the search of all that is retained")):
            yield Figure(name=f"{name}, then {said}", value=round(taken[f"close: {phase}"], 2), unit="s")
        yield Figure(
            name=f"{name}, keeping fingerprints, through an agent",
            value=round(2 * IDS / taken["keeping"] / 1e6, 2),
            unit="M records/s",
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Rounds of compaction: `make bench-compact`.

A warm round of the keeper on `local[2]`, all of it, from asking what is due to the last file given back, beside the
kernel alone (read, index, copy, write in this process) and beside DuckDB, which keeps the newest row of each key of
the same records in Parquet. Then what coordination costs: its share of a round, messages, and what is held back for
a replica that is away. COMPACT_SCALE=0.01 makes everything smaller, to try it; `python -m bench.compact WORD` takes
only the logs whose names have the word in them ("lz4", "8 partitions"), or "coordination"; its figures go to a file of
their own, its bars into the same plot.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import compact_plot
from bench.load.batches import LZ4, PLAIN, VARIABLE, Form
from bench.load.compaction import WARM, Measured, fill, list_items, run_round, served, warm_up
from bench.load.coordination import held_by_absence, messages_per_round
from bench.load.duck import PLANS, Deduped, dedupe, write_parquet
from bench.load.kernel_alone import compact_alone
from bench.load.process import begin
from bench.load.process_tree import Peak, peak_below
from bench.report import FIGURES, Figure, publish
from holdfast.keeper.work import WorkItem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE: Final = float(os.environ.get("COMPACT_SCALE", "1"))
KEYS: Final = max(1_000, int(2_000_000 * SCALE))
WARM_RECORDS: Final = 8_000
THREADS: Final = 2
KERNEL_RATIO_MIN: Final = 0.75
DUCKDB_RATIO_MIN: Final = 3.0
SHARE_MAX: Final = 0.01
REPLICATION: Final = (3, 5, 7)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A log, and how often it is made and compacted, after a first time in which memory is looked at.

    Not while time is taken: to look at a JVM's memory ten times a second takes a tenth of two cores.
    """

    form: Form
    millions: int
    partitions: int
    rounds: int
    duckdb: bool = False

    @property
    def records(self) -> int:
        return int(self.millions * 1_000_000 * SCALE)

    @property
    def has_goals(self) -> bool:
        """The other forms are told of only."""
        return self.form is PLAIN

    def __str__(self) -> str:
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{self.millions} M records, {self.form.name}, {partitions}"


CASES: Final = (
    Case(form=PLAIN, millions=10, partitions=1, rounds=6, duckdb=True),
    Case(form=PLAIN, millions=25, partitions=1, rounds=3, duckdb=True),
    Case(form=PLAIN, millions=10, partitions=8, rounds=6, duckdb=True),
    Case(form=PLAIN, millions=25, partitions=8, rounds=3, duckdb=True),
    Case(form=LZ4, millions=10, partitions=1, rounds=2),
    Case(form=LZ4, millions=25, partitions=1, rounds=2),
    Case(form=VARIABLE, millions=10, partitions=1, rounds=2),
    Case(form=VARIABLE, millions=25, partitions=1, rounds=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one making and compacting of a log gave."""

    kernel_seconds: float
    round: Measured
    peak_mb: float
    duckdb: Deduped | None

    def __str__(self) -> str:
        talk = ", ".join(
            f"{question} {1000 * each:.1f}" for question, each in self.round.talk.seconds.items()
        )
        duckdb = f", DuckDB {self.duckdb.seconds:.2f} s" if self.duckdb else ""
        return f"round {self.round.seconds:.3f} s, kernel {self.kernel_seconds:.3f} s{duckdb}; ms of questions: {talk}"


def main() -> int:
    """Every case, then coordination."""
    begin()
    begun = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - begun:5.0f} s  {what}", file=sys.stderr, flush=True)

    (Path(__file__).parents[1] / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[1] / "build") as name:
        from holdfast.spark.session import spark_session

        spark = spark_session("bench", master=f"local[{THREADS}]", config={"spark.driver.memory": "1g"})
        tell("Spark is there; a small round to warm it up")
        _run_turn(spark, Case(form=PLAIN, millions=1, partitions=2, rounds=1), Path(name, "warm"))
        figures: list[Figure] = []
        word = " ".join(sys.argv[1:])
        points = compact_plot.load(FIGURES / "compact.bars.json") if word else {}
        for case in (case for case in CASES if word in str(case)):
            figures += _run_case(spark, case, Path(name, "case"), points, tell)
        if word in "coordination":
            figures += _measure_coordination(spark, Path(name, "coordination"), tell)
        spark.stop()
    if points:
        compact_plot.save(FIGURES / "compact.bars.json", points)
        tell(f"done; {compact_plot.draw(FIGURES / 'compact.svg', points)}")
    return publish("-".join(["compact", *word.replace(",", "").split()]), figures)


def _run_case(
    spark: "SparkSession", case: Case, directory: Path, points: compact_plot.Points, tell: Tell
) -> list[Figure]:
    turns = []
    for number in range(case.rounds + 1):
        tell(f"{case}: turn {number} of {case.rounds}{', and DuckDB' if case.duckdb else ''}")
        turns.append(_run_turn(spark, case, directory, number=number))
        tell(str(turns[-1]))
    peak_mb = turns.pop(0).peak_mb
    rate = statistics.median(case.records / turn.round.seconds for turn in turns) / 1e6
    kernel = statistics.median(case.records / turn.kernel_seconds for turn in turns) / 1e6
    figures = [
        Figure(
            name=f"{case}: round ÷ kernel alone",
            value=round(rate, 2),
            unit="M records/s",
            baseline=round(kernel, 2),
            ratio=round(statistics.median(turn.kernel_seconds / turn.round.seconds for turn in turns), 2),
            goal=KERNEL_RATIO_MIN if case.has_goals else None,
        ),
        Figure(
            name=f"{case}: peak memory of Spark's JVM and workers",
            value=round(peak_mb),
            unit="MB",
        ),
        _share_figure(case, turns),
    ]
    points[str(case)] = {"kernel alone": kernel, "round": rate}
    if found := [(turn.round.seconds, turn.duckdb) for turn in turns if turn.duckdb is not None]:
        duckdb = statistics.median(case.records / each.seconds for _, each in found) / 1e6
        points[str(case)]["DuckDB"] = duckdb
        figures += [
            Figure(
                name=f"{case}: round ÷ DuckDB ({found[0][1].plan})",
                value=round(rate, 2),
                unit="M records/s",
                baseline=round(duckdb, 2),
                ratio=round(statistics.median(each.seconds / taken for taken, each in found), 2),
                goal=DUCKDB_RATIO_MIN,
            ),
            Figure(
                name=f"{case}: peak memory of DuckDB",
                value=round(max(each.peak_mb for _, each in found)),
                unit="MB",
            ),
        ]
    return figures


def _share_figure(case: Case, turns: list[Turn]) -> Figure:
    shares = [turn.round.talk.coordination_seconds / turn.round.seconds for turn in turns]
    asking = [sum(turn.round.talk.seconds.values()) / turn.round.seconds for turn in turns]
    share = statistics.median(shares)
    return Figure(
        name=f"{case}: leases and publication, share of the round (all questions: {statistics.median(asking):.1%})",
        value=round(100 * share, 3),
        unit="%",
        ratio=round(SHARE_MAX / share, 2),
        goal=1.0 if case.has_goals else None,
    )


def _run_turn(
    spark: "SparkSession",
    case: Case,
    directory: Path,
    *,
    number: int = 1,
) -> Turn:
    """Make the log, and have the kernel alone, a round and DuckDB go through it, who find it in the page cache.

    Who comes first also pays for memory that the machine has to back: so another one begins in each turn.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    data = directory / "data"
    fill(data, case.form, records=WARM_RECORDS, keys=WARM_RECORDS, partitions=case.partitions, topic=WARM)
    fill(data, case.form, records=case.records, keys=KEYS, partitions=case.partitions)
    with served(data) as log:
        warm_up(log, spark, scale=SCALE)
        os.sync()
        items = list_items(log)
        source = directory / "source.parquet"
        if case.duckdb:
            write_parquet(items, source)
            os.sync()
        kernel, measured, duckdb = None, None, None
        peak = Peak()
        for who in _order(case, number):
            # The journals are there until their grace is over: all of them get what was there at first.
            if who is _run_alone:
                kernel = _run_alone(items, directory / "alone")
            elif who is _run_duckdb:
                duckdb = _run_duckdb(case, source, directory / "target.parquet")
            else:
                with (
                    peak_below(os.getpid(), except_for=log.pid) if number == 0 else nullcontext(peak) as peak
                ):
                    measured = run_round(log.ask, spark, scale=SCALE)
        assert kernel is not None
        assert measured is not None
        assert measured.report.rewrites == case.partitions, measured.report
        seconds, kept = kernel
        left = log.count_records()
    assert left == kept, f"the round has left {left} records, the kernel alone {kept}"
    assert duckdb is None or duckdb.rows == kept, f"DuckDB has left {duckdb} rows, the kernel {kept} records"
    shutil.rmtree(directory)
    return Turn(kernel_seconds=seconds, round=measured, peak_mb=peak.mb, duckdb=duckdb)


def _order(case: Case, number: int) -> Sequence[Callable[..., object]]:
    """Another one begins in each turn."""
    everybody = (_run_alone, run_round, *((_run_duckdb,) if case.duckdb else ()))
    begins = number % len(everybody)
    return everybody[begins:] + everybody[:begins]


def _run_alone(items: Sequence[WorkItem], directory: Path) -> tuple[float, int]:
    """Its seconds, and how many records it has kept."""
    directory.mkdir()
    begun = time.perf_counter()
    kept = compact_alone(items, directory, threads=THREADS)
    seconds = time.perf_counter() - begun
    shutil.rmtree(directory)
    os.sync()
    return seconds, kept


def _run_duckdb(case: Case, source: Path, target: Path) -> Deduped:
    """The best of its plans; after a case's first turn, which does not count, only the one that was best there."""
    found = min(
        (dedupe(source, target, plan) for plan in _best_plans.get(str(case), PLANS)),
        key=lambda each: each.seconds,
    )
    _best_plans[str(case)] = [found.plan]
    return found


_best_plans: dict[str, list[str]] = {}


def _measure_coordination(spark: "SparkSession", directory: Path, tell: Tell) -> list[Figure]:
    figures = []
    for replicas in REPLICATION:
        tell(f"coordination of {replicas} replicas")
        measured = messages_per_round(spark, directory / str(replicas), replicas=replicas, scale=SCALE)
        spoken = measured.talk.messages
        coordination = sum(
            count for question, count in spoken.items() if question in ("lease", "publish", "release")
        )
        figures.append(
            Figure(
                name=f"{replicas} replicas: messages in a round ({coordination} of them leases and publications)",
                value=sum(spoken.values()),
                unit="messages",
            )
        )
        share = measured.talk.coordination_seconds / measured.seconds
        figures.append(
            Figure(
                name=f"{replicas} replicas, 12 M records on all together: leases and publications, share of the round",
                value=round(100 * share, 3),
                unit="%",
                ratio=round(SHARE_MAX / share, 2),
                goal=1.0,
            )
        )
    tell("what is held for a replica that is away")
    return figures + held_by_absence(directory / "absence", scale=SCALE)


if __name__ == "__main__":
    sys.exit(main())

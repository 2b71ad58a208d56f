"""What coordination costs: messages of a round, and what is kept for a replica that is away."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.load.batches import PLAIN, TOMBSTONES, make_batches
from bench.load.compaction import WARM, Measured, append, fill, run_round, served, warm_up
from bench.report import Figure
from holdfast.keeper.limits import KeeperLimits
from tests.keeper.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS: Final = 12_000_000
"""On all stores together, so that rounds are alike however many there are."""
WARM_RECORDS: Final = 8_000
ABSENCE_RECORDS: Final = 400_000
RECORDS_PER_SECOND: Final = 1_000
"""The write rate that what was measured is scaled to."""
ROUNDS: Final = 4
"""A round cleans, the next one may drop tombstones, another gives their space back; one more, to be at rest."""
DIFFERENT: Final = 1 << 40
"""So many keys that none comes twice: every delete has to be kept, and nothing replaces it."""
LIMITS: Final = KeeperLimits(settle_ms_max=0, collect_seconds=0.0, collect_bytes_min=0, snapshot_seconds=0.0)
THERE: Final = (1, 2)


def messages_per_round(spark: "SparkSession", directory: Path, *, replicas: int, scale: float) -> Measured:
    """One partition on so many stores, compacted by a round over all of them."""
    records = max(10_000, int(RECORDS * scale)) // replicas
    data = directory / "data"
    fill(data, PLAIN, records=WARM_RECORDS, keys=WARM_RECORDS, nodes=replicas, topic=WARM)
    fill(data, PLAIN, records=records, keys=records // 5, nodes=replicas)
    with served(data) as log:
        warm_up(log, spark, scale=scale)
        measured = run_round(log.ask, spark, scale=scale)
    assert measured.report.rewrites == replicas, measured.report
    shutil.rmtree(directory)
    return measured


def held_by_absence(directory: Path, *, scale: float) -> list[Figure]:
    """The same writes and rounds with a third replica there and away: what the others hold more because of it."""
    records = max(20_000, int(ABSENCE_RECORDS * scale))
    there, _ = _bytes_held(directory / "there", records, is_away=False)
    away, written = _bytes_held(directory / "away", records, is_away=True)
    held_mb = (away - there) / records * RECORDS_PER_SECOND * 3600 / 1e6
    told = f"a replica away for an hour, {RECORDS_PER_SECOND} records/s, {TOMBSTONES:.0%} deletes"
    return [
        Figure(name=f"{told}: held on each store that is there", value=round(held_mb, 1), unit="MB"),
        Figure(name=f"{told}: of what was written", value=round(100 * (away - there) / written, 2), unit="%"),
    ]


def _bytes_held(directory: Path, records: int, *, is_away: bool) -> tuple[int, int]:
    """Bytes on a store that is there, and bytes written, when the keeper has no more to do."""
    engine = Engine(directory / "data", nodes=3, limits=LIMITS)
    try:
        key = engine.create("t", delete_retention_ms="0")
        written = 0

        def write() -> None:
            nonlocal written
            batches = list(make_batches(PLAIN, records=records, keys=DIFFERENT))
            written = sum(map(len, batches))
            append(engine, ((key, batch) for batch in batches))
            for _ in range(ROUNDS):
                engine.round()

        if is_away:
            with engine.away(3):
                write()
        else:
            write()
        stores = [_size_bytes(engine.data / "stores" / str(store)) for store in THERE]
    finally:
        engine.end()
    shutil.rmtree(directory)
    return sum(stores) // len(stores), written


def _size_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())

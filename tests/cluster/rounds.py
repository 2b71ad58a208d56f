"""A log that is large enough to meet a round of the keeper in the middle, and whoever is at work on it."""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from holdfast.agent.partition_key import PartitionKey
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.round import Round
from holdfast.spark.rewrites import SparkRunner
from tests.cluster.standalone import SparkCluster, descendants, wait_for
from tests.keeper.engine import Engine

SEED = 11
BATCHES = 40
BATCH_RECORDS = 500
VALUE_BYTES = 1_000
KEYS = 15_000
STORES = (1, 2, 3)
LIMITS = KeeperLimits(settle_ms_max=0, segment_bytes_max=1 << 20, collect_seconds=0.0)
"""Many small segments: each takes a sync, so that a rewrite takes its time, and leaves files behind when it dies."""

Table = dict[bytes | None, bytes]


def fill(engine: Engine, key: PartitionKey) -> Table:
    """Write most keys more than once, and delete some; what must be left of it in the end."""
    chance = random.Random(SEED)
    newest: dict[bytes | None, bytes | None] = {}
    for _ in range(BATCHES):
        records = [
            (
                b"key-%06d" % chance.randrange(KEYS),
                chance.randbytes(VALUE_BYTES) if chance.random() > 0.05 else None,
            )
            for _ in range(BATCH_RECORDS)
        ]
        engine.append(key, *records)
        newest.update(records)
    return {name: value for name, value in newest.items() if value is not None}


def make_round(engine: Engine, spark: SparkSession) -> Round:
    """A round whose rewrites run on the cluster, however small they are."""
    return Round(engine.gateway, lambda size_bytes: SparkRunner(spark))


class Writer(NamedTuple):
    """An executor whose Python worker is at work on a segment."""

    executor: int
    worker: int
    segment: str
    """Named as the others are."""


def find_writer(cluster: SparkCluster, data: Path) -> Writer | None:
    """One that is writing a segment below `data` right now."""
    for executor in cluster.executors():
        for worker in descendants(executor):
            for path in open_files(worker):
                if data in path.parents and "segments" in path.parts:
                    return Writer(executor, worker, name_segment(data, path))
    return None


def stop_writer(cluster: SparkCluster, data: Path) -> Writer | None:
    """Stop a Python worker in the middle of a segment; one that was quicker than the signal may go on."""
    found = find_writer(cluster, data)
    if found is None:
        return None
    os.kill(found.worker, signal.SIGSTOP)
    wait_for(lambda: is_stopped(found.worker), "worker that stands still")
    if find_writer(cluster, data) == found:
        return found
    os.kill(found.worker, signal.SIGCONT)
    return None


def is_stopped(pid: int) -> bool:
    """Whether the signal has arrived."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def running_tasks(spark: SparkSession) -> int:
    """Attempts that go on, those included that somebody has overtaken and that have not ended yet."""
    jvm: Any = spark.sparkContext._jsc
    return sum(each.numRunningTasks() for each in jvm.sc().statusTracker().getExecutorInfos())


def open_files(pid: int) -> Iterator[Path]:
    """What a process has open."""
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            yield descriptor.readlink()
    except OSError:
        return


def segments_on_disk(data: Path) -> set[str]:
    """The files of all stores, named as the control plane names them."""
    return {name_segment(data, path) for path in (data / "stores").glob("*/segments/**/*.log")}


def name_segment(data: Path, path: Path) -> str:
    """Its store, and its name there."""
    store, _, *file = path.relative_to(data / "stores").parts
    return f"{store}:{'/'.join(file)}"


def segments_published(engine: Engine, key: PartitionKey) -> set[str]:
    """Those that the control plane names."""
    return {
        f"{store}:{segment.file}"
        for store in STORES
        for segment in engine.cluster.plane.find_segments(*key, store)
    }

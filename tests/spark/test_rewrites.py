"""Rewrites as Spark tasks: the same files and results as in the keeper's own process, and failures stay apart."""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import KeeperFailed
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.plan import plan
from holdfast.keeper.round import Round
from holdfast.keeper.task import rewrite
from holdfast.keeper.work import Rewrite, WorkItem
from holdfast.spark import rewrites
from holdfast.spark.rewrites import SparkRunner
from soak.processes import find_workers, kill
from tests.keeper.engine import Engine
from tests.keeper.replica import Replica

ALWAYS_HOT = KeeperLimits(split_bytes_min=1)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Three stores."""
    made = Engine(tmp_path / "data")
    yield made
    made.end()


def test_a_round_on_spark(engine: Engine, spark: SparkSession) -> None:
    """One task for each store; what is published is what the rule says, on all of them."""
    key = engine.create("t", delete_retention_ms="0")
    engine.append(key, (b"a", b"1"), (b"b", b"1"))
    engine.append(key, (b"a", b"2"), (b"c", None))
    progress: list[tuple[int, int]] = []
    report = Round(
        engine.gateway,
        lambda size_bytes: SparkRunner(spark),
        on_progress=lambda done, total: progress.append((done, total)),
    ).run()
    assert report.rewrites == 3
    assert [engine.read(key, store) for store in (1, 2, 3)] == [
        [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", None)]
    ] * 3
    assert progress[-1][0] == progress[-1][1] > 0


def test_one_that_fails_does_not_harm_the_others(engine: Engine, spark: SparkSession) -> None:
    """A damaged journal is told by name; the other stores' rewrites are done."""
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    views = [view for store in (1, 2, 3) for view in engine.gateway.list_views(store)]
    limits = engine.gateway.find_limits()
    items = [planned.item for view in views if (planned := plan(view, limits))]
    damaged = Path(items[1].pieces[0].path)
    data = bytearray(damaged.read_bytes())
    data[items[1].pieces[0].position + 65] ^= 1
    damaged.write_bytes(data)
    results = dict(chain.from_iterable(SparkRunner(spark).run(items, lambda size_bytes: None)))
    assert [isinstance(results[number], Rewrite) for number in range(3)] == [True, False, True]
    assert isinstance(results[1], KeeperFailed)
    assert "CRC" in str(results[1])


def small_item(directory: Path) -> tuple[Replica, WorkItem]:
    """A replica with little to compact."""
    replica = Replica(directory, Random(1))
    replica.append(5)
    return replica, replica.item(replica._taken(5), first=0, end=replica.log_end, compacts=True)


def test_a_task_that_brings_the_job_down_does_not_harm_the_others(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no memory for it: Spark gives up the whole job, and the tasks are run one by one."""
    _, sound = small_item(tmp_path / "sound")
    _, greedy = small_item(tmp_path / "greedy")
    items = [replace(greedy, map_bytes_max=1 << 39), sound]
    results = dict(chain.from_iterable(SparkRunner(spark).run(items, lambda size_bytes: None)))
    assert isinstance(results[1], Rewrite)
    assert isinstance(results[0], KeeperFailed)
    assert "Unable to allocate 512. GiB" in str(results[0])
    assert "\n" not in str(results[0])
    assert "2 rewrites are run again, one by one" in caplog.text


def test_a_worker_that_is_killed_fails_its_task_and_no_other(tmp_path: Path, spark: SparkSession) -> None:
    """In the middle of reading; the next task gets a worker of its own."""
    replica, item = small_item(tmp_path)
    blocked = tmp_path / "blocked"
    os.mkfifo(blocked)
    is_over = threading.Event()

    def kill_workers() -> None:
        while not is_over.wait(0.05):
            for worker in find_workers(os.getpid()):
                kill(worker)

    killer = threading.Thread(target=kill_workers)
    killer.start()
    try:
        pieces = tuple(replace(piece, path=str(blocked)) for piece in item.pieces)
        (((_, result),),) = SparkRunner(spark).run([replace(item, pieces=pieces)], lambda size_bytes: None)
    finally:
        is_over.set()
        killer.join()
    assert isinstance(result, KeeperFailed)
    assert "\n" not in str(result)
    assert str(result).startswith("a Spark task failed: ")
    (((_, result),),) = SparkRunner(spark).run([item], lambda size_bytes: None)
    assert isinstance(result, Rewrite)
    assert {path.suffix for path in replica.files()} == {".log", ".index"}


@pytest.mark.parametrize("over", ["tasks", "threads"])
def test_a_hot_replica_is_split(
    over: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clean and dirty segments and extents, all codecs, a map that is too small: the bytes of a single thread."""
    monkeypatch.setattr(rewrites, "runs_here", lambda session: over == "threads")
    replica = Replica(tmp_path, Random(3), keys=150, key_bytes=60)
    replica.segment_bytes_max = 20_000
    replica.map_bytes_max = 4096
    replica.append(200)
    replica.compact(100)
    replica.settle(40)
    pieces = [*replica.segment_pieces(replica.segments, clean_to=replica.mcco), *replica._taken(60)]
    item = replica.item(pieces, first=0, end=replica.log_end, compacts=True, tombstones_end=replica.mcco)
    whole = rewrite(item, seed=1)
    before = replica.files()
    progress: list[int] = []
    (((_, split),),) = SparkRunner(spark, ALWAYS_HOT).run([item], progress.append)
    assert isinstance(split, Rewrite)
    of_one, of_many = (
        b"".join(replica.path(segment).read_bytes() for segment in done.added) for done in (whole, split)
    )
    assert of_one == of_many
    assert split.counts["passes"] > 2, "more than a pass for each of two"
    assert {**split.counts, "passes": 0} == {**whole.counts, "passes": 0}
    assert split.removed == whole.removed
    assert len(progress) > 2 if over == "tasks" else len(progress) == 1
    assert 0 <= 2 * item.size_bytes - sum(progress) < len(progress)
    assert {path.suffix for path in replica.files() - before} == {".log", ".index"}


def test_a_hot_replica_is_published_as_one(engine: Engine, spark: SparkSession) -> None:
    """One change for all of its tasks: it is clean up to the end, and what may go next is known."""
    key = engine.create("t", delete_retention_ms="0")
    for number in range(30):
        engine.append(key, (b"%d" % (number % 4), b"%d" % number), (b"gone", None))
    published = engine.cluster.desk.activity.published
    report = Round(engine.gateway, lambda size_bytes: SparkRunner(spark, ALWAYS_HOT), stores={1}).run()
    assert (report.rewrites, engine.cluster.desk.activity.published) == (1, published + 1)
    assert report.bytes_read > report.bytes_written > 0
    (manifest,) = (one for one in engine.removal(key).replicas if one.store == 1)
    assert (manifest.cleaned.mcco, manifest.cleaned.mxfo, manifest.settled_to) == (60, 60, 60)
    assert engine.read(key, 1) == [
        *((2 * number, b"%d" % (number % 4), b"%d" % number) for number in range(26, 30)),
        (59, b"gone", None),
    ]
    assert engine.table(key, 1) == engine.table(key, 2)

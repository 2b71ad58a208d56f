"""Rewrites as Spark tasks: the same files and results as in the keeper's own process, and failures stay apart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import KeeperFailed
from holdfast.keeper.plan import plan
from holdfast.keeper.round import Round
from holdfast.keeper.work import Rewrite
from holdfast.spark.rewrites import SparkRunner
from tests.keeper.engine import Engine


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
    views = [view for store in (1, 2, 3) for view in engine.gateway.list_views(store, 1)]
    limits = engine.gateway.find_limits()
    items = [planned.item for view in views if (planned := plan(view, limits))]
    damaged = Path(items[1].pieces[0].path)
    data = bytearray(damaged.read_bytes())
    data[items[1].pieces[0].position + 65] ^= 1
    damaged.write_bytes(data)
    results = dict(SparkRunner(spark).run(items, lambda size_bytes: None))
    assert [isinstance(results[number], Rewrite) for number in range(3)] == [True, False, True]
    assert isinstance(results[1], KeeperFailed)
    assert "CRC" in str(results[1])

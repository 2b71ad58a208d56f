"""Executors must have the stores before them that the keeper has, and what Holdfast needs."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import StoreFailed
from holdfast.keeper.jobs import RewriteJob, encode
from holdfast.keeper.plan import plan
from holdfast.keeper.task import rewrite
from holdfast.keeper.work import WorkItem
from holdfast.spark import rewrites
from holdfast.spark.reach import check_store, check_written
from holdfast.store.segment import segment_path
from tests.keeper.engine import Engine


@pytest.fixture
def item(tmp_path: Path) -> Iterator[WorkItem]:
    """A rewrite that is due on store 1 of two."""
    engine = Engine(tmp_path / "data", nodes=2)
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    (view,) = engine.gateway.list_views(1)
    planned = plan(view, engine.gateway.find_limits())
    assert planned is not None
    yield planned.item
    engine.end()


def test_a_store_that_is_there(item: WorkItem) -> None:
    """Nothing to say."""
    check_store(item)
    check_written(item, rewrite(item, seed=1))


def test_a_store_that_is_not_there(item: WorkItem, tmp_path: Path) -> None:
    """Nothing is made in its place, where a rewrite that reads nothing would make a directory."""
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(StoreFailed, match=r"elsewhere.*every Spark executor needs the stores' directories"):
        check_store(replace(item, directory=str(elsewhere), pieces=()))
    assert not elsewhere.exists()


def test_another_store_in_its_place(item: WorkItem) -> None:
    """Two machines may have different disks under one path."""
    with pytest.raises(StoreFailed, match="is store 2 there"):
        check_store(replace(item, directory=item.directory.replace("stores/1", "stores/2")))


@pytest.mark.parametrize("is_cut", [True, False])
def test_what_the_keeper_does_not_see_is_not_published(item: WorkItem, is_cut: bool) -> None:
    """Gone, or shorter than the executor said."""
    done = rewrite(item, seed=1)
    path = segment_path(Path(item.directory), done.added[0].file)
    if is_cut:
        path.write_bytes(b"short")
    else:
        path.unlink()
    with pytest.raises(StoreFailed, match=r"was written by an executor, and is not on"):
        check_written(item, done)


def test_tasks_and_results_are_looked_at(item: WorkItem, tmp_path: Path) -> None:
    """What runs on an executor fails for a store that is not there; what comes back unseen has failed, too."""
    lost = replace(item, directory=str(tmp_path / "elsewhere"))
    _, answer, failure = rewrites._run_one(0, encode(RewriteJob(item=lost)), seed=1)
    assert answer is None
    assert "every Spark executor needs" in str(failure)
    done = rewrite(item, seed=1)
    assert rewrites._seen(item, done) is done
    segment_path(Path(item.directory), done.added[0].file).unlink()
    assert isinstance(rewrites._seen(item, done), StoreFailed)


def test_a_python_that_lacks_something(item: WorkItem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task says what, and what to do about it."""
    monkeypatch.setitem(sys.modules, "holdfast.keeper.job_task", None)
    _, answer, failure = rewrites._run_one(0, encode(RewriteJob(item=item)), seed=1)
    assert answer is None
    assert "has no module 'holdfast.keeper.job_task': install there" in str(failure)

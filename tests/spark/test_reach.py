"""Executors and the keeper must have the same stores before them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import StoreFailed
from holdfast.keeper.plan import plan
from holdfast.keeper.task import rewrite
from holdfast.keeper.work import WorkItem
from holdfast.spark.reach import check_store, check_written
from holdfast.store.segment import segment_path
from tests.keeper.engine import Engine


@pytest.fixture
def item(tmp_path: Path) -> Iterator[WorkItem]:
    """A rewrite that is due on store 1 of two."""
    engine = Engine(tmp_path / "data", nodes=2)
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    (view,) = engine.gateway.list_views(1, 1)
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

"""Journals go when nobody needs them, and what holds them back is moved; deleted data is given back everywhere."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent.writes import DeleteTopic, MoveLogStart
from holdfast.keeper.limits import KeeperLimits
from tests.keeper.engine import Engine
from tests.keeper.space import (
    QUICK,
    Transaction,
    files,
    fill,
    lose_control_plane,
    read,
    rest,
    small_journals,
    usage,
)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """One store with small journals, where everything is due at once."""
    small_journals(monkeypatch)
    made = Engine(tmp_path / "data", nodes=1, limits=QUICK)
    yield made
    made.end()


def test_journals_go_when_two_snapshots_cover_them(engine: Engine) -> None:
    """One alone might turn out to be damaged; then the control plane is lost, and everything comes back."""
    key = engine.create("t", cleanup_policy="delete")
    fill(engine, key, 60)
    before = read(engine, key, 1, committed=True)
    journals = set(files(engine, 1, "journal"))
    assert len(journals) > 5
    engine.round()
    assert len(engine.cluster.stores.by_number[1].list_snapshots()) == 1
    assert set(files(engine, 1, "journal")) >= journals
    engine.round()
    assert len(engine.cluster.stores.by_number[1].list_snapshots()) == 2
    rest(engine)
    assert len(files(engine, 1, "journal")) <= 2
    assert len(engine.cluster.stores.by_number[1].list_snapshots()) == 2
    fill(engine, key, 3)
    after = read(engine, key, 1, committed=True)
    assert after[: len(before)] == before
    lose_control_plane(engine)
    assert read(engine, key, 1, committed=True) == after
    assert engine.append(key, (b"a", b"next")) == 63


def test_a_journal_in_use_stays_with_all_after_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open transaction in the first one: nothing behind it is settled, and carrying all of that frees nothing."""
    key = engine.create("t", cleanup_policy="delete")
    transaction = Transaction(engine)
    transaction.append(key, b"open")
    fill(engine, key, 40)
    journals = list(files(engine, 1, "journal"))
    before = read(engine, key, 1, committed=False)
    rest(engine)
    assert set(journals) <= set(files(engine, 1, "journal"))
    assert files(engine, 1, "carried") == {}
    assert read(engine, key, 1, committed=False) == before
    assert read(engine, key, 1, committed=True) == []


def test_what_holds_an_old_journal_back_is_carried(engine: Engine) -> None:
    """An open transaction among much that is settled: its batches move, both kinds of readers see what they saw."""
    key = engine.create("t", cleanup_policy="delete")
    held = engine.create("held", cleanup_policy="delete")
    transaction = Transaction(engine)
    transaction.append(held, b"one", b"two")
    engine.append(held, (b"k", b"behind"))
    fill(engine, key, 60)
    before = [read(engine, held, 1, committed=committed) for committed in (False, True)]
    assert [len(rows) for rows in before] == [2, 0]
    journals = set(files(engine, 1, "journal"))
    rest(engine)
    assert len(files(engine, 1, "carried")) == 1
    assert not journals & set(list(files(engine, 1, "journal"))[:-1])
    assert sum(files(engine, 1, "journal").values()) < 20_000
    assert [read(engine, held, 1, committed=committed) for committed in (False, True)] == before
    lose_control_plane(engine)
    assert [read(engine, held, 1, committed=committed) for committed in (False, True)] == before
    transaction = Transaction.resumed(engine, transaction)
    transaction.append(held, b"three")
    transaction.end(commit=True)
    rest(engine)
    assert files(engine, 1, "carried") == {}
    assert [value for _, _, value in engine.read(held, 1)] == [b"one", b"two", b"behind", b"three"]


def test_a_deleted_topic_leaves_nearly_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every store: segments with their folders, journals, and rows of the control plane."""
    small_journals(monkeypatch, 1 << 20)
    engine = Engine(tmp_path / "three", nodes=3, limits=QUICK)
    kept = engine.create("kept")
    engine.append(kept, (b"a", b"kept"))
    gone = engine.create("gone", 2, cleanup_policy="delete")
    fill(engine, gone, 50, value_bytes=20_000)
    engine.round()
    fill(engine, gone, 50, value_bytes=20_000)
    assert usage(engine.data)["journal"] > 6_000_000
    assert usage(engine.data)["segments"] > 3_000_000
    engine.call(lambda: engine.cluster.commits.submit(DeleteTopic(gone.topic_id)))
    engine.call(engine.cluster.expiry.expire)
    rest(engine)
    assert usage(engine.data)["segments"] < 10_000
    assert usage(engine.data)["journal"] + usage(engine.data)["carried"] < 60_000
    for store in (1, 2, 3):
        folders = [path.name for path in (engine.data / f"stores/{store}/segments").iterdir()]
        assert folders == [kept.topic_id.hex]
        assert len(engine.cluster.stores.by_number[store].list_snapshots()) == 2
        assert engine.read(kept, store) == [(0, b"a", b"kept")]
    engine.end()


def test_deleted_records_are_given_back(engine: Engine) -> None:
    """Of segments and journals alike; what is left is read as before."""
    key = engine.create("t", cleanup_policy="delete")
    fill(engine, key, 30)
    engine.round()
    fill(engine, key, 30)
    before = read(engine, key, 1, committed=True)
    engine.call(lambda: engine.cluster.commits.submit(MoveLogStart(key, 55)))
    rest(engine)
    assert read(engine, key, 1, committed=True) == before[55:]
    assert usage(engine.data)["journal"] < 20_000
    assert usage(engine.data)["segments"] < 10_000
    engine.call(lambda: engine.cluster.commits.submit(MoveLogStart(key, None)))
    rest(engine)
    assert usage(engine.data)["segments"] == 0
    assert list((engine.data / "stores/1/segments").iterdir()) == []


def test_the_last_journal_is_ended_when_little_of_it_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large and dead, it would stay until it is full; with much in it that is in use, it does stay."""
    engine = Engine(tmp_path / "data", nodes=1, limits=QUICK)
    key = engine.create("t", cleanup_policy="delete")
    held = engine.create("held", cleanup_policy="delete")
    transaction = Transaction(engine)
    transaction.append(held, bytes(40_000))
    fill(engine, key, 60)
    assert list(files(engine, 1, "journal")) == ["00000000000000000001.journal"]
    rest(engine)
    assert list(files(engine, 1, "journal")) == ["00000000000000000001.journal"]
    fill(engine, key, 60)
    fill(engine, key, 60)
    rest(engine)
    assert "00000000000000000001.journal" not in files(engine, 1, "journal")
    assert len(read(engine, held, 1, committed=False)) == 1
    engine.end()


def test_small_journals_do_not_cost_a_snapshot_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait until there are enough of them, or for long enough."""
    small_journals(monkeypatch)
    limits = KeeperLimits(settle_ms_max=0, collect_seconds=0.0, collect_bytes_min=1 << 20)
    engine = Engine(tmp_path / "data", nodes=1, limits=limits)
    key = engine.create("t", cleanup_policy="delete")
    fill(engine, key, 20)
    rest(engine)
    snapshots = engine.cluster.stores.by_number[1].list_snapshots()
    assert len(snapshots) == 1
    fill(engine, key, 20)
    rest(engine)
    assert engine.cluster.stores.by_number[1].list_snapshots() == snapshots
    hour_ago = time.time() - 3600
    os.utime(engine.cluster.stores.by_number[1].snapshot_path(snapshots[0]), (hour_ago, hour_ago))
    rest(engine)
    assert len(engine.cluster.stores.by_number[1].list_snapshots()) == 2
    engine.end()

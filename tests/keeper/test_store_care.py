"""Stores that operators fence, rebuild, remove and add replicas on, while a log is compacted."""

import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.rebuild import rebuild
from holdfast.control.replicas import StorePhase
from holdfast.errors import HoldfastError, StoreFailed, StoreOperationRefused
from holdfast.store import footer
from holdfast.store.footer import ProducerIdsAllotted
from holdfast.store.footers import read_footers
from holdfast.store.identity import read_identity
from holdfast.store.local import LocalStore
from tests.keeper.engine import Engine

OLD = [(b"a", b"old"), (b"b", b"old")]


def care(engine: Engine, work: Callable[[], Awaitable[None]]) -> None:
    engine.call(work)


def fill(engine: Engine) -> PartitionKey:
    key = engine.create("t", delete_retention_ms="0")
    engine.append(key, *OLD)
    engine.round()
    return key


def test_a_fenced_store_holds_nothing_back_and_does_not_serve(engine: Engine) -> None:
    """The minimum goes on without it at once; its node serves nothing, and there is no way back but a rebuild."""
    key = fill(engine)
    with engine.away(3):
        engine.append(key, (b"a", None))
        engine.round()
        assert engine.removal(key).removable.mtro == 2
        care(engine, lambda: engine.cluster.care.fence(3))
        assert engine.removal(key).removable.mtro == 3
        engine.round()
        assert engine.read(key, 1) == [(1, b"b", b"old")]
    engine.look()
    assert engine.phase(3) is StorePhase.FENCED
    with pytest.raises(HoldfastError):
        engine.read(key, 3)
    with pytest.raises(StoreOperationRefused, match="fenced already"):
        care(engine, lambda: engine.cluster.care.fence(3))


def test_a_rebuilt_store_has_what_the_others_have(engine: Engine) -> None:
    """It comes back under its next life, empty, and catches up; the old life's data does not come back with it."""
    key = fill(engine)
    with engine.away(3):
        engine.append(key, (b"a", None), (b"c", b"new"))
        care(engine, lambda: engine.cluster.care.fence(3))
        engine.round()
        engine.round()
        assert engine.table(key, 1) == {b"b": b"old", b"c": b"new"}
    care(engine, lambda: engine.cluster.care.rebuild(3))
    assert engine.phase(3) is StorePhase.JOINING
    assert read_identity(engine.data / "stores" / "3").incarnation == 2
    engine.append(key, (b"d", b"meanwhile"))
    engine.round()
    assert engine.phase(3) is StorePhase.IN_SYNC
    assert engine.table(key, 3) == engine.table(key, 1) == {b"b": b"old", b"c": b"new", b"d": b"meanwhile"}


def test_all_stores_can_be_rebuilt_one_after_the_other(engine: Engine) -> None:
    """None of them has frame 1 any more: what the control plane knew is in the snapshots that the others kept."""
    key = fill(engine)
    for store in (3, 2, 1):
        with engine.away(store):
            engine.append(key, (b"%d" % store, b"meanwhile"))
        care(engine, partial(engine.cluster.care.rebuild, store))
        engine.append(key, (b"%d" % store, b"after"))
        engine.round()
        assert engine.phase(store) is StorePhase.IN_SYNC
    tables = [engine.table(key, store) for store in (1, 2, 3)]
    engine.close()
    for file in engine.data.glob("control.db*"):
        file.unlink()
    engine.open()
    assert [engine.table(key, store) for store in (1, 2, 3)] == tables
    assert [engine.phase(store) for store in (1, 2, 3)] == [StorePhase.IN_SYNC] * 3


def test_a_store_is_not_emptied_while_nobody_keeps_what_it_knows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disks of the others are full: it is refused, and the store stays as it is."""
    key = fill(engine)
    with engine.away(3):
        engine.append(key, (b"x", b"1"))

    def fail(path: Path) -> int:
        raise StoreFailed(f"{path}: No space left on device")

    monkeypatch.setattr(engine.cluster.plane, "snapshot", fail)
    with pytest.raises(StoreOperationRefused, match="No space left"):
        care(engine, lambda: engine.cluster.care.rebuild(3))
    assert engine.phase(3) is StorePhase.AWAY
    assert read_identity(engine.data / "stores" / "3").incarnation == 1


def test_a_newcomer_counts_before_its_first_byte(engine: Engine) -> None:
    """While it copies, the others may not forget what it has yet to receive."""
    key = fill(engine)
    with engine.away(3):
        engine.append(key, (b"x", b"1"))
        care(engine, lambda: engine.cluster.care.fence(3))
    care(engine, lambda: engine.cluster.care.rebuild(3))
    mtro = engine.removal(key).removable.mtro
    engine.append(key, (b"b", None))
    assert [replica.store for replica in engine.removal(key).replicas] == [1, 2, 3]
    assert engine.removal(key).removable.mtro == mtro
    assert [replica.cleaned.mcco for replica in engine.removal(key).replicas if replica.store == 3] == [mtro]


def test_an_old_copy_of_a_store_does_not_serve(engine: Engine) -> None:
    """Put back after a rebuild, it is in an earlier life: refused by name."""
    key = fill(engine)
    path = engine.data / "stores" / "3"
    with engine.away(3):
        engine.append(key, (b"a", None))
        care(engine, lambda: engine.cluster.care.fence(3))
    path.rename(path.with_name("copy"))
    care(engine, lambda: engine.cluster.care.rebuild(3))
    engine.round()
    assert engine.phase(3) is StorePhase.IN_SYNC
    engine.close()
    path.rename(path.with_name("newer"))
    path.with_name("copy").rename(path)
    engine.open()
    assert engine.phase(3) is StorePhase.AWAY
    engine.look()
    assert engine.phase(3) is StorePhase.AWAY
    assert "rebuild 3" in engine.cluster.returning.reasons[3]


def test_the_last_replica_in_sync_cannot_be_spared(engine: Engine) -> None:
    """Neither fenced nor removed, and the partition is named."""
    fill(engine)
    with engine.away(2), engine.away(3):
        engine.append(engine.create("u"), (b"k", b"v"))
        for work in (engine.cluster.care.fence, engine.cluster.care.remove):
            with pytest.raises(StoreOperationRefused, match="only replica in sync of"):
                engine.wait_for(work(1))


def test_removed_and_put_elsewhere(engine: Engine) -> None:
    """A store gives its partitions up; a new replica on a store that is in sync copies while the others compact."""
    key = fill(engine)
    care(engine, lambda: engine.cluster.care.assign(key.topic_id, 0, (1, 2)))
    assert [replica.store for replica in engine.removal(key).replicas] == [1, 2]
    engine.append(key, (b"a", None), (b"e", b"5"))
    engine.round()
    engine.round()
    care(engine, lambda: engine.cluster.care.assign(key.topic_id, 0, (1, 2, 3)))
    assert engine.phase(3) is StorePhase.IN_SYNC
    assert engine.cluster.plane.find_partition(*key).joining == (3,)
    engine.append(key, (b"f", b"6"))
    engine.round()
    assert engine.cluster.plane.find_partition(*key).joining == ()
    assert engine.table(key, 3) == engine.table(key, 1)
    care(engine, lambda: engine.cluster.care.remove(1))
    assert engine.phase(1) is StorePhase.FENCED
    assert engine.table(key, 2) == {b"b": b"old", b"e": b"5", b"f": b"6"}


@pytest.mark.parametrize("begins", ["with frame 1", "before it came", "with its first frame"])
def test_a_store_that_was_added_later_is_in_sync_after_a_replay(engine: Engine, begins: str) -> None:
    """It has none of the frames from before it came, and lacks nothing all the same."""
    key = fill(engine)
    engine.close()
    before = (engine.data / "control.db").read_bytes()
    engine.open()
    store = engine.add_store()
    assert engine.phase(store) is StorePhase.IN_SYNC
    if begins != "with its first frame":
        care(engine, lambda: engine.cluster.care.assign(key.topic_id, 0, (1, 2, store)))
        engine.append(key, (b"c", b"new"))
        engine.round()
    tables = [engine.table(key, each) for each in (1, 2)]
    engine.close()
    for file in (*engine.data.glob("control.db*"), *engine.data.glob("stores/*/snapshot/*")):
        file.unlink()
    if begins == "before it came":
        (engine.data / "control.db").write_bytes(before)
    engine.open()
    assert {engine.phase(each) for each in (1, 2, 3, store)} == {StorePhase.IN_SYNC}
    assert [engine.table(key, each) for each in (1, 2)] == tables
    care(engine, lambda: engine.cluster.care.assign(key.topic_id, 0, (1, 2, store)))
    engine.round()
    assert engine.table(key, store) == tables[0]
    engine.close()
    assert rebuild(engine.data, store=None, on_frame=lambda number: None).in_sync == [1, 2, 3, store]
    engine.open()


@pytest.mark.parametrize("instead", [None, "a copy", "another store", "nothing"])
def test_a_store_that_was_moved_away_leaves(engine: Engine, instead: str | None) -> None:
    """Its journal is open and takes frames for as long as it is; the next look finds it out, before a rewrite does."""
    key = fill(engine)
    path = engine.data / "stores" / "3"
    moved = path.with_name("moved")
    engine.look()
    assert engine.phase(3) is StorePhase.IN_SYNC
    if instead == "nothing":
        moved.mkdir()
        for child in path.iterdir():
            child.rename(moved / child.name)
    else:
        path.rename(moved)
        if instead is not None:
            shutil.copytree(moved if instead == "a copy" else path.with_name("2"), path)
    engine.append(key, (b"c", b"new"))
    assert engine.phase(3) is StorePhase.IN_SYNC, "nobody could know"
    engine.look()
    assert engine.phase(3) is StorePhase.AWAY
    engine.append(key, (b"d", b"newer"))
    if instead is not None:
        shutil.rmtree(path)
    moved.rename(path)
    engine.look()
    engine.round()
    assert engine.phase(3) is StorePhase.IN_SYNC
    assert engine.table(key, 3) == engine.table(key, 1)


def test_the_last_store_in_sync_is_not_given_up(engine: Engine) -> None:
    """What is open is all that there is: writes go on, and it is whole when its directory is back."""
    key = fill(engine)
    path = engine.data / "stores" / "1"
    with engine.away(2), engine.away(3):
        engine.append(key, (b"c", b"new"))
        path.rename(path.with_name("moved"))
        engine.look()
        assert engine.append(key, (b"d", b"newer")) == 3
        path.with_name("moved").rename(path)
    engine.look()
    engine.round()
    assert {engine.phase(store) for store in (1, 2, 3)} == {StorePhase.IN_SYNC}
    assert engine.table(key, 2) == engine.table(key, 1)


def test_a_store_that_takes_no_writes_stays_away(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would leave again with the next frame, and so on for as long as its disk is full."""
    key = fill(engine)
    with engine.away(3):
        engine.append(key, (b"c", b"new"))

    def fail(store: LocalStore) -> None:
        raise StoreFailed(f"store {store.number} takes no writes: No space left on device")

    with monkeypatch.context() as full:
        full.setattr(LocalStore, "probe", fail)
        engine.look()
    assert engine.phase(3) is StorePhase.AWAY
    assert "No space left" in engine.cluster.returning.reasons[3]
    engine.look()
    assert engine.phase(3) is StorePhase.JOINING


def test_a_store_that_has_lost_a_segment_stays_away(engine: Engine) -> None:
    """Shortened or gone while it was away: it would serve a gap; the file is named, and put back it may come."""
    key = fill(engine)
    (segment,) = (engine.data / "stores" / "3").glob("segments/*/*/*.log")
    whole = segment.read_bytes()
    with engine.away(3):
        engine.append(key, (b"c", b"new"))
    for damage in (lambda: segment.write_bytes(whole[:-1]), segment.unlink):
        damage()
        engine.look()
        assert engine.phase(3) is StorePhase.AWAY
        assert segment.name in engine.cluster.returning.reasons[3]
    segment.write_bytes(whole)
    engine.look()
    engine.round()
    assert engine.phase(3) is StorePhase.IN_SYNC
    assert engine.table(key, 3) == engine.table(key, 1)


def test_what_nobody_recorded_is_cut_off_when_a_store_returns(engine: Engine) -> None:
    """A frame that it took alone was told to nobody, and its number was given again: nobody must find it there."""
    key = fill(engine)
    path = engine.data / "stores" / "3"
    number = engine.cluster.plane.find_applied() + 1
    untold = footer.encode([ProducerIdsAllotted(77_000)])
    with engine.away(3):
        moved = path.with_name("3.gone")
        alone = LocalStore(moved, store=3, cluster_id=read_identity(moved).cluster_id)
        assert not list(alone.replay(engine.cluster.plane.find_checkpoint(3)))
        alone.append(number, [], untold)
        alone.close()
        engine.append(key, (b"c", b"new"))
    engine.look()
    assert all(told != untold for _, told in read_footers(path))
    engine.round()
    tables = [engine.table(key, store) for store in (1, 2, 3)]
    engine.close()
    for file in (*engine.data.glob("control.db*"), *engine.data.glob("stores/*/snapshot/*")):
        file.unlink()
    engine.open()
    assert [engine.table(key, store) for store in (1, 2, 3)] == tables
    assert {engine.phase(store) for store in (1, 2, 3)} == {StorePhase.IN_SYNC}


def test_strangers_and_wrong_phases(engine: Engine) -> None:
    """What makes no sense is refused, and nothing happens."""
    fill(engine)
    for work, why in (
        (lambda: engine.cluster.care.fence(9), "no store 9"),
        (lambda: engine.cluster.care.rebuild(1), "only one that is away or fenced"),
    ):
        with pytest.raises(StoreOperationRefused, match=why):
            care(engine, work)


def test_a_store_that_is_gone_is_not_made_anew(engine: Engine) -> None:
    """Also one that was new when this process began: an empty directory would be in its way when it is back."""
    key = fill(engine)
    with engine.away(2), engine.away(3):
        engine.append(key, (b"a", b"new"))
        engine.look()
        assert not (engine.data / "stores" / "2").exists()
        assert "is not there" in engine.cluster.returning.reasons[2]
    engine.look()
    engine.round()
    assert engine.table(key, 2) == engine.table(key, 3) == {b"a": b"new", b"b": b"old"}

"""Grants checked on real stores: what the engine has done passes, and what was doctored on disk is found."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.partition_key import PartitionKey
from holdfast.errors import StoreFailed, UsageError
from holdfast.keeper.history import check_grants
from holdfast.store import footer, journal
from holdfast.store.file_header import FILE_HEADER_BYTES
from holdfast.store.footer import Change
from holdfast.store.journals import list_journals
from holdfast.store.replica_changes import Granted, KeeperLeased, SegmentsPublished
from tests.keeper.engine import Engine


def fill(engine: Engine) -> PartitionKey:
    """A store is away, another is fenced and rebuilt, replicas move; a delete is forgotten on the way."""
    key = engine.create("t", delete_retention_ms="0")
    engine.append(key, (b"a", b"old"), (b"b", b"old"))
    engine.round()
    with engine.away(3):
        engine.append(key, (b"a", None))
        engine.round()
        engine.call(lambda: engine.cluster.care.fence(3))
        engine.round()
        engine.append(key, (b"c", b"new"))
    engine.call(lambda: engine.cluster.care.rebuild(3))
    engine.round()
    engine.round()
    engine.call(lambda: engine.cluster.care.assign(key.topic_id, 0, (1, 3)))
    engine.append(key, (b"b", None))
    engine.round()
    engine.round()
    engine.call(lambda: engine.cluster.care.assign(key.topic_id, 0, (1, 2, 3)))
    engine.round()
    assert engine.table(key, 2) == {b"c": b"new"}
    return key


def rewrite(data: Path, store: int, edit: Callable[[int, list[Change]], list[Change]]) -> None:
    """Let the footers of a store's journals say something else; CRCs are made to fit."""
    for first in list_journals(data / "stores" / str(store)):
        path = data / "stores" / str(store) / "journal" / journal.journal_name(first)
        content = path.read_bytes()
        made, position = content[:FILE_HEADER_BYTES], FILE_HEADER_BYTES
        while position < len(content):
            frame = journal.read_frame(content, position)
            told = footer.encode(edit(frame.number, footer.decode(frame.footer)))
            body = content[frame.body_position : frame.body_position + frame.body_bytes]
            made += journal.frame_head(frame.number, len(body), len(told)) + body + journal.frame_tail(told)
            position = frame.end
        path.write_bytes(made)


def doctor(data: Path, store: int, wanted: Callable[[SegmentsPublished], bool], **fields: Any) -> int:
    """Change the first publication that is wanted; the number of its frame."""
    found: list[int] = []

    def edit(number: int, changes: list[Change]) -> list[Change]:
        edited: list[Change] = []
        for change in changes:
            if isinstance(change, SegmentsPublished) and wanted(change) and not found:
                found.append(number)
                edited.append(replace(change, **fields))
            else:
                edited.append(change)
        return edited

    rewrite(data, store, edit)
    (number,) = found
    return number


def test_what_the_engine_does_is_right(engine: Engine) -> None:
    """Through any store that has all of it, while the engine is running; nothing on disk is touched."""
    fill(engine)
    before = {path: path.read_bytes() for path in engine.data.rglob("*.journal")}
    found = check_grants(engine.data)
    assert (found.violation, found.snapshot, found.first_frame, found.partitions) == (None, None, 1, 1)
    assert found.last_frame == engine.cluster.plane.find_applied()
    assert found.rewrites >= 10
    assert found.store in (1, 2)
    assert check_grants(engine.data, store=1).rewrites == found.rewrites
    assert {path: path.read_bytes() for path in engine.data.rglob("*.journal")} == before


def test_a_store_that_was_away_begins_with_its_snapshot(engine: Engine) -> None:
    """Its journals have a gap; the snapshot that it was given when it had caught up stands for what is before."""
    fill(engine)
    found = check_grants(engine.data, store=3)
    assert found.violation is None
    assert found.snapshot is not None
    assert found.first_frame == found.snapshot + 1
    assert 0 < found.rewrites < check_grants(engine.data, store=1).rewrites


def test_what_lies_before_a_gap_is_not_continued(engine: Engine) -> None:
    """The store came back as it was: it has the first frames, but not those that it missed."""
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    engine.round()
    with engine.away(3):
        engine.append(key, (b"a", b"2"))
        engine.round()
    engine.look()
    engine.round()
    engine.append(key, (b"a", b"3"))
    engine.round()
    assert list_journals(engine.data / "stores" / "3")[0] == 1
    found = check_grants(engine.data, store=3)
    assert found.violation is None
    assert found.snapshot is not None
    assert found.first_frame == found.snapshot + 1
    assert 0 < found.rewrites < check_grants(engine.data, store=1).rewrites


def test_a_snapshot_that_the_frames_do_not_continue_is_no_start(tmp_path: Path) -> None:
    """One from before a frame that is gone, or from after the last, or as of another frame than its name says."""
    engine = Engine(tmp_path / "data")
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    plane, store = engine.cluster.plane, engine.cluster.stores.by_number[1]
    old = store.save_snapshot(plane.snapshot)
    engine.append(key, (b"a", b"2"))
    engine.round()
    fitting = store.save_snapshot(plane.snapshot)
    engine.append(key, (b"a", b"3"))
    engine.round()
    fitting_file, old_file = (store.snapshot_path(frame) for frame in (fitting, old))
    engine.end()
    cut_journal(engine.data / "stores" / "1", old + 2)
    assert check_grants(engine.data, store=1).snapshot == fitting
    fitting_file.with_suffix(".json").unlink()
    later_file = fitting_file.rename(fitting_file.with_name(f"{10**6:020d}.db"))
    with pytest.raises(StoreFailed, match="no snapshot stands for the frames before it"):
        check_grants(engine.data, store=1)
    # Put back by hand, under another name and without the seal that would tell.
    later_file.unlink()
    old_file.rename(fitting_file)
    with pytest.raises(StoreFailed, match=f"says that it is as of {old}"):
        check_grants(engine.data, store=1)


def test_early_journals_that_are_gone(tmp_path: Path) -> None:
    """The oldest snapshot that the rest continues is the start; without one that can be read there is none."""
    engine = Engine(tmp_path / "data")
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    engine.round()
    first_snapshot = engine.cluster.stores.by_number[2].save_snapshot(engine.cluster.plane.snapshot)
    engine.append(key, (b"a", b"2"))
    engine.round()
    engine.cluster.stores.by_number[1].save_snapshot(engine.cluster.plane.snapshot)
    engine.end()
    whole = check_grants(engine.data, store=1)
    cut_journal(engine.data / "stores" / "1", first_snapshot)
    found = check_grants(engine.data, store=1)
    assert (found.snapshot, found.first_frame) == (first_snapshot, first_snapshot + 1)
    assert (found.last_frame, found.partitions, found.violation) == (whole.last_frame, 1, None)
    assert (found.rewrites, whole.rewrites) == (3, 6)
    assert check_grants(engine.data).store != 1, "the others reach as far, and begin earlier"
    for damaged in engine.data.rglob("snapshot/*.db"):
        damaged.write_bytes(b"damaged")
    with pytest.raises(StoreFailed, match=f"store 1 begins with frame {first_snapshot}, and .* is damaged"):
        check_grants(engine.data, store=1)
    for folder in engine.data.rglob("snapshot"):
        shutil.rmtree(folder)
    with pytest.raises(StoreFailed, match="no snapshot stands for the frames before it"):
        check_grants(engine.data, store=1)


def cut_journal(store: Path, first: int) -> None:
    """Let a store's only journal begin with this frame."""
    (number,) = list_journals(store)
    path = store / "journal" / journal.journal_name(number)
    content, position = path.read_bytes(), FILE_HEADER_BYTES
    while (frame := journal.read_frame(content, position)).number < first:
        position = frame.end
    made = content[:FILE_HEADER_BYTES] + content[position:]
    path.with_name(journal.journal_name(first)).write_bytes(made)
    path.unlink()


def test_a_doctored_footer_is_found(tmp_path: Path) -> None:
    """On disk, with sound CRCs: a grant that nobody had covered; of two faults the first is told."""
    engine = Engine(tmp_path / "data")
    fill(engine)
    engine.end()
    doctor(engine.data, 1, lambda change: change.store == 2 and change.grant.mtro > 0, lease=77)
    number = doctor(
        engine.data, 1, lambda change: change.store == 1 and change.generation == 1, grant=Granted(1, 0, 1)
    )
    found = check_grants(engine.data, store=1).violation
    assert found is not None
    assert (found.frame, found.topic, found.partition, found.store) == (number, "t", 0, 1)
    assert found.why == "was granted MTRO 1, MXRO 0, while the members' reports allowed MTRO 0, MXRO 0"
    assert check_grants(engine.data, store=2).violation is None, "the other store says what was"


def test_a_frame_that_was_refused_is_left_out(tmp_path: Path) -> None:
    """A lease that is given twice: the first time did not count, and what shared its frame neither."""
    engine = Engine(tmp_path / "data")
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    engine.round()
    engine.end()

    too_early = KeeperLeased(1, 1)
    rewrite(engine.data, 1, lambda number, changes: [too_early, *changes] if number == 1 else changes)
    found = check_grants(engine.data, store=1)
    assert found.void_frames == 1
    assert found.violation is not None, "the topic was created in the frame that is void"
    assert "does not hold" in found.violation.why


def test_nothing_to_check(tmp_path: Path, engine: Engine) -> None:
    """What is no data directory, or has no such store, is said to be none."""
    with pytest.raises(UsageError, match="no stores with journals"):
        check_grants(tmp_path / "none")
    engine.create("t")
    with pytest.raises(UsageError, match=r"--store 9: .* has stores 1, 2, 3"):
        check_grants(engine.data, store=9)

"""Files that nobody needs go, and no others: on real stores, through the desk, whoever holds the lease."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.agent import space
from holdfast.agent.writes import DeleteTopic
from holdfast.control.replicas import StorePhase
from holdfast.errors import CommitRefused, StoreFailed
from holdfast.keeper import collector
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.messages import CarriedPublication, Publication
from holdfast.keeper.round import Round
from holdfast.keeper.runner import Done, InProcessRunner, Progress
from holdfast.keeper.work import WorkItem
from holdfast.store.carried import CarriedWriter, carried_number
from holdfast.store.segment import SegmentWriter, segment_file
from holdfast.store.segments import delete_segment
from tests.keeper.engine import Engine
from tests.keeper.space import GRACE_SECONDS, QUICK, Clock, files, fill, read, rest, segments_on_disk


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """One store, where everything is due at once."""
    made = Engine(tmp_path / "data", nodes=1, limits=QUICK)
    yield made
    made.end()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Engine]:
    """One that gives readers their time."""
    limits = KeeperLimits(settle_ms_max=0, collect_seconds=GRACE_SECONDS)
    made = Engine(tmp_path / "patient", nodes=1, limits=limits)
    yield made
    made.end()


def test_replaced_segments_go(engine: Engine) -> None:
    """What is on disk is what the control plane names, with an index each, and readers see what they saw."""
    key = engine.create("t")
    written = set()
    for value in (b"one", b"two", b"three"):
        engine.append(key, (b"a", value), (b"b", value))
        engine.round()
        written |= segments_on_disk(engine, 1)
    assert len(written) == 3
    before = engine.read(key, 1)
    rest(engine)
    named = engine.cluster.plane.list_files(1)
    assert segments_on_disk(engine, 1) == named
    assert len(files(engine, 1, "segments")) == 2 * len(named)
    assert engine.read(key, 1) == before
    assert not engine.call(engine.cluster.desk.is_anything_due)


def test_readers_are_given_time_since_nobody_needs_a_file(
    patient: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From when that is seen first, however long ago the file was written."""
    clock = Clock(patient, monkeypatch)
    key = patient.create("t")
    patient.append(key, (b"a", b"one"))
    patient.round()
    (old,) = segments_on_disk(patient, 1)
    os.utime(patient.data / "stores/1/segments" / old, (0, 0))
    clock.seconds += 10 * GRACE_SECONDS
    patient.append(key, (b"a", b"two"))
    assert patient.round().rewrites == 1
    clock.seconds += GRACE_SECONDS - 1
    patient.round()
    assert old in segments_on_disk(patient, 1)
    # A hint is renewed after half of the time.
    clock.seconds += GRACE_SECONDS / 2
    patient.round()
    assert segments_on_disk(patient, 1) == patient.cluster.plane.list_files(1)


def test_files_of_the_lease_in_force_stay(engine: Engine) -> None:
    """They may be published at any moment. Once another lease is taken, nobody can."""
    key = engine.create("t")
    other = Gateway(engine._ask, holder="other")
    lease = other.lease(1)
    assert lease is not None
    unpublished = segment_file(key.topic_id, 0, 0, lease, "unpublished")
    left = segment_file(key.topic_id, 0, 0, lease - 1, "left")
    directory = engine.data / "stores/1"
    for file in (unpublished, left):
        SegmentWriter(directory, file).finish()
    for number in (carried_number(lease, 0), carried_number(lease - 1, 0)):
        CarriedWriter(directory, number).finish()
    Round(other, lambda size_bytes: InProcessRunner())._collect()
    assert segments_on_disk(engine, 1) == {unpublished}
    assert len(files(engine, 1, "carried")) == 1
    assert not engine.call(engine.cluster.desk.is_anything_due)
    assert engine.round().stores_skipped == []
    other.release(1)
    assert engine.call(engine.cluster.desk.is_anything_due)
    engine.round()
    assert segments_on_disk(engine, 1) == set()
    assert files(engine, 1, "carried") == {}


def test_what_was_published_after_a_look_stays(patient: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite may take longer than readers are given: what is deleted was looked at under the lease."""
    clock = Clock(patient, monkeypatch)
    key = patient.create("t")
    old = segment_file(key.topic_id, 0, 0, 0, "old")
    SegmentWriter(patient.data / "stores/1", old).finish()
    patient.append(key, (b"a", b"one"))
    publish = patient.gateway.publish

    def take_long(publications: Sequence[Publication]) -> Iterator[str | None]:
        (publication,) = (each for each in publications if each.store == 1)
        patient.gateway.find_files(1)
        clock.seconds += GRACE_SECONDS
        found = patient.gateway.find_files(1)
        assert {each.seconds for each in found.segments} == {GRACE_SECONDS}
        assert {each.file for each in found.segments} == {old, publication.added[0].file}
        return publish(publications)

    monkeypatch.setattr(patient.gateway, "publish", take_long)
    monkeypatch.setattr(Round, "_collect", lambda self: None)
    assert patient.round().rewrites == 1
    monkeypatch.undo()
    Clock(patient, monkeypatch).seconds = clock.seconds
    patient.round()
    assert segments_on_disk(patient, 1) == patient.cluster.plane.list_files(1)
    assert patient.read(key, 1) == [(0, b"a", b"one")]


def test_who_lost_the_lease_cannot_publish_and_its_files_go(engine: Engine) -> None:
    """It was paused while it wrote, and another keeper has had the store since."""
    key = engine.create("t")
    engine.append(key, (b"a", b"one"))
    other = Gateway(engine._ask, holder="other")

    class Paused(InProcessRunner):
        def run(self, items: Sequence[WorkItem], on_progress: Progress) -> Iterator[Done]:
            for each in super().run(items, on_progress):
                engine.gateway.release(1)
                assert other.lease(1) == 2
                yield each

    report = Round(engine.gateway, lambda size_bytes: Paused()).run()
    assert (report.rewrites, report.refused, report.stores_skipped) == (0, 1, [1])
    assert len(segments_on_disk(engine, 1)) == 1
    assert engine.cluster.plane.list_files(1) == set()
    with pytest.raises(CommitRefused, match="lease of store 1 is 2, not 1"):
        engine.gateway.find_files(1, 1)
    other.release(1)
    rest(engine)
    assert segments_on_disk(engine, 1) == engine.cluster.plane.list_files(1)
    assert engine.read(key, 1) == [(0, b"a", b"one")]


def test_only_segments_of_its_lease_are_published(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one that is about to be deleted could be given a name."""
    key = engine.create("t")
    engine.append(key, (b"a", b"one"))
    publish = engine.gateway.publish

    def publish_older(publications: Sequence[Publication]) -> Iterator[str | None]:
        (publication,) = publications
        older = [replace(each, file=each.file.replace(".1-", ".0-")) for each in publication.added]
        return publish([replace(publication, added=older)])

    monkeypatch.setattr(engine.gateway, "publish", publish_older)
    assert engine.round().refused == 1
    assert engine.cluster.plane.list_files(1) == set()


def test_only_carried_files_of_its_lease_are_published(engine: Engine) -> None:
    """The same for batches that were carried."""
    key = engine.create("t")
    engine.append(key, (b"a", b"one"))
    lease = engine.gateway.lease(1)
    assert lease is not None
    carried = CarriedPublication(
        store=1,
        incarnation=1,
        lease=lease,
        file=carried_number(lease, 0),
        extents=[(key.topic_id.hex, 0, 0, 44)],
    )
    refused = engine.gateway.publish_carried(replace(carried, file=carried_number(lease - 1, 0)))
    assert refused == "the file is none of the lease 1"
    assert engine.gateway.publish_carried(carried) is None


def test_nothing_due_costs_nothing(engine: Engine) -> None:
    """No lease, no frame, and no look at the disk each time that somebody asks."""
    key = engine.create("t")
    engine.append(key, (b"a", b"one"))
    rest(engine)
    frame = engine.cluster.commits.last_frame
    assert not engine.call(engine.cluster.desk.is_anything_due)
    report = engine.round()
    assert not report.did_anything
    assert engine.cluster.commits.last_frame == frame


def test_a_look_is_not_made_again_at_once(patient: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only after half of the time that readers have."""
    clock = Clock(patient, monkeypatch)
    looks: list[int] = []
    listed = patient.cluster.plane.list_files

    def list_files(store: int) -> set[str]:
        looks.append(store)
        return listed(store)

    monkeypatch.setattr(patient.cluster.plane, "list_files", list_files)
    for _ in range(5):
        assert not patient.call(patient.cluster.desk.is_anything_due)
    assert looks == [1]
    clock.seconds += GRACE_SECONDS / 2
    assert not patient.call(patient.cluster.desk.is_anything_due)
    assert looks == [1, 1]


def test_deleted_files_are_let_go_of(engine: Engine) -> None:
    """Their space is free when nobody has them open: readers of this process neither."""
    key = engine.create("t", cleanup_policy="delete")
    fill(engine, key, 20)
    engine.round()
    read(engine, key, 1, committed=True)
    assert any(str(engine.data) in target for target in _open_files())
    engine.call(lambda: engine.cluster.commits.submit(DeleteTopic(key.topic_id)))
    rest(engine)
    assert [target for target in _open_files() if str(engine.data) in target and "(deleted)" in target] == []


def _open_files() -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return found


def test_one_store_that_fails_does_not_harm_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be deleted there is reported, and deleted here."""
    engine = Engine(tmp_path / "two", nodes=2, limits=QUICK)
    key = engine.create("t")
    engine.append(key, (b"a", b"one"))
    engine.round()

    def delete(directory: Path, file: str) -> int:
        if directory.name == "1":
            raise StoreFailed("Read-only file system")
        return delete_segment(directory, file)

    monkeypatch.setattr(collector, "delete_segment", delete)
    engine.append(key, (b"a", b"two"))
    report = engine.round()
    assert (report.rewrites, report.failed) == (2, 1)
    assert len(segments_on_disk(engine, 1)) == 2
    assert segments_on_disk(engine, 2) == engine.cluster.plane.list_files(2)
    engine.end()


def test_a_store_that_joins_gives_orphans_back_and_keeps_its_journals(tmp_path: Path) -> None:
    """What interrupted copies have left; but what it holds itself, it has yet to show."""
    engine = Engine(tmp_path / "three", nodes=3, limits=QUICK)
    key = engine.create("t", cleanup_policy="delete")
    engine.append(key, (b"a", b"one"))
    with engine.away(3):
        engine.append(key, (b"b", b"two"))
    engine.look()
    assert engine.phase(3) is StorePhase.JOINING
    directory = engine.data / "stores/3"
    SegmentWriter(directory, segment_file(key.topic_id, 0, 0, 0, "left")).finish()
    found = engine.gateway.find_files(3)
    assert [each.file for each in found.segments] == [segment_file(key.topic_id, 0, 0, 0, "left")]
    engine.round()
    rest(engine)
    assert segments_on_disk(engine, 3) == engine.cluster.plane.list_files(3)
    with engine.away(3):
        engine.append(key, (b"c", b"three"))
        assert engine.phase(3) is StorePhase.AWAY
        with pytest.raises(CommitRefused, match="store 3 is not here"):
            engine.gateway.find_files(3)
        assert not engine.cluster.desk._space.is_anything_due(engine.cluster.plane.list_stores()[2])
    engine.end()


def test_very_many_files_go_in_several_rounds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer has its bounds; those that have been unused for longest come first."""
    monkeypatch.setattr(space, "FILES_MAX", 2)
    key = engine.create("t")
    for number in range(5):
        SegmentWriter(engine.data / "stores/1", segment_file(key.topic_id, 0, number, 0, "left")).finish()
        CarriedWriter(engine.data / "stores/1", carried_number(0, number)).finish()
        found = engine.gateway.find_files(1)
        assert [each.file for each in found.segments] == [
            segment_file(key.topic_id, 0, each, 0, "left") for each in range(min(number + 1, 2))
        ]
    engine.round()
    assert len(segments_on_disk(engine, 1)) == len(files(engine, 1, "carried")) == 3
    rest(engine)
    assert segments_on_disk(engine, 1) == set()
    assert files(engine, 1, "carried") == {}


def test_questions_about_strangers_are_refused(engine: Engine) -> None:
    """Nothing happens to anybody."""
    for ask in (
        lambda: engine.gateway.find_files(9),
        lambda: engine.gateway.find_files(9, 1),
        lambda: engine.gateway.list_live(9, 100),
        lambda: engine.gateway.roll(9),
        lambda: engine.gateway.save_snapshot(9),
        lambda: engine.gateway.delete_journals(9),
    ):
        with pytest.raises(CommitRefused, match="store 9 is not here"):
            ask()


def test_folders_that_a_crash_left_go(engine: Engine) -> None:
    """Empty ones; one with something in it stays, whatever that is."""
    root = engine.data / "stores/1/segments"
    (root / ("a" * 32) / "0").mkdir(parents=True)
    (root / ("b" * 32)).mkdir()
    (root / ("c" * 32) / "0").mkdir(parents=True)
    (root / ("c" * 32) / "0" / "notes.txt").touch()
    assert engine.call(engine.cluster.desk.is_anything_due)
    engine.round()
    assert [path.name for path in root.iterdir()] == ["c" * 32]

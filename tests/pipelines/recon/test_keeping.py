"""Fingerprints kept on a real log: whoever dies when, and whatever comes again, they are those of what is there."""

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.reader import OffsetRange
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.errors import ConnectionFailed, InvalidProducerEpoch, ProducerFenced
from holdfast.pipelines.config import DAY_MS, EndState
from holdfast.pipelines.recon import close, looking
from holdfast.pipelines.recon.close import Desk, where_to_look
from holdfast.pipelines.recon.day import DayState, PartitionView
from holdfast.pipelines.recon.keeping import KEPT_MS, Keeper
from holdfast.pipelines.recon.kept import Kept, read_kept, topic_of
from holdfast.pipelines.recon.known import Known, kept_of, know_day
from holdfast.pipelines.recon.looking import pieces_of_day, sum_up, view_partitions
from holdfast.pipelines.recon.reading import INGESTED, LATE, read_piece
from holdfast.spark.reconcile import Geometry, Group
from tests.pipelines.recon.scenes import DAY, Scene

Q, N, F = EndState
NOON = DAY.start_ms + 43_200_000
NO_SPARK = cast("SparkSession", None)
"""So few records are read in this process."""


class Book:
    """A scene, and whoever keeps its fingerprints."""

    def __init__(self, cluster: Cluster, directory: Path, name: str) -> None:
        self.scene = Scene(cluster, directory, name)
        self.scene.create_topics()
        self.desk = Desk(session=NO_SPARK, cluster=cluster, pipeline=self.scene.pipeline, tasks=3)
        self._keepers: list[Keeper] = []

    def keeper(self, *, at_ms: int = DAY.end_ms) -> Keeper:
        """A new one, as after a start."""
        made = Keeper(self.scene.pipeline, tasks=2, clock=lambda: at_ms / 1000)
        self._keepers.append(made)
        return made

    def ranges(self, *, since: int = 0) -> list[OffsetRange]:
        """All that is there, as a micro-batch of a new checkpoint has it."""
        views = view_partitions(self.desk.cluster, self.scene.pipeline)
        return [
            OffsetRange(
                topic=view.topic, partition=view.partition, start=min(since, view.read_to), end=view.read_to
            )
            for view in views
        ]

    def keep(self, keeper: Keeper) -> None:
        keeper.keep(NO_SPARK, self.ranges())

    def kept(self) -> Kept:
        found = read_kept(self.desk.cluster, self.scene.pipeline, lambda _: True)
        assert found is not None
        return found

    def know(self, tenant: str = "acme") -> Known:
        kept = kept_of(self.desk, tenant, DAY)
        return know_day(self.desk, tenant, DAY, view_partitions(self.desk.cluster, self.scene.pipeline), kept)

    def check(self, tenant: str = "acme") -> None:
        """What is known of the day are the cells of all that is there, and where to look is where it differs."""
        views = view_partitions(self.desk.cluster, self.scene.pipeline)
        coverage = self.kept().coverage
        geometry = Geometry(seed=coverage.seed, bucket_bits=coverage.bucket_bits)
        pieces = pieces_of_day(self.scene.pipeline, views, DAY, tenant=tenant, tasks=1)
        wanted = sum_up(NO_SPARK, pieces, geometry, tasks=1).cells
        known = self.know(tenant).cells
        assert known.seed == coverage.seed, "the day was read again"
        assert {group: known.count(group) for group in known.groups} == {
            group: wanted.count(group) for group in wanted.groups
        }
        for group in wanted.groups:
            assert (known.cells(group) == wanted.cells(group)).all()

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.close()


@pytest.fixture
def book(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Book]:
    made = Book(cluster, tmp_path, f"keep-{request.node.name.removeprefix('test_')[:40]}")
    made.scene.run("acme", [f"id-{number}" for number in range(90)])
    made.scene.run("birch", [f"id-{number}" for number in range(9)])
    made.scene.write()
    yield made
    made.close()


def test_what_is_kept_and_what_has_come_since_make_up_the_day(book: Book) -> None:
    keeper = book.keeper()
    book.keep(keeper)
    book.check()
    assert not where_to_look(book.know().cells, "acme", DAY, book.desk.law)
    book.scene.ingest("acme", "lost", NOON)
    book.scene.audit("acme", "id-3", NOON, N, arrived_ms=DAY.seal_ms)
    book.scene.write()
    book.check()
    book.keep(keeper)
    book.check()
    book.check("birch")
    found = where_to_look(book.know().cells, "acme", DAY, book.desk.law)
    assert {group.window for group in found} == {NOON}
    assert Group("acme", LATE, NOON) in found


def test_the_exact_look_reads_the_records_of_a_group_once_and_no_whole_day(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "PIECE_OFFSETS_MAX", 7)
    for start in range(0, 60, 7):  # in many small micro-batches, two keepers taking turns
        keeper = book.keeper()
        for found in book.ranges():
            keeper.keep(NO_SPARK, [replace(found, end=min(found.end, start + 7))])
    book.keep(book.keeper())
    book.scene.ingest("acme", "since", NOON)
    book.scene.write()
    known = book.know()
    for windows in ([NOON], list(DAY.windows)):
        groups = [Group("acme", INGESTED, window) for window in windows]
        pieces = known.holding(groups)
        rows = [row for piece in pieces for batch in read_piece(piece) for row in batch.to_pylist()]
        seen = Counter(
            row["identity"] for row in rows if Group("acme", row["stage"], row["window"]) in groups
        )
        assert set(seen.values()) == {1}
        assert len(seen) == sum(map(known.cells.count, groups))
    pieces = known.holding([Group("acme", INGESTED, NOON)])
    assert looking.count_offsets(pieces) < sum(found.end for found in book.ranges()) / 4


def test_what_comes_again_counts_once_also_for_the_next_keeper(book: Book) -> None:
    keeper = book.keeper()
    book.keep(keeper)
    book.keep(keeper)
    book.scene.run("acme", [f"more-{number}" for number in range(9)])
    book.scene.write()
    book.keep(book.keeper())
    book.check()
    assert len({each.part for each in book.kept().sums}) == 2


def test_a_keeper_that_dies_before_its_commit_has_counted_nothing(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(producer: TransactionalProducer) -> None:
        raise ConnectionFailed("the keeper died")

    with monkeypatch.context() as patched:
        patched.setattr(TransactionalProducer, "commit", die)
        with pytest.raises(ConnectionFailed):
            book.keep(book.keeper())
    assert read_kept(book.desk.cluster, book.scene.pipeline, lambda _: True) is None
    book.keep(book.keeper())
    book.check()


def test_a_commit_whose_answer_was_lost_counts_once(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = TransactionalProducer.commit

    def lose_answer(producer: TransactionalProducer) -> None:
        commit(producer)
        raise ConnectionFailed("the answer was lost")

    keeper = book.keeper()
    with monkeypatch.context() as patched:
        patched.setattr(TransactionalProducer, "commit", lose_answer)
        with pytest.raises(ConnectionFailed):
            book.keep(keeper)
    book.check()
    book.keep(keeper)
    book.check()


class Failing:
    """A micro-batch that Spark does not give out, and how often it was asked for it."""

    def __init__(self, *told: str) -> None:
        self.told = list(told)
        self.asked = 0

    def collect(self) -> list[object]:
        said = self.told[self.asked]
        self.asked += 1
        raise Py4JError(said)


def test_a_batch_that_fails_is_tried_again_unless_its_query_is_stopped(
    book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    """What led to it is told in a line: Java's own account of it takes two screens."""
    java = "An error occurred while calling o1.collectToPython.\n: "
    lost = f"{java}java.io.IOException: the disk is full\n" + "\tat org.apache.spark.Somewhere\n" * 100
    frame = Failing(lost, f"{java}java.lang.InterruptedException\n", lost)
    with pytest.raises(Py4JError, match="InterruptedException"):
        book.keeper()(cast("DataFrame", frame), 3)
    assert frame.asked == 2
    assert [record.getMessage() for record in caplog.records] == [
        "fingerprints of batch 3, attempt 1 of 4: IOException: the disk is full"
    ]


def test_of_two_keepers_the_older_one_cannot_write(book: Book) -> None:
    old, new = book.keeper(), book.keeper()
    old.keep(NO_SPARK, book.ranges()[:1])
    new.keep(NO_SPARK, book.ranges()[:2])
    with pytest.raises((ProducerFenced, InvalidProducerEpoch)):
        book.keep(old)
    book.keep(new)
    book.check()


def test_a_day_that_fits_not_what_is_kept_is_read_again(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    book.keep(book.keeper())
    seed = book.kept().coverage.seed
    assert book.know().cells.seed == seed
    views = view_partitions(book.desk.cluster, book.scene.pipeline)
    later = replace(DAY, lateness_ms=60_000)
    other = know_day(book.desk, "acme", later, views, kept_of(book.desk, "acme", later))
    assert other.cells.seed != seed
    assert sum(other.cells.count(group) for group in other.cells.groups if group.stage == INGESTED) == 90


def test_a_keeper_that_goes_on_during_a_look_spoils_nothing(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it counts meanwhile reaches beyond the look, and the day would be read again."""
    keeper = book.keeper()
    book.keep(keeper)
    told: list[str] = []

    def look(*about: Any, **how: Any) -> list[PartitionView]:
        views = view_partitions(*about, **how)
        book.scene.run("acme", ["later"])
        book.scene.write()
        book.keep(keeper)
        return views

    monkeypatch.setattr(close, "view_partitions", look)
    monkeypatch.setattr(close, "held_beside", lambda *about: nullcontext())
    desk = replace(book.desk, on_progress=told.append)
    assert close.close_day(desk, "acme", DAY, now_ms=DAY.end_ms + DAY_MS).state is DayState.CLOSED
    assert "fingerprints of 0 offsets that are not kept" in told


def test_old_windows_are_struck_out_and_their_days_read_again(book: Book) -> None:
    book.keep(book.keeper())
    book.scene.ingest("acme", "of-today", DAY.end_ms + KEPT_MS + DAY_MS)
    book.scene.write()
    book.keep(book.keeper(at_ms=DAY.end_ms + KEPT_MS + DAY_MS))
    kept = book.kept()
    assert {each.group.window for each in kept.sums} == {DAY.end_ms + KEPT_MS + DAY_MS}
    known = book.know()
    assert known.cells.seed != kept.coverage.seed
    assert sum(known.cells.count(group) for group in known.cells.groups if group.stage == INGESTED) == 90


def test_what_lies_before_the_coverage_is_read(book: Book) -> None:
    """A keeper that began in the middle: whatever their times, records before it may be the day's."""
    book.keeper().keep(NO_SPARK, book.ranges(since=20))
    book.check()


def test_of_a_day_that_was_counted_before_a_hole_nothing_counts_twice(book: Book) -> None:
    """What is in the sums lies before the coverage now, and would be read again with all that does."""
    book.keep(book.keeper())
    ends = {(found.topic, found.partition): found.end for found in book.ranges()}
    book.scene.run("acme", [f"more-{number}" for number in range(30)])
    book.scene.write()
    behind = [
        replace(found, start=ends[found.topic, found.partition] + 1)
        for found in book.ranges()
        if found.end > ends[found.topic, found.partition] + 1
    ]
    book.keeper().keep(NO_SPARK, behind)
    known = book.know()
    assert known.cells.seed != book.kept().coverage.seed
    assert sum(known.cells.count(group) for group in known.cells.groups if group.stage == INGESTED) == 120


def test_nothing_kept_is_no_hindrance(book: Book) -> None:
    assert topic_of(book.scene.pipeline) not in book.desk.cluster.metadata([]).topics
    assert sum(book.know().cells.count(group) for group in book.know().cells.groups) > 0


def test_a_seed_is_drawn_for_each_reading_so_that_nobody_can_choose_ids_that_cancel(book: Book) -> None:
    assert book.know().cells.seed != book.know().cells.seed

"""Topics that are deleted and made anew under their names: what was counted of the old ones says nothing of the new."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.reader import OffsetRange
from holdfast.client.topics import delete_topics
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.errors import UnknownTopicOrPartition
from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.close import close_day
from holdfast.pipelines.recon.day import DayState
from holdfast.pipelines.recon.keeping import Keeper, transactional_id
from holdfast.pipelines.recon.kept import COVERAGE_KEY, encode_coverage, ensure_topic, topic_of
from holdfast.pipelines.recon.known import fits
from holdfast.pipelines.recon.looking import view_partitions
from holdfast.pipelines.recon.reading import Piece
from holdfast.records.build import Record
from holdfast.spark.reconcile import Scanned
from tests.pipelines.recon.scenes import DAY
from tests.pipelines.recon.test_keeping import Book

N = EndState.NOT_QUALIFIED
MESSAGES = 40
HOUR_MS = 3_600_000
WRONG = (DayState.OPEN, ("5 missing", "5 duplicate"))
CLOSED = (DayState.CLOSED, ())


@pytest.fixture
def book(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Book]:
    made = Book(cluster, tmp_path, f"anew-{request.node.name.removeprefix('test_')[:40]}")
    write(made)
    yield made
    made.close()


def write(book: Book, *, wrong: int = 0) -> None:
    """As many records each time, of which the first are lost and the last doubled."""
    ends = [*range(wrong, MESSAGES), *range(MESSAGES - wrong, MESSAGES)]
    for number in range(MESSAGES):
        book.scene.ingest("acme", f"id-{number}", DAY.start_ms + number * HOUR_MS // 2)
    for number in ends:
        book.scene.audit("acme", f"id-{number}", DAY.start_ms + number * HOUR_MS // 2, N)
    book.scene.write()


def close(book: Book, spark: SparkSession) -> tuple[DayState, tuple[str, ...], bool]:
    """The verdict, and whether it rests on what is kept."""
    told: list[str] = []
    desk = replace(book.desk, session=spark, on_progress=told.append)
    verdict = close_day(desk, "acme", DAY)
    return verdict.state, verdict.reasons, told[0].endswith("that are not kept")


def test_what_was_counted_of_topics_that_are_gone_closes_no_day_of_others(
    book: Book, spark: SparkSession
) -> None:
    keeper = book.keeper()
    book.keep(keeper)
    assert close(book, spark) == (*CLOSED, True)
    before = book.kept().coverage
    book.scene.make_anew()
    write(book, wrong=5)
    assert close(book, spark) == (*WRONG, False)
    book.keep(keeper)
    assert book.kept().coverage.life != before.life
    assert close(book, spark) == (*WRONG, True)
    book.scene.make_anew()
    write(book)
    book.keep(book.keeper())  # one that was away meanwhile
    assert close(book, spark) == (*CLOSED, True)


def test_coverage_that_does_not_say_of_which_topics_it_is_covers_nothing(
    book: Book, spark: SparkSession, cluster: Cluster
) -> None:
    """As the first keepers wrote it, and as keepers write it where brokers tell no ids."""
    book.keep(book.keeper())
    coverage = book.kept().coverage
    for topic_ids in ({}, dict.fromkeys(coverage.topic_ids)):
        producer = TransactionalProducer(cluster, transactional_id(book.scene.pipeline))
        producer.init()
        producer.begin()
        value = encode_coverage(replace(coverage, topic_ids=topic_ids))
        producer.send(topic_of(book.scene.pipeline), 0, [Record(key=COVERAGE_KEY, value=value)])
        producer.commit()
        assert close(book, spark) == (*CLOSED, False)
    views = [replace(view, topic_id=None) for view in view_partitions(cluster, book.scene.pipeline)]
    assert not fits(book.kept(), DAY, views)
    book.keep(book.keeper())
    assert close(book, spark) == (*CLOSED, True)


def test_what_was_counted_while_topics_were_made_anew_is_not_kept(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Keeper._count

    def count_between(keeper: Keeper, session: SparkSession, fresh: list[OffsetRange]) -> Scanned[Piece]:
        made = count(keeper, session, fresh)
        book.scene.make_anew()
        write(book, wrong=5)
        return made

    keeper = book.keeper()
    with monkeypatch.context() as patched:
        patched.setattr(Keeper, "_count", count_between)
        with pytest.raises(UnknownTopicOrPartition, match="made anew"):
            book.keep(keeper)
    book.keep(keeper)
    book.check()


def test_a_keeper_whose_own_topic_was_made_anew_counts_all_of_it_again(book: Book, cluster: Cluster) -> None:
    """It has written what covers everything, else, with the sums of what came since alone."""
    keeper = book.keeper()
    book.keep(keeper)
    assert not any(delete_topics(cluster, [topic_of(book.scene.pipeline)]).values())
    ensure_topic(cluster, book.scene.pipeline)
    book.scene.ingest("acme", "since", DAY.start_ms)
    book.scene.write()
    book.keep(keeper)
    book.check()

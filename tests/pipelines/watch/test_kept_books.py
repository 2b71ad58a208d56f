"""Kept fingerprints followed on a real log: windows that do not balance, and what a day has cost, in every mode."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.pipelines.config import EndState, Mode
from holdfast.pipelines.recon.day import LATENESS_MS
from holdfast.pipelines.recon.keeping import Keeper, transactional_id
from holdfast.pipelines.recon.kept import COVERAGE_KEY, encode_coverage, topic_of
from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.evaluator import AlarmKind, Evaluator
from holdfast.pipelines.watch.fingerprints import KeptBooks
from holdfast.pipelines.watch.observer import Observer
from holdfast.pipelines.watch.profile import derive, passing_ms
from holdfast.pipelines.watch.world import Mismatch
from holdfast.records.build import Record
from tests.pipelines.recon.scenes import DAY
from tests.pipelines.recon.test_keeping import NO_SPARK, Book

WINDOW_MS, HOUR_MS = 600_000, 3_600_000
NOON = DAY.start_ms + 12 * HOUR_MS
SEALED = NOON + WINDOW_MS + LATENESS_MS
Q, N, F = EndState


class Follow:
    """A pipeline whose fingerprints are kept, and whoever follows them."""

    def __init__(self, cluster: Cluster, directory: Path, name: str) -> None:
        self.book = Book(cluster, directory, name)
        self.scene, self.pipeline = self.book.scene, self.book.scene.pipeline
        self.keeper: Keeper = self.book.keeper(at_ms=NOON)
        self.books = KeptBooks(cluster, self.pipeline)
        self.passing_ms = passing_ms(self.pipeline)

    def keep(self) -> None:
        self.scene.write()
        self.book.keep(self.keeper)

    def look(self, now_ms: int) -> list[tuple[str, int, int]]:
        """The windows that do not balance."""
        return [(each.tenant, each.ingested, each.ended) for each in self.books.look(now_ms)[0]]

    def settle(self, now_ms: int) -> list[tuple[str, int, int]]:
        """The same, when all that is there has had its time."""
        self.look(now_ms)
        return self.look(now_ms + self.passing_ms)


@pytest.fixture
def follow(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Follow]:
    made = Follow(cluster, tmp_path, f"kept-{request.node.name.removeprefix('test_')[:40]}")
    yield made
    made.book.close()


def test_nobody_keeps_fingerprints(follow: Follow) -> None:
    assert follow.books.look(NOON) == ((), ())


def test_totals_that_agree_do_not_hide_a_loss_and_a_double_once_the_window_is_sealed(follow: Follow) -> None:
    for tenant in ("acme", "birch"):
        for number in range(20):
            follow.scene.ingest(tenant, f"id-{number}", NOON)
            if (tenant, number) != ("acme", 7):
                follow.scene.end(tenant, f"id-{number}", NOON, Q)
    follow.scene.end("acme", "id-8", NOON, Q)
    follow.keep()
    assert follow.settle(SEALED - 2 * follow.passing_ms) == []
    assert follow.settle(SEALED) == [("acme", 20, 20)]


def test_a_message_that_comes_late_has_the_time_that_a_pipeline_takes(follow: Follow) -> None:
    follow.scene.ingest("acme", "late", NOON)
    follow.keep()
    assert follow.look(SEALED) == []
    follow.scene.end("acme", "late", NOON, Q)
    follow.keep()
    assert follow.settle(SEALED + follow.passing_ms) == []
    follow.scene.ingest("acme", "lost", NOON)
    follow.keep()
    assert follow.settle(SEALED + 3 * follow.passing_ms) == [("acme", 2, 1)]


def test_a_window_is_not_judged_before_all_of_it_is_counted(follow: Follow) -> None:
    follow.scene.ingest("acme", "on-its-way", NOON)
    follow.keep()
    follow.look(NOON)
    follow.scene.end("acme", "on-its-way", NOON, F)
    follow.scene.write()
    assert follow.settle(SEALED) == []
    follow.book.keep(follow.keeper)
    assert follow.settle(SEALED + follow.passing_ms) == []


def test_of_windows_from_before_coverage_began_nobody_can_tell(follow: Follow, cluster: Cluster) -> None:
    follow.scene.ingest("acme", "before", NOON)
    follow.scene.write()
    skipped = follow.book.ranges()
    follow.scene.end("acme", "before", NOON, F)
    follow.scene.write()
    ends = {(each.topic, each.partition): each.end for each in skipped}
    follow.keeper.keep(
        NO_SPARK,
        [replace(each, start=ends[each.topic, each.partition]) for each in follow.book.ranges()],
    )
    assert follow.settle(SEALED) == []
    later = SEALED + HOUR_MS
    follow.scene.ingest("acme", "since", later)
    follow.keep()
    assert follow.settle(later + WINDOW_MS + LATENESS_MS) == [("acme", 1, 0)]
    follow.books = KeptBooks(cluster, follow.pipeline)
    assert follow.settle(later + 2 * HOUR_MS) == [("acme", 1, 0)], (
        "a watcher that is started again tells it, too"
    )


def test_of_windows_with_a_hole_in_their_coverage_nobody_can_tell_whoever_was_started_when(
    follow: Follow, cluster: Cluster
) -> None:
    """Records went while the keeper was away: what it had counted of their windows is not all."""
    follow.scene.ingest("acme", "counted", NOON)
    follow.keep()
    follow.look(NOON)
    follow.scene.end("acme", "counted", NOON, F)
    follow.scene.write()
    gone = {(each.topic, each.partition): each.end for each in follow.book.ranges()}
    later = SEALED + HOUR_MS
    follow.scene.ingest("acme", "since", later)
    follow.scene.write()
    back = follow.book.keeper(at_ms=later - WINDOW_MS)
    back.keep(
        NO_SPARK, [replace(each, start=gone[each.topic, each.partition]) for each in follow.book.ranges()]
    )
    assert follow.settle(later + WINDOW_MS + LATENESS_MS) == [("acme", 1, 0)]
    follow.books = KeptBooks(cluster, follow.pipeline)
    assert [each.window_ms for each in follow.books.look(later + 2 * HOUR_MS)[0]] == []
    found = follow.books.look(later + 2 * HOUR_MS + follow.passing_ms)[0]
    assert [each.window_ms for each in found] == [later - later % WINDOW_MS], "not the one with the hole"


def test_sums_of_another_life_count_no_longer(follow: Follow, cluster: Cluster) -> None:
    follow.scene.ingest("acme", "lost", NOON)
    follow.keep()
    assert follow.settle(SEALED) == [("acme", 1, 0)]
    follow.keeper.close()
    producer = TransactionalProducer(cluster, transactional_id(follow.pipeline))
    producer.init()
    producer.begin()
    coverage = replace(follow.book.kept().coverage, life="another", spans={})
    record = Record(key=COVERAGE_KEY, value=encode_coverage(coverage))
    producer.send(topic_of(follow.pipeline), 0, [record])
    producer.commit()
    assert follow.settle(SEALED + HOUR_MS) == []


def test_topics_that_are_made_anew_are_not_covered_by_what_was_counted_of_others(follow: Follow) -> None:
    """What was on its way in the old ones is told by nobody; what is lost in the new ones is, once it is counted."""
    for number in range(20):
        follow.scene.ingest("acme", f"id-{number}", NOON)
    follow.keep()
    assert follow.look(SEALED) == []
    follow.scene.ingest("acme", "not-counted", NOON)
    follow.scene.write()
    assert follow.look(SEALED + 1) == []
    follow.scene.make_anew()
    follow.scene.ingest("acme", "lost", NOON)
    follow.scene.write()
    assert follow.settle(SEALED + 2 * follow.passing_ms) == []
    follow.book.keep(follow.keeper)
    assert follow.settle(SEALED + 4 * follow.passing_ms) == [("acme", 1, 0)]


def test_what_a_day_has_cost_is_told_by_tenant(follow: Follow, cluster: Cluster) -> None:
    """And the alarm says it: three of 2,400 that the day promises are more than one in a thousand."""
    for number in range(1_200):
        follow.scene.ingest("acme", f"id-{number}", NOON - HOUR_MS)
        follow.scene.end("acme", f"id-{number}", NOON - HOUR_MS, F if number < 3 else N)
    follow.scene.ingest("birch", "id-0", NOON)
    follow.keep()
    _, [acme, birch] = follow.books.look(NOON)
    assert (acme.expected, acme.failed, birch.expected, birch.failed) == (2_400, 3, 2, 0)
    budget = replace(follow.pipeline.budget, failed=0.001)
    profile = derive(follow.pipeline.trigger, follow.pipeline.alarms, budget, follow.pipeline.mode)
    alarms = Evaluator(profile, Commands()).look(
        Observer(cluster, follow.pipeline, canaries=False).look(NOON)
    )
    assert [(each.kind, each.tenants) for each in alarms] == [(AlarmKind.BUDGET, ("acme",))]


def test_what_stands_in_the_topics_is_seen_beside_the_tallies(follow: Follow, cluster: Cluster) -> None:
    """A record that somebody else has sent to audit is in no service's books."""
    assert follow.pipeline.tally is not None
    create_topic(cluster, follow.pipeline.tally.topic, partitions=1)
    pipeline = replace(follow.pipeline, mode=Mode.TRANSACTION)
    observer = Observer(cluster, pipeline, canaries=False)
    follow.scene.ingest("acme", "doubled", NOON)
    for _ in range(2):
        follow.scene.end("acme", "doubled", NOON, N)
    follow.keep()
    observer.look(SEALED)
    found = observer.look(SEALED + follow.passing_ms).mismatches
    assert found == (Mismatch(tenant="acme", window_ms=NOON, ingested=1, ended=2),)

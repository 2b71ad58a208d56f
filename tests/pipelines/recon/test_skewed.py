"""Days whose messages have other times than their records: clocks that are wrong by many hours, and what is expired."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.reader import OffsetRange
from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.close import Desk, close_day
from holdfast.pipelines.recon.day import Day, DayState, Verdict
from holdfast.pipelines.recon.keeping import Keeper
from holdfast.pipelines.recon.law import Kind
from holdfast.pipelines.recon.looking import view_partitions
from tests.pipelines.recon.scenes import DAY, Scene, record

N = EndState.NOT_QUALIFIED
HOUR_MS = 3_600_000
SECONDS_MAX = 30.0
HALF_PAST_ONE = DAY.start_ms + 3 * HOUR_MS // 2
AHEAD_HOURS = (-70, -26, -3, 0, 1, 3, 26, 70)
"""So far was the clock of who made a message ahead of the log's, or behind it."""
BEFORE, AFTER = (Day(date=DAY.date + timedelta(days=days)) for days in (-1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A scene that is closed as it stands, or by what a keeper has counted of it."""

    scene: Scene
    desk: Desk
    keeper: Keeper
    told: list[str]

    def come(self, tenant: str, single: str, arrived_ms: int, *, ends: int, time_ms: int) -> None:
        """A message comes in, and ends so often."""
        said = record(tenant, single, time_ms=time_ms, arrived_ms=arrived_ms)
        self.scene.say(self.scene.pipeline.ingest, said)
        for _ in range(ends):
            self.scene.audit(tenant, single, time_ms, N, arrived_ms=arrived_ms)

    def keep(self) -> None:
        """Counts all that is there."""
        views = view_partitions(self.desk.cluster, self.scene.pipeline)
        ranges = [
            OffsetRange(topic=view.topic, partition=view.partition, start=view.start, end=view.read_to)
            for view in views
        ]
        self.keeper.keep(self.desk.session, ranges)

    def close(self, tenant: str, day: Day) -> Verdict:
        self.told.clear()
        return close_day(self.desk, tenant, day)


@pytest.fixture
def reading(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Reading]:
    scene = Scene(cluster, tmp_path, f"skew-{request.node.name.removeprefix('test_')[:40]}")
    scene.create_topics()
    told: list[str] = []
    desk = Desk(session=spark, cluster=cluster, pipeline=scene.pipeline, tasks=2, on_progress=told.append)
    keeper = Keeper(scene.pipeline, tasks=2, clock=lambda: DAY.end_ms / 1000)
    yield Reading(scene=scene, desk=desk, keeper=keeper, told=told)
    keeper.close()


def named(verdict: Verdict) -> set[tuple[Kind, str]]:
    return {(each.kind, each.id) for each in verdict.evidence.findings if each.kind is not Kind.LATE}


def test_a_clock_that_is_wrong_by_hours_hides_nothing_however_the_day_is_read(reading: Reading) -> None:
    """Ahead, behind, or records without a time: what is kept and what is read now come to the same verdict."""
    arrivals = {f"{hours} h": HALF_PAST_ONE - hours * HOUR_MS for hours in AHEAD_HOURS} | {"no time": 0}
    come = [("cedar", "lost", HALF_PAST_ONE - 3 * HOUR_MS, 0, HALF_PAST_ONE)]
    for told, arrived_ms in arrivals.items():
        for ends, name in enumerate(("lost", "ended", "doubled")):
            come.append(("acme", f"{name} {told}", arrived_ms, ends, HALF_PAST_ONE))
    for number in range(40):
        arrived_ms = DAY.start_ms + number * HOUR_MS // 2
        come.append(("birch", f"id-{number}", arrived_ms, 1, arrived_ms))
    for tenant, single, arrived_ms, ends, time_ms in sorted(come, key=itemgetter(2)):  # as a log has them
        reading.come(tenant, single, arrived_ms, ends=ends, time_ms=time_ms)
    reading.scene.write()
    wrong = {(Kind.MISSING, f"lost {told}") for told in arrivals}
    wrong |= {(Kind.DUPLICATE, f"doubled {told}") for told in arrivals}
    for way in ("plain", "kept"):
        if way == "kept":
            reading.keep()
        acme, cedar = reading.close("acme", DAY), reading.close("cedar", DAY)
        assert reading.told[0].startswith("fingerprints of 0 offsets that are not kept") == (way == "kept")
        assert (acme.state, acme.reasons, named(acme)) == (DayState.OPEN, ("9 missing", "9 duplicate"), wrong)
        assert acme.evidence.found[Kind.LATE] == 12, (
            "of 26 hours and 70, behind: three ingested, three audited"
        )
        assert (cedar.state, cedar.reasons) == (DayState.OPEN, ("1 missing",))
        assert reading.close("birch", DAY).state is DayState.CLOSED
        for day in (BEFORE, AFTER):
            assert reading.close("acme", day).state is DayState.BLIND


def test_a_day_whose_messages_may_have_come_before_what_is_retained_is_blind(
    reading: Reading, cluster: Cluster
) -> None:
    """One of five past midnight came before midnight and is lost; then it expires, and nobody knows of it any more."""
    ingest, five_past = reading.scene.pipeline.ingest, DAY.start_ms + HOUR_MS // 12
    evening_ms = DAY.start_ms - HOUR_MS // 3
    old, backfilled, new = DAY.start_ms - 50 * HOUR_MS, DAY.start_ms - 36 * HOUR_MS, evening_ms + HOUR_MS // 6
    for batch in (
        [record("birch", "old", time_ms=old)],
        [record("birch", "younger", time_ms=backfilled)],
        [record("acme", "lost", time_ms=five_past, arrived_ms=evening_ms)],
        [record("birch", "backfilled", time_ms=backfilled), record("birch", "new", time_ms=new)],
        [record("acme", "ended", time_ms=HALF_PAST_ONE)],
    ):
        for said in batch:
            reading.scene.say(ingest, said, 0)
        reading.scene.write()
    reading.scene.audit("acme", "ended", HALF_PAST_ONE, N)
    reading.scene.write()
    found = []
    for start in (0, 1, 3):
        if start:
            delete_before(cluster, ingest, start)
        verdict = reading.close("acme", DAY)
        found.append((verdict.state, verdict.reasons))
    wrong = (DayState.OPEN, ("1 missing",))
    why = "begins at offset 3: earlier messages of the day may have expired, or been deleted"
    assert found == [wrong, wrong, (DayState.BLIND, (f"{ingest}-0 {why}",))]


def delete_before(cluster: Cluster, topic: str, offset: int) -> None:
    """As an operator does, or retention."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        assert future.result(SECONDS_MAX).low_watermark == offset

"""Days that are looked at while the service or an adapter catches up: nothing on its way is called lost, or doubled."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.errors import RepairRefused
from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon import looking
from holdfast.pipelines.recon.close import Desk, close_day
from holdfast.pipelines.recon.day import DayState
from holdfast.pipelines.recon.law import Kind
from holdfast.pipelines.recon.repair import repair_day
from holdfast.pipelines.recon.telling import next_step
from tests.pipelines.recon.scenes import DAY, PARTITIONS, Scene, record

NOON = DAY.start_ms + 43_200_000
DONE, BEHIND = 20, 10
Q = EndState.QUALIFIED


class Live:
    """A pipeline of which one part is behind, and catches up when it is told to."""

    def __init__(self, spark: SparkSession, cluster: Cluster, directory: Path, behind: str) -> None:
        self.behind = behind
        self.scene = Scene(
            cluster, directory, directory.name, mode="adapter" if behind == "adapter" else "dual"
        )
        self.scene.create_topics()
        self.cluster, self.pipeline = cluster, self.scene.pipeline
        self.desk = Desk(session=spark, cluster=cluster, pipeline=self.pipeline, tasks=2, settle_s_max=0)
        self.run(range(DONE))
        self.tell()

    def run(self, numbers: range) -> None:
        """Messages that come to their end."""
        self.begin(numbers)
        self.finish(numbers)

    def begin(self, numbers: range) -> None:
        """Messages that come as far as the part that is behind."""
        for number in numbers:
            self.scene.ingest("acme", f"id-{number}", NOON)
            if self.behind == "adapter":
                self.scene.deliver("acme", f"id-{number}", NOON)
        self.scene.write()
        if self.behind == "adapter":
            self._tell(self.pipeline.service_group, self.pipeline.ingest)

    def finish(self, numbers: range) -> None:
        """That part takes them to their end."""
        for number in numbers:
            if self.behind == "service":
                self.scene.deliver("acme", f"id-{number}", NOON)
            self.scene.audit("acme", f"id-{number}", NOON, Q)
        self.scene.write()

    def tell(self) -> None:
        """The groups are told that everything is done."""
        self._tell(self.pipeline.service_group, self.pipeline.ingest)
        for adapter in self.pipeline.adapters:
            self._tell(adapter.group, adapter.topic)

    def _tell(self, group: str, topic: str) -> None:
        ends = list_offsets(self.cluster, topic, dict.fromkeys(range(PARTITIONS), LATEST))
        commit_group_offsets(
            self.cluster, group, {TopicPartition(topic, number): end for number, end in ends.items()}
        )

    def catching_up(self, numbers: range) -> Desk:
        """A desk at whose first sign of progress that part is through with them, and says so."""
        self.begin(numbers)
        left = [numbers]

        def catch_up(_: str) -> None:
            if left:
                self.finish(left.pop())
                self.tell()

        return replace(self.desk, on_progress=catch_up)


@pytest.fixture(params=["adapter", "service"])
def live(request: pytest.FixtureRequest, spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Live:
    """Either of the two is behind."""
    return Live(spark, cluster, tmp_path, request.param)


def test_a_day_is_not_yet_closed_while_somebody_catches_up_and_closed_a_moment_later(live: Live) -> None:
    """What was taken further after the ends were asked for is beyond them, and no loss."""
    verdict = close_day(live.catching_up(range(DONE, DONE + BEHIND)), "acme", DAY)
    assert (verdict.state, len(verdict.evidence.waiting)) == (DayState.NOT_YET, BEHIND)
    assert f"{BEHIND} messages have still to be taken further" in verdict.reasons[0]
    assert close_day(live.desk, "acme", DAY).state is DayState.CLOSED


def test_a_repair_while_somebody_catches_up_doubles_nothing(live: Live) -> None:
    """It looks where positions stood before, not where they stand when it has looked."""
    plan = repair_day(live.catching_up(range(DONE, DONE + BEHIND)), "acme", DAY).plan
    assert (plan.forwards, plan.endings) == ((), ())
    assert (plan.waiting, len(plan.unended)) == ((BEHIND, 0) if live.behind == "adapter" else (0, BEHIND))
    verdict = close_day(live.desk, "acme", DAY)
    assert (verdict.state, dict(verdict.evidence.found)) == (DayState.CLOSED, {})


@pytest.mark.parametrize("live", ["service"], indirect=True)
def test_messages_that_come_and_end_between_two_ends_are_neither_strays_nor_lost(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every question for offsets one more: downstream ends are asked for first, positions before all."""
    numbers = iter(range(DONE, 1000))

    def ask(*arguments: Any, **options: Any) -> dict[int, int]:
        found = list_offsets(*arguments, **options)
        if arguments[2][0] == LATEST:
            number = next(numbers)
            live.run(range(number, number + 1))
            live.tell()
        return found

    monkeypatch.setattr(looking, "list_offsets", ask)
    verdict = close_day(live.desk, "acme", DAY)
    assert (verdict.state, {*verdict.evidence.found}) == (DayState.NOT_YET, {Kind.MISSING})
    plan = repair_day(live.desk, "acme", DAY).plan
    assert (plan.forwards, plan.endings) == ((), ())
    monkeypatch.undo()
    assert close_day(live.desk, "acme", DAY).state is DayState.CLOSED


@pytest.mark.parametrize("live", ["adapter"], indirect=True)
def test_of_an_id_that_was_ingested_twice_one_may_be_on_its_way(live: Live) -> None:
    for _ in range(2):
        live.begin(range(DONE, DONE + 1))
    live.finish(range(DONE, DONE + 1))
    assert close_day(live.desk, "acme", DAY).state is DayState.NOT_YET
    live.tell()
    verdict = close_day(live.desk, "acme", DAY)
    assert (verdict.state, verdict.reasons) == (DayState.OPEN, ("1 duplicate",))


@pytest.mark.parametrize("live", ["service"], indirect=True)
def test_what_the_service_has_not_come_to_is_not_yet_and_nobody_is_sent_to_repair_it(live: Live) -> None:
    live.begin(range(DONE, DONE + BEHIND))
    verdict = close_day(live.desk, "acme", DAY)
    assert (verdict.state, next_step(verdict)) == (DayState.NOT_YET, None)
    live.tell()
    passed = close_day(live.desk, "acme", DAY)
    assert passed.state is DayState.OPEN
    assert next_step(passed) == f"holdfast recon repair acme {DAY.date}"


@pytest.mark.parametrize("live", ["service"], indirect=True)
def test_nobody_waits_for_a_service_whose_group_has_no_position(live: Live) -> None:
    """The day is open; and a repair, which would do nothing, is not advised."""
    pipeline = replace(live.pipeline, name=f"{live.pipeline.name}-of-others")
    live.begin(range(DONE, DONE + 1))
    desk = replace(live.desk, pipeline=pipeline)
    verdict = close_day(desk, "acme", DAY)
    assert (verdict.state, verdict.reasons, next_step(verdict)) == (DayState.OPEN, ("1 missing",), None)
    plan = repair_day(desk, "acme", DAY).plan
    assert (plan.forwards, plan.endings, len(plan.unended)) == ((), (), 1)


@pytest.mark.parametrize("live", ["adapter"], indirect=True)
def test_a_repair_is_refused_while_what_is_missing_may_be_there(live: Live) -> None:
    """Forwarded and passed, and hidden by an open transaction of somebody else; and before the seal."""
    with pytest.raises(RepairRefused, match="the day is sealed at"):
        repair_day(live.desk, "acme", DAY, now_ms=DAY.seal_ms - 1)
    hanging = TransactionalProducer(live.cluster, f"{live.pipeline.name}.hanging")
    hanging.init()
    hanging.begin()
    for partition in range(PARTITIONS):
        hanging.send(live.pipeline.audit, partition, [record("birch", "a", time_ms=NOON, state=Q)])
    live.run(range(DONE, DONE + BEHIND))
    live.tell()
    with pytest.raises(RepairRefused, match="an open transaction may hold messages"):
        repair_day(live.desk, "acme", DAY)
    hanging.abort()
    assert repair_day(live.desk, "acme", DAY).done == 0
    assert close_day(live.desk, "acme", DAY).state is DayState.CLOSED

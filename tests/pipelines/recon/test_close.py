"""Whole days on a real log: what is wrong is named, exactly, and nothing else is."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import EndState
from holdfast.pipelines.frames import ORIGIN_HEADER
from holdfast.pipelines.identity import Identity, parse_location
from holdfast.pipelines.recon import close
from holdfast.pipelines.recon.close import Desk, close_day, where_to_look
from holdfast.pipelines.recon.columns import CANARY_HEADER
from holdfast.pipelines.recon.day import DayState, Verdict
from holdfast.pipelines.recon.law import Kind, Law, Stage, Tally, is_conserved
from holdfast.pipelines.recon.reading import INGESTED, UNREADABLE, number_of, stage_of
from holdfast.pipelines.recon.repair import Repaired, plan_repair
from holdfast.records.fingerprints import Fingerprints, Ids, select
from holdfast.spark.reconcile import Group
from tests.pipelines.recon.scenes import DAY, Scene, record

Q, N, F = EndState
NOON = DAY.start_ms + 43_200_000


@pytest.fixture(scope="module")
def desk(spark: SparkSession, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A day of five tenants whose messages lie mixed in two partitions; each has its own misfortunes."""
    scene = Scene(cluster, tmp_path_factory.mktemp("close"), "close")
    scene.create_topics()
    scene.run("acme", [f"id-{number}" for number in range(150)])
    birch(scene)
    cedar(scene)
    dogwood(scene)
    scene.audit("elm", "never-came", NOON, N)
    for tenant, pair in LOOKALIKES.items():
        lose_one(scene, tenant, *pair)
    scene.write()
    return Desk(session=spark, cluster=cluster, pipeline=scene.pipeline, tasks=3)


def birch(scene: Scene) -> None:
    """As many end as come in; but three are lost and three doubled."""
    for number in range(150):
        single, time_ms = f"id-{number}", DAY.start_ms + number * 500_000
        scene.ingest("birch", single, time_ms)
        if number not in {3, 70, 149}:
            scene.audit("birch", single, time_ms, N)
        if number in {4, 71, 100}:
            scene.audit("birch", single, time_ms, N)


def cedar(scene: Scene) -> None:
    """Odd, but nothing is lost."""
    scene.run("cedar", [f"id-{number}" for number in range(30)])
    scene.ingest("cedar", "slow", NOON)
    scene.audit("cedar", "slow", NOON, F, arrived_ms=DAY.seal_ms)
    scene.ingest("cedar", "skewed", DAY.end_ms - 1)
    scene.audit("cedar", "skewed", DAY.end_ms + 1, F)
    for _ in range(2):
        scene.ingest("cedar", "twice-in-once-out", NOON)
        scene.ingest("cedar", "twice", NOON)
        scene.audit("cedar", "twice", NOON, N)
    scene.audit("cedar", "twice-in-once-out", NOON, N)
    nameless = scene.ingest("cedar", None, NOON)
    scene.audit("cedar", None, NOON, F, origin=nameless)
    broken = scene.say(
        scene.pipeline.ingest, record("cedar", None, time_ms=NOON, headers=[("ce_id", b"\xff\xfe")])
    )
    scene.audit("cedar", None, NOON, F, origin=broken)
    scene.say(scene.pipeline.ingest, record("cedar", "canary", time_ms=NOON, headers=[(CANARY_HEADER, b"1")]))


def dogwood(scene: Scene) -> None:
    """One of each kind."""
    scene.ingest("dogwood", "lost", NOON)
    scene.ingest("dogwood", "unaudited", NOON)
    scene.deliver("dogwood", "unaudited", NOON)
    scene.ingest("dogwood", "undelivered", NOON)
    scene.audit("dogwood", "undelivered", NOON, Q)
    scene.ingest("dogwood", "torn", NOON)
    scene.audit("dogwood", "torn", NOON, N)
    scene.audit("dogwood", "torn", NOON, F)
    scene.audit("dogwood", "stray", NOON, F)
    scene.ingest("dogwood", "doubled", NOON)
    scene.deliver("dogwood", "doubled", NOON)
    scene.deliver("dogwood", "doubled", NOON)
    scene.audit("dogwood", "doubled", NOON, Q)
    scene.say(scene.pipeline.audit, record("dogwood", "stateless", time_ms=NOON))
    scene.ingest("dogwood", None, NOON)


LOOKALIKES: dict[str, tuple[tuple[str | bytes, str], tuple[str | bytes, str]]] = {
    "fir": (("s", "b\x1fc"), ("s\x1fb", "c")),
    "gorse": (("s\x1fb", "c"), ("s", "b\x1fc")),
    "hazel": ((b"\xff", "c"), (b"\xfe", "c")),
}
"""By tenant: source and id of two messages that were one to a reader who joined them carelessly."""
BY_VALUE = Identity(id=parse_location("value:$.id"), source=parse_location("value:$.source"))


def lose_one(scene: Scene, tenant: str, *pair: tuple[str | bytes, str]) -> None:
    """Both come in, and the first one ends."""
    for number, (source, single) in enumerate(pair):
        said = source.encode() if isinstance(source, str) else source
        value = json.dumps({"id": single, "source": source if isinstance(source, str) else 0.5}).encode()
        headers = [("ce_source", said), ("ce_id", single.encode())]
        partition, offset = scene.say(
            scene.pipeline.ingest,
            replace(record(tenant, None, time_ms=NOON, headers=headers), value=value),
            partition=0,
        )
        if number == 0:
            origin = f"{scene.pipeline.ingest}/{partition}@{offset}".encode()
            headers.append((ORIGIN_HEADER, origin))
            scene.say(scene.pipeline.audit, record(tenant, None, time_ms=NOON, state=F, headers=headers))


def names(verdict: Verdict, kind: Kind) -> set[str]:
    return {finding.id for finding in verdict.evidence.findings if finding.kind is kind}


def test_a_day_on_which_all_ended_is_closed(desk: Desk) -> None:
    verdict = close_day(desk, "acme", DAY)
    assert (verdict.state, verdict.reasons) == (DayState.CLOSED, ())
    assert (verdict.total.ingested, verdict.total.audited) == (150, {Q: 50, N: 50, F: 50})
    assert verdict.total.delivered[Q] == 50
    assert sum(counts.ingested > 0 for counts in verdict.evidence.windows.values()) > 100


@pytest.fixture(params=["here", "as a plan"])
def counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact look counts in this process, or where rows were read."""
    if request.param == "as a plan":
        monkeypatch.setattr(close, "HERE_ROWS_MAX", -1)


@pytest.mark.usefixtures("counted")
def test_a_day_on_which_totals_agree_but_ids_do_not_is_open(desk: Desk) -> None:
    verdict = close_day(desk, "birch", DAY)
    assert (verdict.total.ingested, verdict.total.ended) == (150, 150)
    assert (verdict.state, verdict.reasons) == (DayState.OPEN, ("3 missing", "3 duplicate"))
    assert names(verdict, Kind.MISSING) == {"id-3", "id-70", "id-149"}
    assert names(verdict, Kind.DUPLICATE) == {"id-4", "id-71", "id-100"}
    for finding in verdict.evidence.findings:
        [ingested, *ended] = finding.sightings
        assert ingested.place.topic == desk.pipeline.ingest
        assert {each.place.topic for each in ended} <= {desk.pipeline.audit}
        assert len(ended) == (0 if finding.kind is Kind.MISSING else 2)


def test_late_skewed_repeated_nameless_and_broken_messages_that_ended_leave_the_day_closed(
    desk: Desk,
) -> None:
    verdict = close_day(desk, "cedar", DAY)
    assert (verdict.state, verdict.reasons) == (DayState.CLOSED, ())
    assert verdict.evidence.found == {Kind.LATE: 1, Kind.UNPARSABLE: 4}
    assert names(verdict, Kind.LATE) == {"slow"}


@pytest.mark.usefixtures("counted")
def test_each_kind_is_told_with_coordinates(desk: Desk) -> None:
    verdict = close_day(desk, "dogwood", DAY)
    assert verdict.state is DayState.OPEN
    found = {kind: names(verdict, kind) for kind in Kind}
    [nameless] = [
        finding.sightings[0].place
        for finding in verdict.evidence.findings
        if finding.kind is Kind.UNPARSABLE and finding.sightings[0].place.topic == desk.pipeline.ingest
    ]
    origin = f"{nameless.topic}/{nameless.partition}@{nameless.offset}"
    assert found == {
        Kind.MISSING: {"lost", "unaudited", "undelivered", origin},
        Kind.DUPLICATE: {"doubled"},
        Kind.CONFLICTING: {"torn"},
        Kind.ORPHAN: {"stray"},
        Kind.LATE: set(),
        Kind.UNPARSABLE: {"stateless", origin},
    }


@pytest.mark.parametrize("identity", [Identity(), BY_VALUE])
@pytest.mark.parametrize("tenant", LOOKALIKES)
def test_a_message_that_is_lost_is_missed_though_another_looks_like_it(
    desk: Desk, tenant: str, identity: Identity
) -> None:
    """Whether the kernel has read them, or columns have because they stand in the value."""
    pipeline = replace(desk.pipeline, identity=identity)
    verdict = close_day(replace(desk, pipeline=pipeline), tenant, DAY)
    assert (verdict.total.ingested, verdict.total.ended) == (2, 1)
    assert (verdict.state, verdict.reasons) == (DayState.OPEN, ("1 missing",))
    [missing] = [each for each in verdict.evidence.findings if each.kind is Kind.MISSING]
    assert [each.place.topic for each in missing.sightings] == [pipeline.ingest]


@pytest.mark.usefixtures("counted")
def test_more_than_can_be_named_is_counted_all_the_same(desk: Desk) -> None:
    verdict = close_day(replace(desk, named_max=2), "birch", DAY)
    assert verdict.reasons == ("3 missing", "3 duplicate")
    assert len(verdict.evidence.findings) == 2


@pytest.mark.usefixtures("counted")
def test_the_missing_are_named_before_all_others_so_that_repairs_come_to_an_end(desk: Desk) -> None:
    verdict = close_day(replace(desk, named_max=3), "birch", DAY)
    assert [finding.kind for finding in verdict.evidence.findings] == [Kind.MISSING] * 3
    few = close_day(replace(desk, named_max=1), "birch", DAY)
    repaired = Repaired(
        verdict=few, plan=plan_repair(few.evidence.findings, desk.pipeline, few.evidence.positions), done=1
    )
    assert repaired.left == 2


def test_a_tenant_without_input_is_blind_and_its_orphans_are_named(desk: Desk) -> None:
    assert close_day(desk, "nobody", DAY).state is DayState.BLIND
    verdict = close_day(desk, "elm", DAY)
    assert (verdict.state, names(verdict, Kind.ORPHAN)) == (DayState.OPEN, {"never-came"})


SIGHTINGS = st.lists(
    st.tuples(st.integers(0, UNREADABLE - 1), st.sampled_from(DAY.windows[:3]), st.integers(0, 30)),
    max_size=40,
)


@settings(max_examples=60)
@given(rows=SIGHTINGS)
def test_wherever_an_id_breaks_the_law_there_is_looked(rows: list[tuple[int, int, int]]) -> None:
    law = Law(delivered=frozenset({Q, N, F}))
    made = Fingerprints[Group](seed=7)
    groups = [Group("acme", stage, window) for stage, window, _ in rows]
    ids = Ids.of([b"%d" % single for *_, single in rows])
    made.add(groups, np.arange(len(rows), dtype=np.int32), ids)
    wanted = where_to_look(made, "acme", DAY, law)
    marks = select(
        groups, np.arange(len(rows), dtype=np.int32), ids, wanted=wanted, bucket_bits=made.bucket_bits, seed=7
    )
    for single in {single for *_, single in rows}:
        seen = Counter(stage_of(stage) for stage, _, each in rows if each == single)
        tally = Tally(
            ingested=seen[stage_of(INGESTED)],
            audited={state: seen[stage_of(number_of(Stage.AUDIT, state))] for state in EndState},
            delivered={state: seen[stage_of(number_of(Stage.DELIVERED, state))] for state in EndState},
        )
        if not is_conserved(tally, law):
            assert any(mark for mark, (*_, each) in zip(marks, rows, strict=True) if each == single)

"""`holdfast recon` from an open day to a closed one, and what the book of days says of it."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from holdfast.cli.recon import recon
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.errors import CorruptData, HoldfastError
from holdfast.pipelines.config import Budget, EndState
from holdfast.pipelines.recon.book import DayRecord, decode_value, encode_key, encode_value, is_news
from holdfast.pipelines.recon.day import Counts, DayState, Verdict, judge_day
from holdfast.pipelines.recon.law import Finding, Kind, Place, Sighting, Stage
from holdfast.pipelines.recon.page import render
from holdfast.pipelines.recon.positions import Positions
from holdfast.pipelines.recon.repair import plan_repair
from holdfast.pipelines.recon.telling import headlines, next_step
from tests.pipelines.recon.scenes import DAY, PARTITIONS, Scene
from tests.pipelines.recon.test_day import GOOD

NOON = DAY.start_ms + 43_200_000
TODAY = DAY.date.isoformat()

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def scene(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Two sends, of which now this one and now that one failed."""
    made = Scene(cluster, tmp_path_factory.mktemp("commands"), "commands")
    made.create_topics()
    made.run("acme", [f"id-{number}" for number in range(60)])
    for single in ("unaudited-1", "unaudited-2"):
        made.ingest("acme", single, NOON)
        made.deliver("acme", single, NOON)
    made.ingest("acme", "undelivered", NOON)
    made.audit("acme", "undelivered", NOON, EndState.QUALIFIED)
    made.ingest("acme", "given-up", NOON)
    made.write()
    return made


@pytest.fixture
def run(scene: Scene, spark: SparkSession) -> Run:
    """Runs a command on the session that is there."""
    assert spark is not None

    def run_command(*arguments: str) -> Result:
        return CliRunner().invoke(recon, [*arguments, "--pipeline", str(scene.pipeline.path)])

    return run_command


def test_the_command_that_makes_up_for_it_means_the_pipeline_and_the_cluster_that_were_judged(
    run: Run, scene: Scene, cluster: Cluster, tmp_path: Path
) -> None:
    """On the terminal and on the page; what is the default is not said."""
    file, day = str(scene.pipeline.path), ("acme", TODAY)
    repair = f"holdfast recon repair acme {TODAY} --pipeline {file}"
    opened = run("close", *day)
    assert (opened.exit_code, opened.stdout.splitlines()[-1].partition(": ")[2]) == (1, repair)
    elsewhere = run("close", *day, "--bootstrap", cluster.bootstrap).stdout.splitlines()[-1]
    assert elsewhere.endswith(f"{repair} --bootstrap {cluster.bootstrap}")
    page = tmp_path / "day.html"
    assert run("report", *day, "-o", str(page), "--bootstrap", cluster.bootstrap).exit_code == 1
    assert f"<code>{repair} --bootstrap {cluster.bootstrap}</code>" in page.read_text()


def test_an_open_day_is_repaired_and_closed(run: Run, scene: Scene, cluster: Cluster) -> None:
    waiting = run("repair", "acme", TODAY, "--dry-run", "--json")
    assert waiting.exit_code == 1
    assert json.loads(waiting.stdout)["only_the_service_can_end"] == ["given-up"]
    # The service has been there, and will not come back: what it gave up is ended anew.
    passed = {TopicPartition(scene.pipeline.ingest, partition): 1_000 for partition in range(PARTITIONS)}
    commit_group_offsets(cluster, scene.pipeline.service_group, passed)
    planned = run("repair", "acme", TODAY, "--dry-run", "--json")
    plan = json.loads(planned.stdout)
    assert (plan["endings"], plan["ended_anew"]) == (["given-up"], 0)
    topics = scene.pipeline.topics[EndState.QUALIFIED], scene.pipeline.audit
    assert {(each["id"], each["to"]) for each in plan["forwards"]} == {
        ("unaudited-1", topics[1]),
        ("unaudited-2", topics[1]),
        ("undelivered", topics[0]),
    }
    assert plan["forwarded"] == 0
    for forwarded in (3, 0):
        repaired = run("repair", "acme", TODAY)
        assert repaired.exit_code == 0
        assert f"{forwarded} messages forwarded" in repaired.stdout
        assert ("1 message ended anew" in repaired.stdout) == bool(forwarded)
    closed = run("close", "acme", TODAY)
    assert closed.exit_code == 0, closed.stdout
    first, second = closed.stdout.splitlines()[:2]
    assert first.endswith("CLOSED  ingested 64 = qualified 23 + not_qualified 20 + failed 21")
    assert second.startswith("duplicate 0 · conflicting 0")
    status = run("status")
    assert f"complete to  {TODAY}" in status.stdout
    life = json.loads(run("explain", "acme", "unaudited-1", "--json").stdout)
    [found] = life
    assert found["findings"] == []
    assert [record["stage"] for record in found["records"]] == ["ingest", "delivered", "audit"]
    [ended] = json.loads(run("explain", "acme", "given-up", "--json").stdout)
    assert [(record["stage"], record["end_state"]) for record in ended["records"]] == [
        ("ingest", None),
        ("audit", "failed"),
    ]


def test_the_watermark_stops_before_a_day_that_was_found_open_and_never_closed(
    run: Run, scene: Scene, cluster: Cluster
) -> None:
    """The days behind it are closed, and do not count."""
    days = [replace(DAY, date=DAY.date + timedelta(days=number)) for number in range(3)]
    for day in days:
        scene.ingest("cedar", f"of-{day.date}", day.start_ms)
        if day is not days[0]:
            scene.end("cedar", f"of-{day.date}", day.start_ms, EndState.FAILED)
    scene.write()
    ends = {TopicPartition(scene.pipeline.ingest, partition): 1_000 for partition in range(PARTITIONS)}
    commit_group_offsets(cluster, scene.pipeline.service_group, ends)
    assert [run("close", "cedar", day.date.isoformat()).exit_code for day in days] == [1, 0, 0]
    rows = json.loads(run("status", "cedar", "--json").stdout)
    assert [row["state"] for row in rows] == ["OPEN", "CLOSED", "CLOSED", "nowhere"]
    assert run("repair", "cedar", TODAY).exit_code == run("close", "cedar", TODAY).exit_code == 0
    assert f"complete to  {days[-1].date}" in run("status", "cedar").stdout


def test_a_tenant_without_messages_is_blind_for_scripts_too(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "nobody.html"
    blind = run("report", "nobody", TODAY, "-o", str(page))
    assert blind.exit_code == 4
    assert "BLIND" in page.read_text()
    assert json.loads(page.with_suffix(".json").read_text())["state"] == "BLIND"


def test_a_day_that_is_no_day_is_bad_usage_and_a_cluster_that_is_away_no_verdict(run: Run) -> None:
    for words, code in (
        (["close", "acme", "yesterday"], 2),
        (["close", "acme", TODAY, "--bootstrap", "nowhere"], 2),
        (["close", "acme", TODAY, "--bootstrap", "127.0.0.1:1"], 4),
        (["report", "acme", TODAY, "--bootstrap", "127.0.0.1:1"], 4),
    ):
        failure = run(*words).exception
        assert isinstance(failure, HoldfastError)
        assert failure.exit_code == code


RECORD = DayRecord(
    pipeline="payments",
    tenant="acme/ü",
    day=date(2026, 2, 1),
    state=DayState.CLOSED,
    judged_ms=5,
    ingested=3,
    ended={"failed": 1},
    found={"late": 2},
    read={"in-0": (1, 9)},
)


def test_day_records_are_read_as_they_were_written() -> None:
    assert decode_value(encode_value(RECORD)) == RECORD
    assert encode_key(RECORD) == "2026-02-01/acme/ü".encode()


@pytest.mark.parametrize("change", [{"format": 2}, {"state": "FINE"}, {"day": "soon"}, {"read": 1}])
def test_what_is_no_day_record_is_refused(change: dict[str, Any]) -> None:
    fields = json.loads(encode_value(RECORD)) | change
    with pytest.raises(CorruptData):
        decode_value(json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("state", "known", "news"),
    [
        (DayState.CLOSED, None, True),
        (DayState.CLOSED, DayState.OPEN, True),
        (DayState.OPEN, None, True),
        (DayState.OPEN, DayState.OPEN, False),
        (DayState.OPEN, DayState.CLOSED, True),
        (DayState.BLIND, DayState.CLOSED, False),
        (DayState.NOT_YET, DayState.CLOSED, False),
    ],
)
def test_the_book_hears_of_closing_and_of_what_is_newly_open_alone(
    state: DayState, known: DayState | None, news: bool
) -> None:
    verdict = replace(judge_day(GOOD), state=state)
    assert is_news(verdict, None if known is None else replace(RECORD, state=known)) == news


def missing(*ended: tuple[Stage, EndState], single: str = "a") -> Finding:
    sightings = [(Stage.INGEST, None), *ended]
    return Finding(
        kind=Kind.MISSING,
        id=single,
        why="",
        sightings=tuple(
            Sighting(
                stage=stage,
                end_state=state,
                place=Place(topic=stage.value, partition=0, offset=number),
                time_ms=0,
                arrived_ms=0,
            )
            for number, (stage, state) in enumerate(sightings)
        ),
    )


def test_only_what_stands_somewhere_and_nobody_is_on_the_way_to_is_forwarded(scene: Scene) -> None:
    delivered = missing((Stage.DELIVERED, EndState.QUALIFIED), single="delivered")
    never = missing(single="never")
    torn = missing((Stage.DELIVERED, EndState.QUALIFIED), (Stage.AUDIT, EndState.FAILED), single="torn")
    plan = plan_repair([delivered, never, torn], scene.pipeline, Positions())
    assert [(each.id, each.source.offset, each.target) for each in plan.forwards] == [
        ("delivered", 1, scene.pipeline.audit)
    ]
    assert [each.id for each in plan.unended] == ["never", "torn"]
    service = {TopicPartition(Stage.INGEST.value, 0): 1}
    passed = plan_repair([never, torn], scene.pipeline, Positions(service=service))
    assert ([each.id for each in passed.endings], [each.id for each in passed.unended]) == (
        ["never"],
        ["torn"],
    )
    spared = plan_repair([delivered], scene.pipeline, Positions(service=service, adapters={}))
    assert (spared.forwards, spared.waiting) == ((), 1)
    unended = plan_repair([delivered], scene.pipeline, Positions(service=dict.fromkeys(service, 0)))
    assert (unended.forwards, unended.waiting, len(unended.unended)) == ((), 0, 1)


def test_the_page_shows_the_law_and_escapes_what_tenants_call_themselves() -> None:
    windows = {DAY.start_ms: Counts(ingested=5, audited=dict.fromkeys(EndState, 1))}
    finding = missing((Stage.DELIVERED, EndState.QUALIFIED), single="<script>")
    evidence = replace(
        GOOD, day=DAY, now_ms=DAY.seal_ms, windows=windows, found={Kind.MISSING: 2}, findings=(finding,)
    )
    verdict: Verdict = replace(judge_day(evidence), tenant="<b>acme</b>")
    page = render(verdict, Budget())
    assert "<script>" not in page
    assert "&lt;b&gt;acme&lt;/b&gt;" in page
    assert page.count("<rect") >= len(DAY.windows)
    assert "ingested 5 = qualified 1 + not_qualified 1 + failed 1 + MISSING 2" in headlines(verdict)[0]
    assert f"<code>holdfast recon repair &#x27;&lt;b&gt;acme&lt;/b&gt;&#x27; {TODAY}</code>" in page
    assert next_step(replace(verdict, state=DayState.CLOSED)) is None

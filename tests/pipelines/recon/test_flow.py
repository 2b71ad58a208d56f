"""How long messages took and how old the oldest was, and the page that shows it."""

import re
from dataclasses import replace

from pyspark.sql import SparkSession

from holdfast.pipelines.config import Alarms, Budget, EndState, Mode, Trigger
from holdfast.pipelines.recon.axes import clock_ticks, duration, duration_ticks, number_ticks
from holdfast.pipelines.recon.day import judge_day
from holdfast.pipelines.recon.flow import STEPS, Flow, Moved, ages, bars, grouped, movements
from holdfast.pipelines.recon.law import Stage
from holdfast.pipelines.recon.page import render, to_json
from holdfast.pipelines.recon.reading import INGESTED, ROW_TYPES, number_of
from holdfast.pipelines.watch.profile import derive
from tests.pipelines.recon.test_day import GOOD

PROFILE = derive(Trigger(interval_ms=10_000), Alarms(), Budget(), Mode.ADAPTER)
AUDITED = number_of(Stage.AUDIT, EndState.FAILED)
FLOW = Flow(
    start_ms=1_794_614_400_000,
    step_ms=60_000,
    ages_ms=tuple(1_000 * each for each in (0, 5, 130, 200, 310, 0)),
    bars={-1: 2, 15: 40, 17: 3},
    shares_ms=(1_100, 3_000, 310_000),
)


def row(single: str, stage: int, arrived_ms: int) -> tuple[object, ...]:
    return ("acme", stage, 0, single.encode(), False, 0, arrived_ms, "t", 0, 0)


def test_a_message_counts_from_when_it_first_came_to_when_audit_first_had_it(spark: SparkSession) -> None:
    rows = [
        row("quick", INGESTED, 1_000), row("quick", AUDITED, 1_400), row("quick", AUDITED, 9_000),
        row("twice", INGESTED, 1_500), row("twice", INGESTED, 5_000), row("twice", AUDITED, 5_500),
        row("never", INGESTED, 2_000), row("orphan", AUDITED, 3_000),
        row("skewed", INGESTED, 4_000), row("skewed", AUDITED, 3_900),
    ]  # fmt: skip
    moved = movements(spark.createDataFrame(rows, ROW_TYPES), 1)
    assert sorted(map(tuple, moved.collect()), key=str) == [
        (1_000, 1_400), (1_500, 5_500), (2_000, None), (4_000, 4_000),
    ]  # fmt: skip
    found = {Moved(*each) for each in grouped(moved, 1_000, 1_000).collect()}
    assert found == {
        Moved(came=0, arrived=0, bar=13, messages=1, first_ms=1_000),
        Moved(came=0, arrived=4, bar=18, messages=1, first_ms=1_500),
        Moved(came=1, arrived=None, bar=None, messages=1, first_ms=2_000),
        Moved(came=3, arrived=3, bar=-1, messages=1, first_ms=4_000),
    }


def test_of_many_messages_some_are_looked_at_by_their_ids_at_both_ends(spark: SparkSession) -> None:
    rows = [row(f"id-{n}", stage, 10 * n + stage) for n in range(400) for stage in (INGESTED, AUDITED)]
    found = movements(spark.createDataFrame(rows, ROW_TYPES), 4).collect()
    assert 50 <= len(found) <= 150
    assert all(each.arrived_ms - each.came_ms == AUDITED for each in found)


def test_the_age_is_that_of_the_oldest_on_its_way_at_each_step() -> None:
    found = [
        Moved(came=0, arrived=3, bar=17, messages=5, first_ms=100),
        Moved(came=1, arrived=1, bar=9, messages=7, first_ms=1_100),
        Moved(came=4, arrived=None, bar=None, messages=1, first_ms=4_500),
    ]
    told = ages(found, 0, 1_000)
    assert told[:6] == (0, 900, 1_900, 2_900, 0, 500)
    assert (len(told), told[-1]) == (STEPS + 1, STEPS * 1_000 - 4_500)
    assert bars(found) == {9: 7, 17: 5}


def test_the_page_has_every_plot_and_says_what_it_cannot_tell() -> None:
    verdict = judge_day(GOOD)
    page = render(verdict, Budget(), flow=FLOW, profile=PROFILE)
    assert page.count("<svg") == 5
    # Two alarms begin: the age passes two minutes, then five.
    assert page.count("<circle") == 2
    slow = derive(Trigger(interval_ms=60_000), Alarms(), Budget(), Mode.ADAPTER)
    assert "warn from 5 min on, page from 7 min on" in render(verdict, Budget(), flow=FLOW, profile=slow)
    assert "half within 1.1 s, 99 % within 3 s, all within 5.2 min" in page
    assert not re.search(r"<script|https?://|@import", page)
    assert "LogAppendTime" in render(verdict, Budget(), flow=replace(FLOW, is_stamped=False), profile=PROFILE)
    told = to_json(verdict, FLOW)["flow"]
    assert told["latency"]["bars"][1] == {"from_ms": 1_000.0, "messages": 40}
    assert told["oldest"][4]["age_ms"] == 310_000


def test_ticks_are_round_and_few() -> None:
    assert number_ticks(137_206) == [(0, "0"), (50_000, "50,000"), (100_000, "100,000")]
    assert [text for _, text in duration_ticks(456)] == ["0", "2 min", "4 min", "6 min"]
    assert [text for _, text in clock_ticks(0, 95_000)] == [
        "00:00:00", "00:00:15", "00:00:30", "00:00:45", "00:01:00", "00:01:15", "00:01:30",
    ]  # fmt: skip
    assert [duration(each) for each in (0, 340, 1_500, 90_000, 600_000, 7_200_000)] == [
        "0", "340 ms", "1.5 s", "1.5 min", "10 min", "2 h",
    ]  # fmt: skip

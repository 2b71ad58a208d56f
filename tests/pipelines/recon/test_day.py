"""Days and their states: nothing is called complete that nobody knows, and no reason hides a worse one."""

from dataclasses import replace
from datetime import date

import pytest

from holdfast.pipelines.config import Budget, EndState
from holdfast.pipelines.recon.day import (
    AHEAD_MS_MAX,
    REASONS_MAX,
    Counts,
    Day,
    DayState,
    Evidence,
    PartitionView,
    add_counts,
    judge_day,
)
from holdfast.pipelines.recon.law import Kind, Place, Stage
from holdfast.pipelines.recon.watermark import completion_watermark

DAY = Day(date=date(2026, 11, 14))
INGEST = PartitionView(
    stage=Stage.INGEST, topic="orders.in", partition=7, start=0, start_ms=DAY.start_ms, read_to=10, end=10
)
FULL = {DAY.start_ms: Counts(ingested=2, audited={EndState.QUALIFIED: 1, EndState.FAILED: 1})}
GOOD = Evidence(tenant="acme", day=DAY, now_ms=DAY.seal_ms, partitions=(INGEST,), windows=FULL, found={})


def test_a_day_has_its_windows_from_midnight_to_midnight() -> None:
    assert (DAY.start_ms, DAY.end_ms - DAY.start_ms) == (1_794_614_400_000, 86_400_000)
    assert (len(DAY.windows), DAY.windows[-1] + DAY.window_ms) == (144, DAY.end_ms)
    assert Day.of(DAY.start_ms) == Day.of(DAY.end_ms - 1) == DAY
    assert Day.of(DAY.end_ms) == Day.of(DAY.start_ms + 86_400_000) != DAY


def test_a_sealed_day_with_nothing_wrong_is_closed() -> None:
    verdict = judge_day(GOOD)
    assert (verdict.state, verdict.reasons, verdict.state.exit_code) == (DayState.CLOSED, (), 0)
    assert (verdict.total.ingested, verdict.total.ended) == (2, 2)


@pytest.mark.parametrize("kind", [Kind.MISSING, Kind.DUPLICATE, Kind.CONFLICTING, Kind.ORPHAN])
def test_whatever_breaks_the_law_leaves_the_day_open(kind: Kind) -> None:
    verdict = judge_day(replace(GOOD, found={kind: 3}))
    assert (verdict.state, verdict.reasons, verdict.state.exit_code) == (DayState.OPEN, (f"3 {kind}",), 1)


@pytest.mark.parametrize("kind", [Kind.LATE, Kind.UNPARSABLE])
def test_late_and_unparsable_messages_that_ended_leave_no_day_open(kind: Kind) -> None:
    assert judge_day(replace(GOOD, found={kind: 3})).state is DayState.CLOSED


@pytest.mark.parametrize(("found", "state"), [(2, DayState.CLOSED), (3, DayState.OPEN)])
def test_a_budget_bears_with_duplicates_up_to_its_share_and_says_so(found: int, state: DayState) -> None:
    evidence = replace(
        GOOD,
        windows={DAY.start_ms: Counts(ingested=100, audited={EndState.FAILED: 100})},
        found={Kind.DUPLICATE: found},
    )
    verdict = judge_day(evidence, Budget(duplicate=0.025))
    assert (verdict.state, verdict.reasons) == (state, (f"{found} duplicate; the budget bears 2",))
    assert judge_day(evidence).state is DayState.OPEN


def test_a_day_without_input_is_blind() -> None:
    verdict = judge_day(replace(GOOD, windows={}))
    assert (verdict.state, verdict.state.exit_code) == (DayState.BLIND, 4)
    assert judge_day(replace(GOOD, windows={}, found={Kind.ORPHAN: 1})).state is DayState.OPEN


def test_the_day_is_not_yet_over_before_its_seal() -> None:
    verdict = judge_day(replace(GOOD, now_ms=DAY.seal_ms - 1, found={Kind.MISSING: 1}))
    assert (verdict.state, verdict.state.exit_code) == (DayState.NOT_YET, 3)
    assert "2026-11-15 00:15:00 UTC" in verdict.reasons[0]


def test_an_open_transaction_or_a_forwarder_on_its_way_make_it_not_yet() -> None:
    held = replace(INGEST, read_to=8)
    verdict = judge_day(replace(GOOD, partitions=(held,)))
    assert verdict.state is DayState.NOT_YET
    assert "orders.in-7 is stable up to offset 8 of 10" in verdict.reasons[0]
    places = tuple(Place(topic="orders.qualified", partition=1, offset=offset) for offset in (5, 9))
    waiting = replace(GOOD, found={Kind.MISSING: 2}, waiting=places)
    verdict = judge_day(waiting)
    assert verdict.state is DayState.NOT_YET
    assert "2 messages" in verdict.reasons[0]
    assert "orders.qualified-1 at offset 5" in verdict.reasons[0]


def test_expired_or_compacted_input_is_said_before_anything_else() -> None:
    worst = replace(GOOD, now_ms=0, found={Kind.ORPHAN: 5})
    for view, words in (
        (replace(INGEST, start=3, start_ms=DAY.start_ms - AHEAD_MS_MAX), "begins at offset 3"),
        (replace(INGEST, start=10, start_ms=None), "begins at offset 10"),
        (replace(INGEST, compacted=True), "orders.in is compacted"),
    ):
        verdict = judge_day(replace(worst, partitions=(view,)))
        assert verdict.state is DayState.BLIND
        assert words in verdict.reasons[0]
    assert judge_day(replace(worst, partitions=())).state is DayState.BLIND


def test_what_has_expired_in_audit_may_have_ended_twice() -> None:
    audit = replace(INGEST, stage=Stage.AUDIT, topic="orders.audit", start=3, start_ms=DAY.start_ms)
    assert judge_day(replace(GOOD, partitions=(INGEST, audit))).state is DayState.BLIND


def test_a_log_that_was_cut_off_before_any_message_of_the_day_came_is_whole() -> None:
    """Midnight alone does not tell: the clock of a message may have been ahead by a day."""
    older = replace(INGEST, start=3, start_ms=DAY.start_ms - AHEAD_MS_MAX - 1)
    assert judge_day(replace(GOOD, partitions=(older,))).state is DayState.CLOSED
    empty = replace(INGEST, partition=8, start=0, start_ms=None, read_to=0, end=0)
    assert judge_day(replace(GOOD, partitions=(INGEST, empty))).state is DayState.CLOSED


def test_reasons_are_bounded() -> None:
    many = tuple(replace(INGEST, partition=number, read_to=1) for number in range(REASONS_MAX + 5))
    reasons = judge_day(replace(GOOD, partitions=many)).reasons
    assert (len(reasons), reasons[-1]) == (REASONS_MAX + 1, "and 5 more of the kind")


def test_counts_add_up() -> None:
    part = Counts(ingested=2, audited={EndState.FAILED: 1}, delivered={EndState.QUALIFIED: 4})
    total = add_counts([part, part, Counts()])
    assert (total.ingested, total.ended, total.delivered[EndState.QUALIFIED]) == (4, 2, 8)


def test_the_watermark_never_jumps_a_hole() -> None:
    first, second, third = (date(2026, 11, number) for number in (14, 15, 16))
    closed, is_open = DayState.CLOSED, DayState.OPEN
    assert completion_watermark({}) is None
    assert completion_watermark({first: is_open, second: closed}) is None
    assert completion_watermark({first: closed}) == first
    assert completion_watermark({first: closed, second: closed, third: closed}) == third
    assert completion_watermark({first: closed, third: closed}) == first
    for hole in (is_open, DayState.BLIND, DayState.NOT_YET):
        assert completion_watermark({first: closed, second: hole, third: closed}) == first

"""Faults in simulated time: the right alarm in time, none for what is healthy."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from holdfast.cli.watch import is_stale
from holdfast.pipelines.config import Alarms, Budget, Mode, Trigger
from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.evaluator import Alarm, AlarmKind, Evaluator, Severity
from holdfast.pipelines.watch.profile import derive
from holdfast.pipelines.watch.world import Canary, Forwarding, Mismatch, OpenTransaction, Spending, World

LOOK_MS = 5_000
SECOND_MS, HOUR_MS, DAY_MS = 1_000, 3_600_000, 86_400_000
RATE_PER_S = 289
"""25 million messages a day."""
START_MS = 1_794_614_400_000
WEEK_MS = 7 * DAY_MS


@dataclass
class Simulation:
    """A partition that is written to evenly, and an adapter that forwards it in micro-batches."""

    trigger_ms: int
    now_ms: int = START_MS
    written: int = 1_000
    undecided: int = 0
    """Written, but in a transaction that is open."""
    committed: int | None = 1_000
    forwarded: int = 1_000
    taken: int | None = None
    """What the batch at hand goes up to."""
    batch_began_ms: int = START_MS
    progressed_ms: int = START_MS
    transaction: OpenTransaction | None = None
    canaries: list[Canary] = field(default_factory=list)
    writes: bool = True
    runs: bool = True
    forwards: bool = True
    mismatches: tuple[Mismatch, ...] = ()
    failed: int = 0

    def pass_second(self) -> None:
        """Writes a second's messages, begins or ends a batch, sends a canary now and then."""
        self.now_ms += SECOND_MS
        if self.writes:
            if self.transaction is None:
                self.written += RATE_PER_S
            else:
                self.undecided += RATE_PER_S
        if self.now_ms % 30_000 == 0:
            offset = self.written + self.undecided
            canary = Canary(topic="q", partition=0, offset=offset, sent_ms=self.now_ms, seen_ms=None)
            self.canaries.append(canary)
            if self.transaction is None:
                self.written += 1
            else:
                self.undecided += 1
        if self.runs:
            self.run_adapter()

    def run_adapter(self) -> None:
        """A batch takes nearly as long as its trigger: the slowest that is healthy."""
        if self.taken is not None and self.now_ms - self.batch_began_ms >= self.trigger_ms * 9 // 10:
            self.committed, self.progressed_ms = self.taken, self.now_ms
            if self.forwards:
                self.forwarded = self.taken
                for number, canary in enumerate(self.canaries):
                    if canary.offset < self.forwarded and canary.seen_ms is None:
                        self.canaries[number] = replace(canary, seen_ms=self.now_ms)
            self.taken = None
        if self.taken is None and self.now_ms - self.batch_began_ms >= self.trigger_ms:
            self.batch_began_ms, self.taken = self.now_ms, self.written

    def world(self) -> World:
        """What a watcher sees."""
        waiting = self.committed is not None and self.committed < self.written
        forwarding = Forwarding(
            group="a-audit",
            topic="q",
            partition=0,
            log_start=0,
            stable_end=self.written,
            log_end=self.written + self.undecided,
            committed=self.committed,
            oldest_ms=self.now_ms - (self.written - (self.committed or 0)) * 1000 // RATE_PER_S
            if waiting
            else None,
            retention_ms=WEEK_MS,
            transaction=self.transaction,
        )
        spending = Spending(tenant="acme", expected=25_000_000, failed=self.failed)
        return World(
            now_ms=self.now_ms,
            forwardings=(forwarding,),
            canaries=tuple(self.canaries[-20:]),
            mismatches=self.mismatches,
            spendings=(spending,),
            progressed_ms=self.progressed_ms,
        )


def evaluator(trigger_ms: int) -> Evaluator:
    return Evaluator(derive(Trigger(interval_ms=trigger_ms), Alarms(), Budget(), Mode.ADAPTER), Commands())


def first_alarm(simulation: Simulation, watcher: Evaluator, seconds_max: int) -> tuple[int, list[Alarm]]:
    """Seconds until any alarm, and all that are raised at that look."""
    began_ms = simulation.now_ms
    while simulation.now_ms - began_ms < seconds_max * SECOND_MS:
        simulation.pass_second()
        if simulation.now_ms % LOOK_MS == 0 and (alarms := watcher.look(simulation.world())):
            return (simulation.now_ms - began_ms) // SECOND_MS, alarms
    return seconds_max, []


def freeze(simulation: Simulation) -> None:
    """Heartbeats go on, forwarding does not; the query still tells that it lives."""
    simulation.runs = False


def commit_without_forwarding(simulation: Simulation) -> None:
    simulation.forwards = False


def leave_a_transaction_open(simulation: Simulation) -> None:
    simulation.transaction = OpenTransaction(
        producer_id=77,
        transactional_id="orders-7",
        opened_ms=simulation.now_ms,
        first_offset=simulation.written,
    )


def delete_the_group(simulation: Simulation) -> None:
    simulation.runs, simulation.committed = False, None


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (freeze, AlarmKind.STALLED),
        (commit_without_forwarding, AlarmKind.CANARY),
        (leave_a_transaction_open, AlarmKind.BLOCKED),
        (delete_the_group, AlarmKind.BLIND),
    ],
)
@pytest.mark.parametrize("healthy_seconds", [300, 317])
def test_a_fault_is_seen_within_90_seconds_for_what_it_is(
    fault: Callable[[Simulation], None], kind: AlarmKind, healthy_seconds: int
) -> None:
    simulation, watcher = Simulation(trigger_ms=10_000), evaluator(10_000)
    assert first_alarm(simulation, watcher, healthy_seconds) == (healthy_seconds, [])
    fault(simulation)
    seconds, alarms = first_alarm(replaced_progress(simulation, fault), watcher, 200)
    assert seconds <= 90
    assert {alarm.kind for alarm in alarms} == {kind}
    assert alarms[0].topic == "q"
    assert alarms[0].run.startswith("holdfast ")
    assert alarms[0].tenants == ("acme",)
    assert alarms[0].budget_minutes_left is not None
    assert 10 <= alarms[0].budget_minutes_left <= 14


def test_a_watcher_that_stops_to_look_is_stale_within_90_seconds_and_one_that_looks_never_is() -> None:
    last_look_ms = START_MS
    for now_ms in range(START_MS, START_MS + HOUR_MS, SECOND_MS):
        if (now_ms - START_MS) % LOOK_MS == 0:
            last_look_ms = now_ms
        assert not is_stale(now_ms, last_look_ms, LOOK_MS)
    silent = next(s for s in range(200) if is_stale(last_look_ms + s * SECOND_MS, last_look_ms, LOOK_MS))
    assert silent <= 90


def replaced_progress(simulation: Simulation, fault: Callable[[Simulation], None]) -> Simulation:
    """A forwarder whose thread is dead goes on to report; only a hung query falls silent."""
    if fault is not commit_without_forwarding:
        simulation.progressed_ms = simulation.now_ms + HOUR_MS
    return simulation


def test_the_blocked_alarm_names_the_producer_and_where_it_began() -> None:
    simulation, watcher = Simulation(trigger_ms=10_000), evaluator(10_000)
    first_alarm(simulation, watcher, 60)
    leave_a_transaction_open(simulation)
    began = simulation.written
    _, alarms = first_alarm(simulation, watcher, 200)
    assert "orders-7 (producer 77)" in alarms[0].what
    assert (alarms[0].offset, alarms[0].run) == (began, "holdfast txn describe orders-7")
    assert alarms[0].waiting == simulation.undecided


@pytest.mark.parametrize("trigger_ms", [10_000, 300_000])
def test_an_hour_of_healthy_micro_batches_is_quiet(trigger_ms: int) -> None:
    simulation = Simulation(trigger_ms=trigger_ms)
    assert first_alarm(simulation, evaluator(trigger_ms), 3_600) == (3_600, [])
    assert simulation.forwarded > 1_000


def test_an_idle_transactional_topic_is_quiet() -> None:
    simulation = Simulation(trigger_ms=10_000, writes=False)
    assert first_alarm(simulation, evaluator(10_000), 1_200) == (1_200, [])


def test_a_hung_query_falls_silent() -> None:
    simulation, watcher = Simulation(trigger_ms=10_000, writes=False), evaluator(10_000)
    first_alarm(simulation, watcher, 60)
    simulation.runs = False
    seconds, alarms = first_alarm(simulation, watcher, 200)
    assert seconds <= 90
    assert AlarmKind.NO_PROGRESS in {alarm.kind for alarm in alarms}


def test_what_is_in_doubt_counts_as_spent_until_the_budget_is_gone() -> None:
    """A full stall of 25 million messages a day eats 1 % in 14.4 minutes."""
    simulation, watcher = Simulation(trigger_ms=10_000), evaluator(10_000)
    first_alarm(simulation, watcher, 300)
    freeze(simulation)
    began_ms, seen = simulation.now_ms, 0
    while not seen and simulation.now_ms - began_ms < HOUR_MS:
        simulation.pass_second()
        if simulation.now_ms % LOOK_MS == 0:
            alarms = watcher.look(simulation.world())
            seen = any(alarm.kind is AlarmKind.BUDGET for alarm in alarms)
    minutes = (simulation.now_ms - began_ms) / 60_000
    assert 14.4 <= minutes <= 17
    assert {AlarmKind.AGE, AlarmKind.STALLED} <= {alarm.kind for alarm in alarms}
    assert next(alarm for alarm in alarms if alarm.kind is AlarmKind.AGE).severity is Severity.PAGE


def test_failures_alone_spend_the_budget() -> None:
    simulation, watcher = Simulation(trigger_ms=10_000, failed=250_000), evaluator(10_000)
    assert first_alarm(simulation, watcher, 60)[1] == []
    simulation.failed = 250_001
    _, [alarm] = first_alarm(simulation, watcher, 60)
    assert (alarm.kind, alarm.tenants) == (AlarmKind.BUDGET, ("acme",))
    assert alarm.run == "holdfast recon report acme 2026-11-14"


def test_books_that_do_not_balance_are_an_alarm_at_once() -> None:
    simulation, watcher = Simulation(trigger_ms=300_000), evaluator(300_000)
    simulation.mismatches = (Mismatch(tenant="birch", window_ms=START_MS, ingested=5, ended=5),)
    _, [alarm] = first_alarm(simulation, watcher, 60)
    assert (alarm.kind, alarm.tenants, alarm.run) == (
        AlarmKind.CONSERVATION,
        ("birch",),
        "holdfast recon close birch 2026-11-14",
    )
    assert (
        "window of 00:00 UTC, 5 of birch's messages came in, and as many ended, but not the same"
        in alarm.what
    )


def test_the_runway_is_told_before_retention_takes_anything() -> None:
    watcher = evaluator(10_000)
    base = Simulation(trigger_ms=10_000).world().forwardings[0]

    def runway(left_ms: int, **changes: object) -> list[Severity]:
        waiting = replace(
            base,
            committed=500,
            oldest_ms=START_MS + left_ms - WEEK_MS,
            **changes,  # type: ignore[arg-type]
        )
        alarms = watcher.look(World(now_ms=START_MS, forwardings=(waiting,)))
        return [alarm.severity for alarm in alarms if alarm.kind is AlarmKind.RUNWAY]

    assert runway(25 * HOUR_MS) == []
    assert runway(23 * HOUR_MS) == [Severity.WARN]
    assert runway(3 * HOUR_MS) == [Severity.PAGE]
    assert runway(3 * HOUR_MS, retention_ms=None) == []


def test_a_partition_that_vanishes_from_sight_is_blind_and_not_healthy() -> None:
    simulation, watcher = Simulation(trigger_ms=10_000), evaluator(10_000)
    first_alarm(simulation, watcher, 60)
    gone = World(now_ms=simulation.now_ms + 10_000)
    assert watcher.look(gone) == []
    [alarm] = watcher.look(replace(gone, now_ms=simulation.now_ms + 40_000))
    assert (alarm.kind, alarm.topic) == (AlarmKind.BLIND, "q")


def test_a_group_that_has_never_been_is_given_time_to_begin() -> None:
    simulation, watcher = Simulation(trigger_ms=60_000, runs=False, committed=None), evaluator(60_000)
    simulation.progressed_ms = START_MS + HOUR_MS
    seconds, [alarm, *_] = first_alarm(simulation, watcher, 400)
    assert alarm.kind is AlarmKind.BLIND
    assert 180 <= seconds <= 190


def test_a_canary_is_given_as_long_as_the_trigger_needs_to_show_it_in_audit() -> None:
    watcher = evaluator(300_000)
    base = Simulation(trigger_ms=300_000).world()
    canary = Canary(topic="q", partition=0, offset=10, sent_ms=START_MS, seen_ms=None)
    for seconds, expected in ((60, []), (899, []), (900, [AlarmKind.CANARY])):
        world = World(now_ms=START_MS + seconds * SECOND_MS, forwardings=base.forwardings, canaries=(canary,))
        assert [alarm.kind for alarm in watcher.look(world)] == expected

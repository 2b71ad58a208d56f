"""Healthy micro-batches in simulated time, one step after the other: slow ones are quiet, stalled ones are told."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from holdfast.pipelines.config import Mode, Pipeline, Trigger
from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.evaluator import Alarm, AlarmKind, Evaluator
from holdfast.pipelines.watch.observer import Watched, watched
from holdfast.pipelines.watch.profile import derive
from holdfast.pipelines.watch.world import Canary, Forwarding, World
from tests.pipelines.files import make_pipeline

START_MS = 1_794_614_400_000
SECOND_MS = 1_000
LOOK_S = 5
HOUR_S = 3_600


@dataclass
class Step:
    """A group that takes all that is there when a trigger is due, and forwards and commits it when the batch ends."""

    of: Watched
    trigger_s: int
    batch_s: int
    due_s: int
    """When the next batch begins, after the start."""
    times_ms: list[int] = field(default_factory=list)
    """Of the records that it reads, by offset: those at which they were ingested."""
    committed: int = 0
    taken: int = 0
    ends_s: int | None = None
    """When the batch at hand does."""
    progressed_ms: int = START_MS
    runs: bool = True

    def pass_second(self, now_s: int) -> list[int]:
        """The times of what was forwarded."""
        forwarded: list[int] = []
        if self.ends_s is not None and now_s >= self.ends_s and self.runs:
            forwarded = self.times_ms[self.committed : self.taken]
            self.committed, self.progressed_ms, self.ends_s = self.taken, START_MS + now_s * SECOND_MS, None
        if self.ends_s is None and now_s >= self.due_s and self.runs:
            self.taken, self.ends_s = len(self.times_ms), now_s + self.batch_s
            self.due_s += self.trigger_s
        return forwarded

    def forwarding(self) -> Forwarding:
        """What a watcher sees of it."""
        end = len(self.times_ms)
        return Forwarding(
            group=self.of.group,
            topic=self.of.topic,
            partition=0,
            step=self.of.step,
            log_start=0,
            stable_end=end,
            log_end=end,
            committed=self.committed,
            oldest_ms=self.times_ms[self.committed] if self.committed < end else None,
        )


class Simulation:
    """A message every second, and the steps of a pipeline: what one brings, the next has just missed."""

    def __init__(self, pipeline: Pipeline, *, batch_s: int) -> None:
        trigger_s = pipeline.trigger.interval_ms // 1000
        self.now_s = 0
        self.steps = [
            Step(each, trigger_s, batch_s, due_s=trigger_s + number * (batch_s - 1))
            for number, each in enumerate(watched(pipeline))
        ]
        self.canaries: list[Canary] = []
        self._canary_s = pipeline.alarms.canary_ms // 1000

    def pass_second(self) -> None:
        """What is forwarded by one step comes to the next; where that is an adapter, canaries come, too."""
        self.now_s += 1
        now_ms = START_MS + self.now_s * SECOND_MS
        came = [now_ms]
        for step in self.steps:
            step.times_ms += came
            if step.of.step and self.now_s % self._canary_s == 0:
                self.canaries.append(
                    Canary(
                        topic=step.of.topic,
                        partition=0,
                        offset=len(step.times_ms),
                        sent_ms=now_ms,
                        seen_ms=None,
                    )
                )
                step.times_ms.append(now_ms)
            came = step.pass_second(self.now_s)
        self.canaries = [
            replace(each, seen_ms=now_ms)
            if each.seen_ms is None and each.offset < self.steps[-1].committed
            else each
            for each in self.canaries
        ]

    def world(self) -> World:
        """What a watcher sees."""
        return World(
            now_ms=START_MS + self.now_s * SECOND_MS,
            forwardings=tuple(each.forwarding() for each in self.steps),
            canaries=tuple(self.canaries),
            progressed_ms=min(each.progressed_ms for each in self.steps),
        )


def first_alarms(simulation: Simulation, watcher: Evaluator, seconds: int) -> tuple[int, list[Alarm]]:
    """After how many seconds the first are raised, and which; none within the whole time."""
    for passed in range(seconds):
        simulation.pass_second()
        if simulation.now_s % LOOK_S == 0 and (alarms := watcher.look(simulation.world())):
            return passed + 1, alarms
    return seconds, []


def make(directory: Path, mode: Mode, trigger_s: int) -> tuple[Pipeline, Evaluator]:
    made = make_pipeline(directory, mode=mode.value, prefix="rhythm")
    made = replace(made, trigger=Trigger(interval_ms=trigger_s * SECOND_MS))
    return made, Evaluator(derive(made.trigger, made.alarms, made.budget, made.mode), Commands())


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("trigger_s", "batch_s"), [(10, 9), (60, 55), (300, 170), (300, 295)])
def test_an_hour_of_healthy_micro_batches_is_quiet_in_every_mode(
    tmp_path: Path, mode: Mode, trigger_s: int, batch_s: int
) -> None:
    """An adapter's messages have waited for the service already when they come to it."""
    pipeline, watcher = make(tmp_path, mode, trigger_s)
    simulation = Simulation(pipeline, batch_s=batch_s)
    assert first_alarms(simulation, watcher, HOUR_S) == (HOUR_S, [])
    assert simulation.steps[-1].committed > HOUR_S - 5 * trigger_s
    assert len(simulation.steps) == (2 if mode is Mode.ADAPTER else 1)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("healthy_s", [300, 307])
def test_a_step_that_stalls_is_told_within_90_seconds_as_stalled(
    tmp_path: Path, step: int, healthy_s: int
) -> None:
    pipeline, watcher = make(tmp_path, Mode.ADAPTER, 10)
    simulation = Simulation(pipeline, batch_s=9)
    assert first_alarms(simulation, watcher, healthy_s) == (healthy_s, [])
    simulation.steps[step].runs = False
    seconds, alarms = first_alarms(simulation, watcher, HOUR_S)
    assert seconds <= 90
    assert AlarmKind.STALLED in {alarm.kind for alarm in alarms}
    assert {alarm.group for alarm in alarms} <= {simulation.steps[step].of.group, None}


def test_micro_batches_that_take_twice_as_long_as_they_may_are_told_by_the_age(tmp_path: Path) -> None:
    """What is allowed to an adapter is no licence: it is one trigger more than a healthy one can need."""
    pipeline, watcher = make(tmp_path, Mode.ADAPTER, 300)
    simulation = Simulation(pipeline, batch_s=295)
    first_alarms(simulation, watcher, HOUR_S)
    for each in simulation.steps:
        each.batch_s = 700
    _, alarms = first_alarms(simulation, watcher, HOUR_S)
    assert AlarmKind.AGE in {alarm.kind for alarm in alarms}

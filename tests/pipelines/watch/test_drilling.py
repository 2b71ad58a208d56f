"""What a drill takes for an alarm and for the end of one: real thresholds in simulated time."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from holdfast.cli import recon_drill
from holdfast.cli.recon_drill import Report, run_drill
from holdfast.errors import PipelineRefused
from holdfast.pipelines.config import Alarms, Budget, Mode, Trigger
from holdfast.pipelines.drill import Crash, Dup, Fault, Hang, Lost, Stall
from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.evaluator import AlarmKind
from holdfast.pipelines.watch.journal import Journal
from holdfast.pipelines.watch.profile import derive
from tests.pipelines.watch.test_evaluator import LOOK_MS, RATE_PER_S, SECOND_MS, START_MS, Simulation

HEALTHY_S = 300


class Frozen(Fault):
    """The simulation's adapter; its heart goes on beating or stops with it."""

    cure = "it goes on"

    def __init__(self, simulation: Simulation, like: type[Fault], *, beats: bool) -> None:
        self.kinds, self.echoes = like.kinds, like.echoes
        self._simulation, self._beats = simulation, beats
        self.was_injected = False

    def inject(self) -> None:
        """See Fault."""
        self.was_injected = True
        self._simulation.runs = False
        if self._beats:
            self._simulation.progressed_ms += 3_600 * SECOND_MS

    def undo(self) -> None:
        """See Fault."""
        self._simulation.runs = True


class Watched:
    """A watcher of a simulation, which looks whenever it is asked what is wrong."""

    def __init__(self) -> None:
        self.simulation = Simulation(trigger_ms=10_000)
        profile = derive(Trigger(interval_ms=10_000), Alarms(), Budget(), Mode.ADAPTER)
        self._journal = Journal("p", profile, Commands(), interval_ms=LOOK_MS)
        self.is_away: Callable[[], bool] = lambda: False

    def alarms(self) -> list[dict[str, Any]]:
        """As they come over HTTP."""
        for _ in range(LOOK_MS // SECOND_MS):
            self.simulation.pass_second()
        if self.is_away():
            self._journal.fail(self.simulation.now_ms, "nobody answers")
        else:
            self._journal.note(self.simulation.world())
        found: list[dict[str, Any]] = json.loads(json.dumps([asdict(each) for each in self._journal.alarms]))
        return found

    def be_healthy(self) -> None:
        """For a while."""
        while self.simulation.now_ms < START_MS + HEALTHY_S * SECOND_MS:
            assert self.alarms() == []

    def fall_behind(self) -> None:
        """By almost as much as is told, since a while ago; the adapter goes on all the same."""
        self.simulation.written += 100 * RATE_PER_S


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(recon_drill, "POLL_S", 0.0)
    made = Watched()
    made.be_healthy()
    return made


@pytest.mark.parametrize(
    ("like", "beats", "alarm"),
    [
        (Stall, True, "stalled"),
        (Stall, False, "stalled"),
        (Crash, True, "stalled"),
        (Crash, False, "no-progress"),
    ],
)
def test_a_fault_is_told_by_an_alarm_that_is_made_for_it_though_others_come_before(
    watched: Watched, like: type[Fault], beats: bool, alarm: str
) -> None:
    """A pipeline that was behind already is soon told as too late, and a frozen process as silent."""
    watched.fall_behind()
    began_ms = watched.simulation.now_ms
    report = Report(fault="x")
    run_drill(Frozen(watched.simulation, like, beats=beats), report, watched.alarms, 60)
    assert report.alarm == alarm
    assert report.repair_s is not None
    assert watched.simulation.now_ms - began_ms >= 60 * SECOND_MS


@pytest.mark.parametrize("like", [Stall, Crash])
def test_nothing_is_broken_while_something_is_wrong_that_could_be_taken_for_it(
    watched: Watched, like: type[Fault]
) -> None:
    watched.simulation.runs = False
    while "age" not in {alarm["kind"] for alarm in watched.alarms()}:
        pass
    fault = Frozen(watched.simulation, like, beats=True)
    with pytest.raises(PipelineRefused, match="an alarm already that comes of x: age"):
        run_drill(fault, Report(fault="x"), watched.alarms, 60)
    assert not fault.was_injected


def test_a_fault_is_over_when_all_that_came_of_it_is(watched: Watched) -> None:
    """Whoever goes on has to catch up yet."""
    looks = iter([[], ["stalled"], ["age", "stalled"], ["age"], ["age", "conservation"], ["conservation"]])
    report = Report(fault="x")
    run_drill(
        Frozen(watched.simulation, Stall, beats=True),
        report,
        lambda: [{"kind": kind, "what": kind} for kind in next(looks)],
        60,
    )
    assert (report.alarm, report.repair_s is not None) == ("stalled", True)
    assert list(looks) == []


def test_a_fault_is_not_over_because_nobody_sees_it(watched: Watched) -> None:
    """While the cluster is away nobody knows anything."""
    fault = Frozen(watched.simulation, Stall, beats=True)
    seen: list[list[str]] = []
    left_ms: list[int] = []

    def alarms() -> list[dict[str, Any]]:
        if watched.simulation.runs and seen and not left_ms:
            left_ms.append(watched.simulation.now_ms)
        found = watched.alarms()
        seen.append([alarm["kind"] for alarm in found])
        return found

    watched.is_away = lambda: bool(left_ms) and watched.simulation.now_ms - left_ms[0] < 60 * SECOND_MS
    report = Report(fault="x")
    run_drill(fault, report, alarms, 60)
    assert (report.alarm, report.repair_s is not None) == ("stalled", True)
    assert any(AlarmKind.BLIND in kinds for kinds in seen)
    assert watched.simulation.now_ms - left_ms[0] >= 60 * SECOND_MS


@pytest.mark.parametrize("fault", [Stall, Crash, Lost, Hang, Dup])
def test_what_a_fault_is_told_by_is_no_mere_echo(fault: type[Fault]) -> None:
    """Slowness is no proof of anything that stands still."""
    assert fault.kinds
    assert not fault.kinds & fault.echoes
    assert AlarmKind.AGE not in fault.kinds

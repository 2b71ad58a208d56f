"""Whatever happens in whatever order, wherever the guard is killed: settings come back exactly, never too early."""

from collections.abc import Sequence
from random import Random

import pytest

from holdfast.errors import HoldfastError
from holdfast.guard.decide import Alter, Decider, Examine, Settings
from holdfast.guard.lever import Lags, mark_of
from holdfast.guard.run import Guard
from holdfast.guard.sight import Look, Verdict
from holdfast.guard.state import Stage, State
from tests.guard.cluster_model import NODES, RETENTION_MS, ClusterModel

SEEDS_PER_TEST = 20
SEEDS = range(0, 300, SEEDS_PER_TEST)
EVENTS = 80
SETTINGS = Settings(margin_ms=5_000, examine_again_ms=20_000)
OWNERS = (
    Lags(),
    Lags("0"),
    Lags("1000", "90000"),
    Lags(None, "70000"),
    Lags("0", None),
    Lags("60000", "80000"),
)
LATE_MS = RETENTION_MS // 2


class Killed(Exception):
    """SIGKILL."""


class Life:
    """A guard that is killed now and then, and started again from what it has written."""

    def __init__(self, model: ClusterModel, rng: Random | None) -> None:
        self.model = model
        self.written = State(cluster_id="c", mark=77)
        self.kills = 0
        self.stages: set[Stage] = set()
        self._rng = rng
        self._start()

    def _start(self) -> None:
        self.guard = Guard(
            self.written,
            world=self,
            doctor=self,
            decider=Decider(SETTINGS),
            write=self._write,
        )

    def turn(self) -> None:
        """One turn, or as much of it as the guard lives for."""
        try:
            self.guard.turn()
        except Killed:
            self.kills += 1
            self.model.asked = []
            self._start()
        except HoldfastError:
            pass

    def _maybe_die(self) -> None:
        if self._rng is not None and self._rng.random() < 0.08:
            raise Killed

    def _write(self, state: State) -> None:
        self._maybe_die()
        self.written = state
        self.stages |= {hold.stage for hold in state.holds}
        self._maybe_die()

    def alter(self, step: Alter) -> None:
        self._maybe_die()
        assert self.written.hold_of(step.topic), "a step that is not written down"
        self.model.alter(step)
        self._maybe_die()

    def look(self, state: State, verdicts: Sequence[Verdict]) -> Look:
        self._maybe_die()
        return self.model.look(state, verdicts)

    def begin(self, step: Examine) -> None:
        self.model.begin(step)
        self._maybe_die()

    def collect(self) -> list[Verdict]:
        return self.model.collect()


def happen(rng: Random, model: ClusterModel) -> None:
    """One event."""
    number = rng.choice(NODES)
    kind = rng.choice(
        (
            "away",
            "away",
            "cut",
            "back",
            "back",
            "catch",
            "catch",
            "catch",
            "leader",
            "owner",
            "write",
            "time",
            "late",
            "flaky",
        )
    )
    if kind in ("away", "cut"):
        model.take_away(number, cut_off=kind == "cut")
    elif kind == "back":
        model.bring_back(number)
    elif kind == "catch":
        model.catch_up(number)
    elif kind == "leader":
        model.change_leader(number)
    elif kind == "owner":
        if not any(node.cut_off or not node.alive for node in model.nodes.values()):
            model.spread()
            model.change_owner(rng.choice(OWNERS))
    elif kind == "write":
        model.write()
    elif kind == "flaky":
        model.refuses, model.loses_answers = rng.choice(((False, False), (True, False), (False, True)))
    else:
        model.pass_time(
            rng.choice((500, 3_000)) if kind == "time" else rng.choice((LATE_MS, 2 * RETENTION_MS))
        )


def settle(life: Life) -> None:
    """Everybody comes back, nothing fails any more, and time passes until the guard has nothing left to do."""
    model = life.model
    model.refuses = model.loses_answers = False
    for number in NODES:
        model.bring_back(number)
    for number in NODES:
        model.catch_up(number)
    for turns in range(200):
        life.turn()
        model.spread()
        model.pass_time(1_000)
        if turns > 10 and not life.written.holds:
            return
    raise AssertionError(f"still held: {life.written.holds}")


@pytest.mark.parametrize("first", SEEDS)
def test_settings_come_back_and_never_too_early(first: int) -> None:
    """Deaths of the guard at every step among them; half of the seeds are without."""
    for seed in range(first, first + SEEDS_PER_TEST):
        run(seed)


def run(seed: int) -> None:
    """One order of events and its end."""
    rng = Random(seed)
    model = ClusterModel(owner=rng.choice(OWNERS))
    life = Life(model, rng if seed % 2 else None)
    for _ in range(EVENTS):
        happen(rng, model)
        for _ in range(rng.choice((0, 1, 1, 2))):
            life.turn()
            model.pass_time(200)
            if rng.random() < 0.7:
                model.spread()
    settle(life)
    assert model.settings == model.owner, f"seed {seed}"
    assert model.restored_unsafely == [], f"seed {seed}"
    assert mark_of(model.settings) is None


def test_the_orders_reach_all_stages() -> None:
    """Otherwise the test above would prove nothing: pauses, overrides, restores, kills and examinations all occur."""
    stages: set[Stage] = set()
    kills = answers = 0
    for seed in range(1, 80, 2):
        rng = Random(seed)
        model = ClusterModel()
        life = Life(model, rng)
        for _ in range(EVENTS):
            happen(rng, model)
            life.turn()
            model.spread()
        settle(life)
        stages |= life.stages
        kills += life.kills
        answers += model.answers
    assert stages == set(Stage)
    assert kills > 50
    assert answers > 50

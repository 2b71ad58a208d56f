"""Search random schedules for one that breaks an invariant; one seed is always the same schedule."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from holdfast.lab import steps
from holdfast.lab.engines.model import Model
from holdfast.lab.engines.partition import StepError
from holdfast.lab.invariants import Checker, Violation
from holdfast.lab.schedule import RETENTION_MS, Scheduler, Setting, setting_of
from holdfast.rules.transaction import Outcome

REST_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A schedule that ends in a violation, by the steps that took effect."""

    seed: int
    setting: Setting
    steps: tuple[steps.Step, ...]
    violation: Violation
    at_rest: bool
    """It showed only after the schedule, when everybody was brought back."""


class Run:
    """One schedule on one model, checked after every step."""

    def __init__(self, setting: Setting) -> None:
        self.model = Model(policy=setting.policy, replicas=setting.replicas, config=setting.config)
        self.checker = Checker(self.model)
        self.taken: list[steps.Step] = []

    def take(self, step: steps.Step) -> Violation | None:
        """Take a step if the model allows it, and check."""
        try:
            self.model.apply(step)
        except StepError:
            # A leader that stops itself refuses the step, but has stopped.
            return self.checker.check(step) if self._halted() else None
        self.taken.append(step)
        return self.checker.check(step)

    def _halted(self) -> bool:
        return any(replica.halted is not None for replica in self.model.replicas.values())

    def finish(self) -> Violation | None:
        """Bring everybody back, let time pass, and look through every replica as leader."""
        for step in self._finale():
            violation = self.take(step)
            if violation is not None:
                return violation
        return self.checker.at_rest()

    def _finale(self) -> Iterator[steps.Step]:
        model = self.model
        for number in list(model.replicas):
            if not model.replicas[number].alive:
                yield steps.Return(number)
            if not model.replicas[number].alive:
                yield steps.Leave(number)
                yield steps.Join(number)
        yield steps.AwaitIsr()
        yield steps.Exchange()
        yield steps.AwaitIsr()
        for name, producer in model.producers.items():
            if producer.instance:
                yield steps.End(name, Outcome.ABORTED)
        if model.policy == "coordinated":
            for _ in range(REST_ROUNDS):
                yield steps.Advance(RETENTION_MS + 1)
                for number in list(model.replicas):
                    yield steps.Clean(number)
                yield steps.Exchange()
        for number in list(model.replicas):
            yield steps.ForceLeader(number)


def run_seed(seed: int, policy: str, replicas: int | None = None) -> Found | None:
    """Play one seed's schedule; what it found, if anything."""
    rng = Random(seed)
    setting = setting_of(rng, policy, replicas)
    run = Run(setting)
    scheduler = Scheduler(rng, run.model)
    return _found(seed, setting, run, (scheduler.next() for _ in range(setting.length)))


def replay(found: Found, schedule: Iterable[steps.Step]) -> Found | None:
    """Take other steps in the same setting; what they find, if anything."""
    return _found(found.seed, found.setting, Run(found.setting), schedule)


def _found(seed: int, setting: Setting, run: Run, schedule: Iterable[steps.Step]) -> Found | None:
    violation = next(filter(None, map(run.take, schedule)), None)
    taken = tuple(run.taken)
    at_rest = violation is None
    if violation is None:
        violation = run.finish()
    if violation is None:
        return None
    return Found(seed=seed, setting=setting, steps=taken, violation=violation, at_rest=at_rest)

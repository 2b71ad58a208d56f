"""Search random schedules for one that breaks an invariant; one seed is always the same schedule."""

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import get_context
from random import Random

from holdfast.errors import OutcomeMissing
from holdfast.lab import steps
from holdfast.lab.coordination import Unsettled
from holdfast.lab.engines.engine import StepError
from holdfast.lab.engines.model import Model
from holdfast.lab.guards import without
from holdfast.lab.invariants import Checker
from holdfast.lab.schedule import Scheduler
from holdfast.lab.setting import RETENTION_MS, Setting, setting_of
from holdfast.lab.steps import Step
from holdfast.lab.violation import Violation
from holdfast.rules.transaction import NO_INSTANCE, Outcome

PART_SEEDS = 100


Kind = tuple[str, str | None]
"""The invariant that broke, and the variant of Kafka's harm if it is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A schedule that ends in a violation, by the steps that took effect."""

    seed: int
    setting: Setting
    steps: tuple[Step, ...]
    violation: Violation
    rest: tuple[Step, ...] = ()
    """If it showed only after the schedule: how everybody was brought back until it did."""

    @property
    def kind(self) -> Kind:
        """In which way it fails."""
        return (self.violation.invariant, self.violation.variant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What to search: which seeds, under which policy, with which guards taken out."""

    policy: str = "coordinated"
    first_seed: int = 0
    seeds: int = 1
    replicas: int | None = None
    without: tuple[str, ...] = ()
    readers_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What some of the seeds gave: how many failed in which way, and the first of each."""

    seeds: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    first: Mapping[Kind, Found] = field(default_factory=dict)

    def plus(self, other: "Part") -> "Part":
        """Both together; the lower seed stands for its kind, whichever part was done first."""
        first = dict(self.first)
        for kind, found in other.first.items():
            if kind not in first or found.seed < first[kind].seed:
                first[kind] = found
        return Part(seeds=self.seeds + other.seeds, counts=self.counts + other.counts, first=first)


class Run:
    """One schedule on one model, checked after every step."""

    def __init__(self, setting: Setting) -> None:
        self.model = Model(policy=setting.policy, replicas=setting.replicas, config=setting.config)
        self.checker = Checker(self.model, readers_only=setting.readers_only)
        self.taken: list[Step] = []

    def take(self, step: Step) -> Violation | None:
        """Take a step if the model allows it, and check."""
        self.taken.append(step)
        try:
            self.model.apply(step)
            return self.checker.check(step)
        except StepError:
            self.taken.pop()
            # A leader that stops itself refuses the step, but has stopped.
            return self.checker.check(step) if self._halted() else None
        except OutcomeMissing as missing:
            return Violation(invariant="halted", what=f"a pass or a reader had to stop: {missing}")
        except (Unsettled, RecursionError) as endless:
            # A leader's messages to its own replica are answered at once: without end, that is a recursion.
            return Violation(invariant="settling", what=f"the protocol does not come to rest: {endless}")

    def _halted(self) -> bool:
        return any(replica.halted is not None for replica in self.model.replicas.values())

    def finish(self) -> Violation | None:
        """Bring everybody back, let time pass, and look through every replica as leader."""
        for step in self._finale():
            violation = self.take(step)
            if violation is not None:
                return violation
        return self.checker.at_rest()

    def _finale(self) -> Iterator[Step]:
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
            if producer.instance != NO_INSTANCE:
                yield steps.End(name, Outcome.ABORTED)
        if model.policy == "coordinated":
            # All are clean, all hear of it, grace passes, and what may be forgotten goes.
            yield from self._clean_all()
            yield steps.Exchange()
            yield from self._clean_all()
        for number in list(model.replicas):
            yield steps.ForceLeader(number)

    def _clean_all(self) -> Iterator[Step]:
        yield steps.Advance(RETENTION_MS + 1)
        yield from (steps.Clean(number) for number in list(self.model.replicas))


def run_seed(seed: int, search: Search) -> Found | None:
    """Play one seed's schedule; what it found, if anything."""
    rng = Random(seed)
    setting = setting_of(rng, search.policy, search.replicas, readers_only=search.readers_only)
    run = Run(setting)
    scheduler = Scheduler(rng, run.model)
    return _found(seed, setting, run, (scheduler.next() for _ in range(setting.length)))


def replay(found: Found, schedule: Iterable[Step]) -> Found | None:
    """Take other steps in the same setting; what they find, if anything."""
    return _found(found.seed, found.setting, Run(found.setting), schedule)


def _found(seed: int, setting: Setting, run: Run, schedule: Iterable[Step]) -> Found | None:
    violation = next(filter(None, map(run.take, schedule)), None)
    taken = tuple(run.taken)
    if violation is None:
        violation = run.finish()
    if violation is None:
        return None
    rest = tuple(run.taken[len(taken) :])
    return Found(seed=seed, setting=setting, steps=taken, violation=violation, rest=rest)


def explore(search: Search, *, jobs: int = 1) -> Iterator[Part]:
    """Search all seeds, in parts as they are done; added up they are the same whatever `jobs` is."""
    end = search.first_seed + search.seeds
    parts = (
        replace(search, first_seed=first, seeds=min(PART_SEEDS, end - first))
        for first in range(search.first_seed, end, PART_SEEDS)
    )
    if jobs == 1 or search.seeds <= PART_SEEDS:
        yield from map(explore_part, parts)
        return
    # Not by fork: whoever shows progress has threads.
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as workers:
        # However many seeds are asked for, only a few parts wait at a time.
        waiting = deque(workers.submit(explore_part, part) for part in islice(parts, 2 * jobs))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(workers.submit(explore_part, part) for part in islice(parts, 1))


def explore_part(search: Search) -> Part:
    """Search some seeds in this process."""
    counts: Counter[Kind] = Counter()
    first: dict[Kind, Found] = {}
    with without(search.without):
        for seed in range(search.first_seed, search.first_seed + search.seeds):
            found = run_seed(seed, search)
            if found is not None:
                counts[found.kind] += 1
                first.setdefault(found.kind, found)
    return Part(seeds=search.seeds, counts=counts, first=first)


def cores() -> int:
    """How many processes can search at the same time without taking turns."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

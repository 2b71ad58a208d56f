"""Random schedules: what happens next is drawn from a seed, given what the model looks like now.

Every draw becomes a plain step, so a schedule replays without the generator, and can be shrunk. Each seed
leans its own way (some schedules are all outages, others all messages), because faults that need each other
are otherwise too rare to meet.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate
from random import Random

from holdfast.lab import steps
from holdfast.lab.engines.model import Model
from holdfast.lab.setting import RETENTION_MS
from holdfast.rules.transaction import NO_INSTANCE, Outcome

KEYS = ("a", "b", "c")
PRODUCERS = ("p", "p", "p", "q")
SPARE_REPLICAS = 2


class Scheduler:
    """Draws the next step of one schedule."""

    def __init__(self, rng: Random, model: Model) -> None:
        self.rng = rng
        self.model = model
        self.numbers = range(1, len(model.replicas) + SPARE_REPLICAS)
        self.versions = {name: rng.choice((1, 2)) for name in sorted(set(PRODUCERS))}
        self.written = 0
        self._drawn: Iterator[steps.Step] = iter(())
        self.reads = rng.choice((0.3, 0.9))
        self.reaches = rng.choice((0.6, 0.95))
        themes = _THEMES[model.policy]
        leading = rng.choice(themes)
        weights = Counter(_WRITES)
        for theme in themes:
            share = 1 if theme is leading else rng.choice((0, 0, 0.3))
            weights.update({draw: weight * share for draw, weight in theme.items()})
        self._draws = list(weights)
        self._weights = list(accumulate(weights.values()))

    def next(self) -> steps.Step:
        """A step that makes sense now; the model may still refuse it."""
        while True:
            step = next(self._drawn, None)
            if step is not None:
                return step
            self._drawn = self.rng.choices(self._draws, cum_weights=self._weights)[0](self)

    def _one(self, numbers: list[int]) -> Iterator[int]:
        if numbers:
            yield self.rng.choice(numbers)

    def _live(self) -> list[int]:
        return [id_ for id_, replica in self.model.replicas.items() if replica.alive]

    def _followers(self) -> list[int]:
        leader = self.model.partition.leader_id
        return [id_ for id_ in self._live() if id_ != leader]

    def _value(self) -> str | None:
        self.written += 1
        return None if self.rng.random() < 0.5 else f"v{self.written}"

    def produce(self) -> Iterator[steps.Step]:
        rng = self.rng
        yield steps.Produce(rng.choice(KEYS), self._value(), None, rng.random() < 0.9)

    def transact(self) -> Iterator[steps.Step]:
        """Begin, write in, or end a transaction, whichever is next for the producer."""
        rng = self.rng
        name = rng.choice(PRODUCERS)
        producer = self.model.producers.get(name)
        if producer is None or producer.instance == NO_INSTANCE:
            yield steps.Begin(name, self.versions[name])
            yield steps.Produce(rng.choice(KEYS), self._value(), name)
            if rng.random() < 0.5:
                return
        elif rng.random() < 0.2:
            yield steps.Produce(rng.choice(KEYS), self._value(), name)
            return
        yield steps.End(name, rng.choice((Outcome.COMMITTED, Outcome.ABORTED)))

    def clean(self) -> Iterator[steps.Step]:
        for number in self._one(self._live()):
            yield steps.Clean(number)

    def tend(self) -> Iterator[steps.Step]:
        """Most catch up and clean, and the leader learns of it."""
        yield steps.AwaitIsr()
        yield from (steps.Clean(number) for number in self._live() if self.rng.random() < 0.9)
        leader = self.model.partition.leader_id
        if leader is not None:
            yield from self._round(leader)

    def settle(self) -> Iterator[steps.Step]:
        for number in self._one(self._live()):
            yield steps.Settle(number)

    def _writes(self) -> Iterator[steps.Step]:
        for _ in range(self.rng.randint(1, 3)):
            yield from self.rng.choice((Scheduler.produce, Scheduler.transact, Scheduler.transact))(self)

    def churn(self) -> Iterator[steps.Step]:
        """Time, traffic and cleaners, as on a busy day."""
        yield from self._pass_time(self.rng.randint(1, 3))

    def _pass_time(self, rounds: int) -> Iterator[steps.Step]:
        for _ in range(rounds):
            yield steps.Advance(self.rng.choice((RETENTION_MS // 2, RETENTION_MS + 1, RETENTION_MS + 1)))
            self.written += 1
            yield steps.Produce("filler", f"v{self.written}")
            for number in self._live():
                yield steps.Clean(number)

    def wait(self) -> Iterator[steps.Step]:
        yield steps.Advance(self.rng.choice((1, RETENTION_MS // 3, RETENTION_MS, 3 * RETENTION_MS)))

    def outage(self) -> Iterator[steps.Step]:
        """A follower that was in sync misses some writes, a long time of little traffic, and more writes."""
        rng = self.rng
        yield steps.AwaitIsr()
        if rng.random() < 0.5:
            yield from self.transact()
        for number in self._one(self._followers()):
            yield rng.choice((steps.Kill, steps.Lag))(number)
            yield from self._writes()
            yield from self._pass_time(rng.randint(1, 8))
            yield from self._writes()
            if not self.model.replicas[number].alive:
                yield steps.Return(number)
            yield steps.AwaitIsr()

    def kill(self) -> Iterator[steps.Step]:
        for number in self._one(self._live()):
            yield steps.Kill(number)

    def lose_leader(self) -> Iterator[steps.Step]:
        """A leader goes down with writes that nobody has acknowledged, maybe while another replica lags."""
        rng = self.rng
        leader = self.model.partition.leader_id
        if leader is None:
            return
        if rng.random() < 0.6:
            yield from self.lag()
        for _ in range(rng.randint(1, 2)):
            yield steps.Produce(rng.choice(KEYS), self._value(), None, False)
        yield from (steps.Fetch(number, 1) for number in self._followers() if rng.random() < 0.2)
        yield steps.Kill(leader)
        yield from self._writes()
        if rng.random() < 0.6:
            yield from (steps.Clean(number) for number in self._live())
            yield steps.AwaitIsr()
            yield from self.lead()

    def come_back(self) -> Iterator[steps.Step]:
        for number in self._one([id_ for id_, replica in self.model.replicas.items() if not replica.alive]):
            yield steps.Return(number)

    def lag(self) -> Iterator[steps.Step]:
        for number in self._one(self._followers()):
            yield steps.Lag(number)

    def fetch(self) -> Iterator[steps.Step]:
        for number in self._one(self._followers()):
            yield steps.Fetch(number, self.rng.choice((1, 2, 4, None)))

    def await_isr(self) -> Iterator[steps.Step]:
        yield steps.AwaitIsr()

    def lead(self) -> Iterator[steps.Step]:
        for number in self._one(self._followers()):
            yield steps.ForceLeader(number)

    def join(self) -> Iterator[steps.Step]:
        for number in self._one([id_ for id_ in self.numbers if id_ not in self.model.replicas]):
            yield steps.Join(number)

    def admit(self) -> Iterator[steps.Step]:
        """A replica joins, and somebody who believes to lead has to do with it alone."""
        for number in self._one([id_ for id_ in self.numbers if id_ not in self.model.replicas]):
            yield steps.Join(number)
            for leader in self._one(self._coordinators()):
                yield steps.ReadMembership(leader)
                yield steps.Collect(leader)
                yield steps.Talk(leader, number)
                yield steps.Fetch(number, self.rng.choice((1, 3, None)))

    def leave(self) -> Iterator[steps.Step]:
        for number in self._one(list(self.model.replicas)):
            yield steps.Leave(number)

    def truncate(self) -> Iterator[steps.Step]:
        """The operator cuts the log, maybe under a leader that has only just caught up; old messages follow."""
        rng = self.rng
        if rng.random() < 0.5:
            yield steps.AwaitIsr()
            yield from self.lead()
        partition = self.model.partition
        if partition.leader_id is not None:
            yield steps.Truncate(max(0, partition.leader.log_end - rng.randint(1, 6)))
            yield from self.repeat()

    def exchange(self) -> Iterator[steps.Step]:
        yield steps.Exchange()

    def _coordinators(self) -> list[int]:
        coordination = self.model.partition.coordination
        return [] if coordination is None else coordination.leaders()

    def round(self) -> Iterator[steps.Step]:
        """Somebody who believes to lead starts a round and reaches some of the others."""
        for number in self._one(self._coordinators()):
            yield from self._round(number)

    def _round(self, number: int) -> Iterator[steps.Step]:
        rng = self.rng
        if rng.random() < self.reads:
            yield steps.ReadMembership(number)
        yield steps.Collect(number)
        others = [other for other in self._live() if other != number]
        yield from (steps.Talk(number, other) for other in others if rng.random() < self.reaches)
        # Whoever was told of a new value before the last report was in is reached now, or not.
        yield from (steps.Talk(number, other) for other in others if rng.random() < 0.5)

    def talk(self) -> Iterator[steps.Step]:
        numbers = list(self.model.replicas)
        yield steps.Talk(self.rng.choice(numbers), self.rng.choice(numbers))

    def read_membership(self) -> Iterator[steps.Step]:
        for number in self._one(self._live()):
            yield steps.ReadMembership(number)

    def message(self) -> Iterator[steps.Step]:
        """One message on its way arrives alone, or is lost."""
        count = self.model.in_flight
        if count:
            number = self.rng.randrange(count)
            yield steps.Deliver(number) if self.rng.random() < 0.7 else steps.Lose(number)

    def repeat(self) -> Iterator[steps.Step]:
        """Copies of old messages arrive, however late."""
        coordination = self.model.partition.coordination
        if coordination is not None and coordination.sent:
            for _ in range(self.rng.randint(2, 8)):
                yield steps.Repeat(self.rng.randrange(len(coordination.sent)))

    def back_up(self) -> Iterator[steps.Step]:
        for number in self._one(self._followers()):
            yield steps.BackUp(number)

    def lose_disk(self) -> Iterator[steps.Step]:
        """A replica goes down and comes back with an old disk, if its lease lets it; else it is rebuilt."""
        backups = self.model.partition.backups
        for number in self._one([id_ for id_ in self._followers() if id_ in backups]):
            yield steps.Kill(number)
            yield steps.PutBack(number)
            yield steps.Return(number)
            if not self.model.replicas[number].alive:
                yield steps.Leave(number)
                yield steps.Join(number)


Draw = Callable[[Scheduler], Iterator[steps.Step]]

_WRITES: dict[Draw, float] = {Scheduler.produce: 6, Scheduler.transact: 5, Scheduler.wait: 2}
_OUTAGES: dict[Draw, float] = {
    Scheduler.outage: 3,
    Scheduler.churn: 2,
    Scheduler.clean: 6,
    Scheduler.kill: 2,
    Scheduler.lose_leader: 2,
    Scheduler.come_back: 3,
    Scheduler.lag: 1,
    Scheduler.fetch: 4,
    Scheduler.await_isr: 3,
    Scheduler.lead: 3,
    Scheduler.tend: 2,
    Scheduler.exchange: 2,
}
_MESSAGES: dict[Draw, float] = {
    Scheduler.tend: 5,
    Scheduler.settle: 2,
    Scheduler.round: 5,
    Scheduler.talk: 3,
    Scheduler.message: 3,
    Scheduler.repeat: 3,
    Scheduler.lead: 4,
    Scheduler.admit: 3,
}
_MEMBERS: dict[Draw, float] = {
    Scheduler.tend: 5,
    Scheduler.round: 2,
    Scheduler.admit: 4,
    Scheduler.join: 1,
    Scheduler.leave: 3,
    Scheduler.fetch: 2,
    Scheduler.lead: 4,
    Scheduler.repeat: 3,
}
_DISKS: dict[Draw, float] = {
    Scheduler.tend: 5,
    Scheduler.back_up: 3,
    Scheduler.lose_disk: 4,
    Scheduler.truncate: 2,
    Scheduler.repeat: 3,
    Scheduler.fetch: 2,
    Scheduler.lead: 2,
    Scheduler.lag: 1,
}
_THEMES = {"kafka": (_OUTAGES,), "coordinated": (_OUTAGES, _MESSAGES, _MEMBERS, _DISKS)}

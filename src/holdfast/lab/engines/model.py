"""The engine `model`: one partition in virtual time, deterministic, and without a branch for any story.

What the policies decide differently is in `rules`; the harm, or its absence, follows from there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.lab import steps
from holdfast.lab.coordination import Coordination
from holdfast.lab.engines.engine import POLICIES, REPLICAS_MAX, StepError
from holdfast.lab.engines.partition import Partition
from holdfast.lab.engines.replica import Replica
from holdfast.rules.entry import Entry
from holdfast.rules.policy import CompactionConfig, Pass
from holdfast.rules.removal import Removable
from holdfast.rules.transaction import NO_INSTANCE


@dataclass(slots=True, kw_only=True)
class TransactionalProducer:
    """A client with a transactional.id: its producer id, its epoch, and the transaction that it has open."""

    id: int
    epoch: int = 0
    version: int = 1
    instance: int = NO_INSTANCE
    has_data: bool = False


class Model:
    """A partition, its producers and its clock; `apply` takes the steps that scenarios are made of.

    Implements `engine.Engine`.
    """

    name = "model"

    def __init__(self, *, policy: str, replicas: int, config: CompactionConfig) -> None:
        assert policy in POLICIES
        assert 1 <= replicas <= REPLICAS_MAX
        self.policy = policy
        self.now_ms = 0
        self.partition = Partition(replicas=replicas, config=config, coordinated=policy == "coordinated")
        self.producers: dict[str, TransactionalProducer] = {}
        self.passes: list[tuple[int, Pass]] = []
        """Compaction passes since the reader of this list last cleared it."""
        self._instances = 0

    def apply(self, step: steps.Step) -> None:
        """Take one step, or raise StepError and change nothing."""
        _HANDLERS[type(step)](self, step)

    @property
    def replicas(self) -> dict[int, Replica]:
        """The members, by number."""
        return self.partition.replicas

    @property
    def leader_id(self) -> int | None:
        """Who leads."""
        return self.partition.leader_id

    @property
    def in_sync(self) -> set[int]:
        """The ISR."""
        return self.partition.isr

    @property
    def history(self) -> list[Entry]:
        """The truth."""
        return self.partition.history

    def removable(self, number: int) -> Removable | None:
        """As far as a replica has heard."""
        coordination = self.partition.coordination
        return coordination.nodes[number].state.removable if coordination else None

    def producer_name(self, producer_id: int) -> str:
        """The producer of that id."""
        return next(name for name, known in self.producers.items() if known.id == producer_id)

    @property
    def in_flight(self) -> int:
        """How many messages of the removal protocol are on their way."""
        coordination = self.partition.coordination
        return 0 if coordination is None else len(coordination.wire)

    def _produce(self, step: steps.Produce) -> None:
        entry = self._entry(key=step.key, value=step.value)
        if step.producer is not None:
            producer = self._open_transaction(step.producer)
            entry = _in_transaction(entry, producer)
            producer.has_data = True
        self.partition.append(entry)
        if step.acknowledged:
            self.partition.replicate(self.now_ms)

    def _entry(self, *, key: str | None = None, value: str | None = None) -> Entry:
        return Entry(
            offset=self.partition.leader.log_end,
            key=key,
            value=value,
            timestamp_ms=self.now_ms,
            leader_epoch=self.partition.leader_epoch,
        )

    def _open_transaction(self, name: str) -> TransactionalProducer:
        producer = self.producers.get(name)
        if producer is None or producer.instance == NO_INSTANCE:
            raise StepError(f"producer {name} has no transaction open")
        return producer

    def _begin(self, step: steps.Begin) -> None:
        producer = self.producers.get(step.producer)
        if producer is None:
            producer = self.producers[step.producer] = TransactionalProducer(id=len(self.producers) + 1)
        if producer.instance != NO_INSTANCE:
            raise StepError(f"producer {step.producer} has a transaction open already")
        self._instances += 1
        producer.instance = self._instances
        producer.version = step.version
        producer.has_data = False

    def _end(self, step: steps.End) -> None:
        producer = self._open_transaction(step.producer)
        if producer.has_data:
            marker = _in_transaction(replace(self._entry(), marker=step.outcome), producer)
            if producer.version >= 2:
                # KIP-890: the marker carries the bumped epoch already.
                producer.epoch += 1
                marker = replace(marker, producer_epoch=producer.epoch)
            self.partition.append(marker)
            self.partition.replicate(self.now_ms)
        producer.instance = NO_INSTANCE

    def _fetch(self, step: steps.Fetch) -> None:
        self.partition.fetch(self.partition.live(step.replica), step.batches, self.now_ms)

    def _await_isr(self, step: steps.AwaitIsr) -> None:
        self.partition.await_isr(self.now_ms)

    def _kill(self, step: steps.Kill) -> None:
        self.partition.kill(self.partition.live(step.replica), self.now_ms)

    def _return(self, step: steps.Return) -> None:
        replica = self.replicas.get(step.replica)
        if replica is None or replica.alive:
            raise StepError(f"replica {step.replica} is not down")
        self.partition.restart(replica, self.now_ms)

    def _lag(self, step: steps.Lag) -> None:
        self.partition.lag(self.partition.live(step.replica), self.now_ms)

    def _force_leader(self, step: steps.ForceLeader) -> None:
        replica = self.partition.live(step.replica)
        if not self.partition.may_lead(replica.id):
            raise StepError(f"replica {replica.id} is not in sync and cannot lead")
        if replica.id != self.partition.leader_id:
            self.partition.elect(replica.id, self.now_ms)
            self.partition.replicate(self.now_ms)

    def _join(self, step: steps.Join) -> None:
        if not 1 <= step.replica <= REPLICAS_MAX:
            raise StepError(f"replica numbers run from 1 to {REPLICAS_MAX}")
        self.partition.join(step.replica)

    def _leave(self, step: steps.Leave) -> None:
        self.partition.leave(step.replica, self.now_ms)

    def _truncate(self, step: steps.Truncate) -> None:
        cut = self.partition.truncate(step.offset, self.now_ms)
        kept = {entry.instance for entry in self.partition.history if entry.marker is None}
        for entry in cut:
            # An instance stays decided though its marker was cut off: the coordinator writes it again.
            if entry.marker is not None and entry.instance in kept:
                offset, epoch = self.partition.leader.log_end, self.partition.leader_epoch
                self.partition.append(replace(entry, offset=offset, leader_epoch=epoch))
        self.partition.replicate(self.now_ms)

    def _advance(self, step: steps.Advance) -> None:
        self.now_ms += step.ms

    def _clean(self, step: steps.Clean) -> None:
        self._note(step.replica, self.partition.live(step.replica).clean(self.now_ms))

    def _settle(self, step: steps.Settle) -> None:
        self._note(step.replica, self.partition.live(step.replica).settle(self.now_ms))

    def _note(self, replica: int, done: Pass | None) -> None:
        if done is not None:
            self.passes.append((replica, done))

    def _consume_via(self, step: steps.ConsumeVia) -> None:
        self.partition.live(step.replica)

    def _exchange(self, step: steps.Exchange) -> None:
        if self.partition.coordination is not None:
            self.partition.coordination.converge(self.now_ms)

    def _collect(self, step: steps.Collect) -> None:
        self._coordination().collect(self.partition.live(step.replica).id, self.now_ms)

    def _read_membership(self, step: steps.ReadMembership) -> None:
        self._coordination().read_membership(self.partition.live(step.replica).id, self.now_ms)

    def _deliver(self, step: steps.Deliver) -> None:
        self._coordination(step.message).deliver(step.message, self.now_ms)

    def _repeat(self, step: steps.Repeat) -> None:
        coordination = self._coordination()
        if not 0 <= step.message < len(coordination.sent):
            raise StepError(f"no message {step.message} was sent")
        coordination.repeat(step.message, self.now_ms)

    def _lose(self, step: steps.Lose) -> None:
        self._coordination(step.message).drop(step.message)

    def _talk(self, step: steps.Talk) -> None:
        self._coordination().talk(step.one, step.other, self.now_ms)

    def _back_up(self, step: steps.BackUp) -> None:
        self.partition.back_up(self.partition.live(step.replica))

    def _put_back(self, step: steps.PutBack) -> None:
        self.partition.put_back(step.replica)

    def _coordination(self, message: int | None = None) -> Coordination:
        coordination = self.partition.coordination
        if coordination is None:
            raise StepError("this policy sends no messages")
        if message is not None and not 0 <= message < len(coordination.wire):
            raise StepError(f"no message {message} is in flight")
        return coordination


_HANDLERS: dict[type, Callable[[Model, Any], None]] = {
    steps.Produce: Model._produce,
    steps.Begin: Model._begin,
    steps.End: Model._end,
    steps.Fetch: Model._fetch,
    steps.AwaitIsr: Model._await_isr,
    steps.Kill: Model._kill,
    steps.Return: Model._return,
    steps.Lag: Model._lag,
    steps.ForceLeader: Model._force_leader,
    steps.Join: Model._join,
    steps.Leave: Model._leave,
    steps.Truncate: Model._truncate,
    steps.Advance: Model._advance,
    steps.Clean: Model._clean,
    steps.Settle: Model._settle,
    steps.ConsumeVia: Model._consume_via,
    steps.Exchange: Model._exchange,
    steps.Collect: Model._collect,
    steps.ReadMembership: Model._read_membership,
    steps.Deliver: Model._deliver,
    steps.Repeat: Model._repeat,
    steps.Lose: Model._lose,
    steps.Talk: Model._talk,
    steps.BackUp: Model._back_up,
    steps.PutBack: Model._put_back,
}


def _in_transaction(entry: Entry, producer: TransactionalProducer) -> Entry:
    return replace(
        entry,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transactional=True,
        instance=producer.instance,
    )

"""Planning what one group commit does to transactions, on top of what the commits before it left behind."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.agent.partition_key import PartitionKey
from holdfast.control.plane import ControlPlane
from holdfast.errors import InvalidProducerEpoch, ProducerFenced, TransactionAbortable
from holdfast.rules import transactional_id as rules
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import TransactionalIdSet, TransactionBegun, TransactionEnded

IDLE_IDS_MAX = 10_000
"""Transactional ids without an open transaction that are remembered here; the control plane knows all."""

TURN_OF_NOBODY = 0


class Membership(NamedTuple):
    """The transaction that a request claims to belong to: `turn` is None where the epoch says it all (TV2)."""

    transactional_id: str
    turn: int | None


def check_writer(state: TransactionalId | None, *, producer_id: int, epoch: int) -> TransactionalId:
    """The state, if the producer owns the id; one that writes data hears of its epoch, as in Kafka."""
    try:
        return rules.check_producer(state, producer_id=producer_id, epoch=epoch)
    except ProducerFenced as refusal:
        raise InvalidProducerEpoch(str(refusal)) from refusal


def find_partitions(plane: ControlPlane, instance: int) -> set[PartitionKey]:
    """Where an instance has data."""
    return {
        PartitionKey(topic_id, partition)
        for topic_id, partition, _ in plane.find_instance_partitions(instance)
    }


class KnownTransactions:
    """Transactional ids and open instances as the last commit left them: a cache over the control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.by_name = {
            name: state
            for name, state in plane.list_transactional_ids().items()
            if state.instance != NO_INSTANCE
        }
        self.open = {state.producer_id: state.instance for state in self.by_name.values()}
        """Open instances by producer id."""
        self.partitions = {instance: find_partitions(plane, instance) for instance in self.open.values()}
        """Where each open instance has data."""
        self.next_instance = plane.find_next_instance()

    def find(self, transactional_id: str) -> TransactionalId | None:
        """The state of an id; None if nobody has used it."""
        state = self.by_name.get(transactional_id)
        if state is None and (state := self._plane.find_transactional_id(transactional_id)) is not None:
            self.by_name[transactional_id] = state
        return state

    def list_open(self) -> dict[str, TransactionalId]:
        """The ids that have a transaction open, by name."""
        return {name: state for name, state in self.by_name.items() if state.instance != NO_INSTANCE}

    def forget_idle(self) -> None:
        """Keep within bounds."""
        if len(self.by_name) > IDLE_IDS_MAX + len(self.open):
            self.by_name = self.list_open()


class TransactionPlan:
    """Changes to transactions in one commit. What is known stays as it is until `publish`."""

    def __init__(self, known: KnownTransactions, now_ms: int) -> None:
        self._known = known
        self._now_ms = now_ms
        self._next_instance = known.next_instance
        self.changed: dict[str, TransactionalId] = {}
        """Transactional ids as the plan leaves them, by name."""
        self._joined: dict[int, set[PartitionKey]] = {}
        # Producer id → instance, and the other way round.
        self._open: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self.begun: list[TransactionBegun] = []
        self.ended: list[TransactionEnded] = []

    def find(self, transactional_id: str) -> TransactionalId | None:
        """The state of an id as planned so far."""
        return self.changed.get(transactional_id) or self._known.find(transactional_id)

    def check_producer(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Raise unless the producer owns the id."""
        check_writer(self.find(transactional_id), producer_id=producer_id, epoch=epoch)

    def join(self, membership: Membership) -> int:
        """The open instance of the membership's transaction, begun if need be; `check_producer` comes first.

        TransactionAbortable if the transaction has ended since the request was taken.
        """
        state = self.find(membership.transactional_id)
        assert state is not None, "check_producer comes first"
        if membership.turn not in (None, state.turn):
            raise TransactionAbortable("the transaction has ended")
        if state.instance != NO_INSTANCE:
            return state.instance
        instance = self._next_instance
        self._next_instance += 1
        self.changed[membership.transactional_id] = rules.begin(state, instance=instance, now_ms=self._now_ms)
        self._open[state.producer_id] = instance
        self.begun.append(TransactionBegun(instance, state.producer_id))
        return instance

    def note_partition(self, instance: int, key: PartitionKey) -> None:
        """The instance has data there."""
        self._joined.setdefault(instance, set()).add(key)

    def has_open(self, producer_id: int, key: PartitionKey) -> bool:
        """Whether the producer has an open transaction with data in the partition."""
        instance = self._open.get(producer_id) or self._known.open.get(producer_id)
        if instance is None or instance in self._ended:
            return False
        return key in self._joined.get(instance, ()) or key in self._known.partitions.get(instance, ())

    def change(
        self,
        transactional_id: str,
        update: Callable[[TransactionalId | None], TransactionalId],
        *,
        commit: bool = False,
    ) -> TransactionalId:
        """Let a rule make the next state; an instance that is open no longer gets its outcome."""
        state = self.find(transactional_id)
        changed = update(state)
        if changed != state:
            self.changed[transactional_id] = changed
            if state is not None and state.instance not in (NO_INSTANCE, changed.instance):
                self._ended[state.instance] = state.producer_id
                self.ended.append(TransactionEnded(state.instance, commit, self._now_ms))
        return changed

    def seal(self) -> list[TransactionalIdSet]:
        """Each changed id as the plan leaves it."""
        return [_set(name, self._known.find(name), state) for name, state in self.changed.items()]

    def publish(self) -> set[PartitionKey]:
        """The commit has succeeded; the partitions whose last stable offset may have moved."""
        known = self._known
        known.next_instance = self._next_instance
        known.by_name.update(self.changed)
        known.open.update(self._open)
        for instance, partitions in self._joined.items():
            known.partitions.setdefault(instance, set()).update(partitions)
        stable: set[PartitionKey] = set()
        for instance, producer_id in self._ended.items():
            stable |= known.partitions.pop(instance, set())
            if known.open.get(producer_id) == instance:
                del known.open[producer_id]
        known.forget_idle()
        return stable


def _set(name: str, before: TransactionalId | None, state: TransactionalId) -> TransactionalIdSet:
    return TransactionalIdSet(
        name,
        TURN_OF_NOBODY if before is None else before.turn,
        NO_INSTANCE if before is None else before.instance,
        state.producer_id,
        state.epoch,
        state.timeout_ms,
        state.phase.value,
        state.instance,
        state.turn,
        state.previous_producer_id,
        state.previous_epoch,
        state.started_ms,
    )

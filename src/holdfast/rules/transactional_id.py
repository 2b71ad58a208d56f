"""The coordinator's account of one transactional id: who may write, what is open, how the last transaction ended.

Pure: each verb takes the present state and gives the next one, or raises what Kafka would answer. There is no
state between "decided" and "complete": an outcome is one row, so ending a transaction is one step.
"""

from enum import Enum
from typing import NamedTuple

from holdfast.errors import (
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from holdfast.rules.producer import NO_PRODUCER_ID
from holdfast.rules.transaction import NO_INSTANCE

EPOCH_LAST = 2**15 - 1
"""Fences a producer id for good; no producer is ever given it."""

NO_EPOCH = -1


class Phase(Enum):
    """Where a transactional id stands, in Kafka's words."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


KAFKA_STATES = (
    Phase.EMPTY.value,
    Phase.ONGOING.value,
    "PrepareCommit",
    "PrepareAbort",
    Phase.COMMITTED.value,
    Phase.ABORTED.value,
    "PrepareEpochFence",
    "Dead",
)
"""All states that a transactional id has in Kafka: one may be asked for where it never occurs."""


class TransactionalId(NamedTuple):
    """One transactional id.

    `turn` counts what took the right to write from somebody: every end, initialisation and fencing. A request
    that was checked in one turn is refused in the next, also where the epoch stays the same (TV1).
    `previous_*` is the producer that the last initialisation or end was asked for by: a retry of that request
    names it, and is answered once more.
    """

    producer_id: int
    epoch: int
    timeout_ms: int
    phase: Phase = Phase.EMPTY
    instance: int = NO_INSTANCE
    turn: int = 1
    previous_producer_id: int = NO_PRODUCER_ID
    previous_epoch: int = NO_EPOCH
    started_ms: int = -1
    """The wall clock when the last transaction began, for people to see; nothing is decided by it."""

    @property
    def previous(self) -> tuple[int, int]:
        """(producer id, epoch) of who asked for the last initialisation or end."""
        return self.previous_producer_id, self.previous_epoch

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch belongs to another producer id."""
        return self.epoch >= EPOCH_LAST - 1


def check_producer(state: TransactionalId | None, *, producer_id: int, epoch: int) -> TransactionalId:
    """The state, if this producer is the present owner of the transactional id."""
    if state is None or state.producer_id != producer_id:
        raise InvalidProducerIdMapping(f"producer id {producer_id} does not belong to this transactional id")
    if state.epoch != epoch or epoch == EPOCH_LAST:
        raise ProducerFenced(f"epoch {epoch} of producer {producer_id}: the current one is {state.epoch}")
    return state


def initialise(
    state: TransactionalId | None,
    *,
    claimed: tuple[int, int] | None,
    timeout_ms: int,
    spare_producer_id: int | None,
) -> TransactionalId:
    """Hand the transactional id to a producer under an epoch of its own; whoever had it before is fenced.

    `claimed` is the (producer id, epoch) that the producer believes to have (KIP-360). An open instance is given
    up: the caller aborts it. `spare_producer_id` is for a new id, or for one whose epochs are used up.
    """
    if state is None:
        # A claim to an id that nobody remembers is taken for what it is: a new beginning.
        return TransactionalId(producer_id=_spare(spare_producer_id), epoch=0, timeout_ms=timeout_ms)
    if claimed is not None and claimed != (state.producer_id, state.epoch):
        if claimed != state.previous or state.instance != NO_INSTANCE:
            raise ProducerFenced(f"producer {claimed[0]} epoch {claimed[1]} is not the current one")
        if state.epoch != EPOCH_LAST:
            return state
    producer_id, epoch = _next_epoch(state, spare_producer_id)
    previous_producer_id, previous_epoch = claimed or (NO_PRODUCER_ID, NO_EPOCH)
    return TransactionalId(
        producer_id=producer_id,
        epoch=epoch,
        timeout_ms=timeout_ms,
        turn=state.turn + 1,
        previous_producer_id=previous_producer_id,
        previous_epoch=previous_epoch,
    )


def begin(state: TransactionalId, *, instance: int, now_ms: int) -> TransactionalId:
    """The first durable thing of a transaction opens its instance."""
    assert state.instance == NO_INSTANCE, f"instance {state.instance} is still open"
    return state._replace(phase=Phase.ONGOING, instance=instance, started_ms=now_ms)


def end(
    state: TransactionalId | None,
    *,
    producer_id: int,
    epoch: int,
    commit: bool,
    bump: bool,
    announced: bool,
    spare_producer_id: int | None,
    started_ms: int = -1,
) -> TransactionalId:
    """Decide the open transaction; the same state again if this is the retry of an end that has happened.

    `bump` is KIP-890 (TV2): the next transaction has another epoch, so that no late request can mean it.
    `announced`: partitions were added to a transaction that has written nothing durable yet; it began at
    `started_ms`.
    """
    wanted = Phase.COMMITTED if commit else Phase.ABORTED
    is_open = state is not None and (state.phase is Phase.ONGOING or announced)
    if bump and state is not None and (producer_id, epoch) == state.previous:
        if is_open or state.phase is Phase.EMPTY:
            raise ProducerFenced(f"epoch {epoch} of producer {producer_id}: it has gone on under another")
        _check_ended(state, wanted)
        if state.epoch != EPOCH_LAST:
            return state
    else:
        state = check_producer(state, producer_id=producer_id, epoch=epoch)
        if not is_open and not bump:
            _check_ended(state, wanted)
            return state
        if not is_open and commit:
            raise InvalidTxnState("there is no transaction to commit")
    if state.phase is Phase.ONGOING:
        started_ms = state.started_ms
    ended = state._replace(phase=wanted, instance=NO_INSTANCE, turn=state.turn + 1, started_ms=started_ms)
    if not bump:
        return ended
    next_producer_id, next_epoch = _next_epoch(state, spare_producer_id)
    return ended._replace(
        producer_id=next_producer_id,
        epoch=next_epoch,
        previous_producer_id=producer_id,
        previous_epoch=epoch,
    )


def fence(state: TransactionalId) -> TransactionalId:
    """Take the id from its producer, whose transaction is aborted: after a time-out, or by an operator.

    The producer may come back by naming what it had (KIP-360), and is told of the abort if it asks for one. If
    its epochs are used up then, it comes back under another producer id.
    """
    return state._replace(
        epoch=min(state.epoch + 1, EPOCH_LAST),
        phase=Phase.ABORTED,
        instance=NO_INSTANCE,
        turn=state.turn + 1,
        previous_producer_id=state.producer_id,
        previous_epoch=state.epoch,
    )


def _check_ended(state: TransactionalId, wanted: Phase) -> None:
    if state.phase is not wanted:
        raise InvalidTxnState(f"the transaction is {state.phase.value}, not to become {wanted.value}")


def _next_epoch(state: TransactionalId, spare_producer_id: int | None) -> tuple[int, int]:
    if state.is_exhausted:
        return _spare(spare_producer_id), 0
    return state.producer_id, state.epoch + 1


def _spare(producer_id: int | None) -> int:
    if producer_id is None:
        # Somebody else used up the epochs since the request was looked at.
        raise CoordinatorNotAvailable("a new producer id is needed: ask again")
    return producer_id

"""Idempotent producers of one partition: which batch is next, which is a repeat, which must be refused.

State is immutable: the agent checks a batch against the state that the batches queued before it will leave
behind, and throws that state away if their commit fails.
"""

from typing import NamedTuple

from holdfast.errors import InvalidProducerEpoch, OutOfOrderSequence

SEQUENCE_LAST = 2**31 - 1
"""After this sequence number comes 0."""

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1

WINDOW_BATCHES = 5
"""Kafka's window: a client keeps at most five batches in flight, so a repeat is one of the newest five."""


def sequence_after(sequence: int, count: int = 1) -> int:
    """The sequence number `count` records further on; numbers wrap at 2³¹."""
    return (sequence + count) & SEQUENCE_LAST


class WrittenBatch(NamedTuple):
    """A batch in the window: its sequence numbers, and where it lies in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int = -1
    """The log append time, which the answer to a repeat carries too; -1 if the producer set the time."""


class ProducerState(NamedTuple):
    """What a partition remembers of one producer id."""

    epoch: int
    window: tuple[WrittenBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        """The newest sequence number of this epoch; NO_SEQUENCE if nothing was written under it."""
        return self.window[-1].last_sequence if self.window else NO_SEQUENCE


def check_batch(
    state: ProducerState | None,
    *,
    epoch: int,
    first_sequence: int,
    last_sequence: int,
    begins_at_zero: bool = False,
) -> WrittenBatch | None:
    """None: append it. A batch: it repeats that one, so answer with its offsets and append nothing.

    Raises InvalidProducerEpoch for a fenced producer and OutOfOrderSequence for a gap, or for a repeat that
    has left the window. A partition that does not know the producer takes any first sequence: it may have
    forgotten an idle one. Not so if each of its epochs `begins_at_zero` (TV2): a higher one means that batches
    before it are lost or late.
    """
    if state is None:
        if begins_at_zero and first_sequence != 0:
            raise OutOfOrderSequence(
                f"the producer is new here and must begin at sequence 0, not {first_sequence}"
            )
        return None
    if epoch < state.epoch:
        raise InvalidProducerEpoch(f"epoch {epoch} is fenced: the producer's current epoch is {state.epoch}")
    if epoch > state.epoch:
        if first_sequence != 0:
            raise OutOfOrderSequence(
                f"epoch {epoch} is new and must begin at sequence 0, not {first_sequence}"
            )
        return None
    for written in state.window:
        if (written.first_sequence, written.last_sequence) == (first_sequence, last_sequence):
            return written
    expected = sequence_after(state.last_sequence) if state.window else 0
    if first_sequence != expected:
        raise OutOfOrderSequence(f"sequence {first_sequence} where {expected} comes next")
    return None


def append_batch(state: ProducerState | None, *, epoch: int, batch: WrittenBatch) -> ProducerState:
    """The state after `batch`, which `check_batch` let through."""
    if state is None or state.epoch != epoch:
        return ProducerState(epoch=epoch, window=(batch,))
    return ProducerState(epoch, (*state.window[1 - WINDOW_BATCHES :], batch))

"""The sequence check that makes a producer's retries harmless."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidProducerEpoch, OutOfOrderSequence
from holdfast.rules.producer import (
    SEQUENCE_LAST,
    ProducerState,
    WrittenBatch,
    append_batch,
    check_batch,
    sequence_after,
)


def written(first: int, last: int, offset: int = 0) -> WrittenBatch:
    return WrittenBatch(
        first_sequence=first, last_sequence=last, first_offset=offset, last_offset=offset + last - first
    )


def after(*batches: WrittenBatch, epoch: int = 0) -> ProducerState:
    state: ProducerState | None = None
    for batch in batches:
        state = append_batch(state, epoch=epoch, batch=batch)
    assert state is not None
    return state


def test_the_next_batch_in_sequence_is_appended() -> None:
    """A batch that continues the sequence passes."""
    assert check_batch(after(written(0, 4)), epoch=0, first_sequence=5, last_sequence=5) is None


def test_a_repeat_is_answered_with_the_original_offset() -> None:
    """A retry within the window finds the batch that it repeats."""
    state = after(written(0, 4, 100), written(5, 5, 105))
    repeat = check_batch(state, epoch=0, first_sequence=0, last_sequence=4)
    assert repeat is not None
    assert (repeat.first_offset, repeat.last_offset) == (100, 104)


def test_the_window_holds_five_batches() -> None:
    """The fifth-newest batch is recognised, the sixth-newest is refused rather than appended twice."""
    state = after(*(written(n, n, n) for n in range(6)))
    assert check_batch(state, epoch=0, first_sequence=1, last_sequence=1) == written(1, 1, 1)
    with pytest.raises(OutOfOrderSequence):
        check_batch(state, epoch=0, first_sequence=0, last_sequence=0)


@pytest.mark.parametrize("first", [4, 6, 1000])
def test_a_gap_or_an_overlap_is_refused(first: int) -> None:
    """Only the exact next sequence is accepted."""
    with pytest.raises(OutOfOrderSequence):
        check_batch(after(written(0, 4)), epoch=0, first_sequence=first, last_sequence=first + 1)


def test_an_older_epoch_is_fenced() -> None:
    """A zombie of an earlier epoch cannot write, not even a repeat."""
    state = after(written(0, 0), epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        check_batch(state, epoch=2, first_sequence=0, last_sequence=0)


def test_a_new_epoch_begins_at_zero() -> None:
    """A bumped epoch restarts the sequence, and nothing of the old epoch counts as its repeat."""
    state = after(written(0, 0, 7), epoch=3)
    assert check_batch(state, epoch=4, first_sequence=0, last_sequence=0) is None
    with pytest.raises(OutOfOrderSequence):
        check_batch(state, epoch=4, first_sequence=1, last_sequence=1)
    assert append_batch(state, epoch=4, batch=written(0, 0, 8)).window == (written(0, 0, 8),)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """A partition that forgot an idle producer takes up its sequence where the producer stands."""
    assert check_batch(None, epoch=0, first_sequence=77, last_sequence=79) is None


def test_an_unknown_producer_of_the_second_generation_begins_at_zero() -> None:
    """TV2: every transaction has an epoch of its own, so there is nothing that an idle producer could go on with."""
    assert check_batch(None, epoch=4, first_sequence=0, last_sequence=2, begins_at_zero=True) is None
    with pytest.raises(OutOfOrderSequence):
        check_batch(None, epoch=4, first_sequence=5, last_sequence=5, begins_at_zero=True)
    state = after(written(0, 4))
    assert check_batch(state, epoch=0, first_sequence=5, last_sequence=5, begins_at_zero=True) is None


def test_sequences_wrap_at_two_to_the_31() -> None:
    """The sequence after 2147483647 is 0, also in the middle of a batch."""
    assert sequence_after(SEQUENCE_LAST) == 0
    assert sequence_after(SEQUENCE_LAST - 1, 3) == 1
    state = after(written(SEQUENCE_LAST - 1, 1))
    assert check_batch(state, epoch=0, first_sequence=2, last_sequence=2) is None
    state = after(written(SEQUENCE_LAST, SEQUENCE_LAST))
    assert check_batch(state, epoch=0, first_sequence=0, last_sequence=0) is None


@settings(max_examples=200)
@given(
    start=st.integers(0, SEQUENCE_LAST),
    counts=st.lists(st.integers(1, 2**20), min_size=1, max_size=12),
)
def test_any_retry_in_the_window_returns_what_was_written(start: int, counts: list[int]) -> None:
    """Whatever the batch sizes and wherever the sequence wraps, the newest five repeats are recognised."""
    state: ProducerState | None = None
    batches = []
    sequence, offset = start, 0
    for count in counts:
        last = sequence_after(sequence, count - 1)
        assert check_batch(state, epoch=0, first_sequence=sequence, last_sequence=last) is None
        batch = WrittenBatch(
            first_sequence=sequence, last_sequence=last, first_offset=offset, last_offset=offset + count - 1
        )
        state = append_batch(state, epoch=0, batch=batch)
        batches.append(batch)
        sequence, offset = sequence_after(last), offset + count
    for batch in batches[-5:]:
        found = check_batch(
            state, epoch=0, first_sequence=batch.first_sequence, last_sequence=batch.last_sequence
        )
        assert found == batch

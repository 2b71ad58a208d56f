"""Which batches of a fetch answer a read_committed reader may see."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.aborted import AbortedTransaction, without_aborted
from holdfast.records.batch import BatchView
from holdfast.records.build import build_batch
from holdfast.records.control import ControlType, control_batch
from holdfast.records.record import Record
from holdfast.records.walk import walk


def data(base_offset: int, producer_id: int, *, transactional: bool = True, count: int = 1) -> bytes:
    records = [Record(value=b"v")] * count
    return build_batch(
        records,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def marker(outcome: ControlType, offset: int, producer_id: int) -> bytes:
    return control_batch(outcome, base_offset=offset, producer_id=producer_id, producer_epoch=0)


def visible(log: bytes, aborted: Iterable[tuple[int, int]]) -> list[int]:
    entries = [AbortedTransaction(producer_id=who, first_offset=at) for who, at in aborted]
    return [batch.base_offset for batch in without_aborted(walk(log), entries) if not batch.is_control]


def test_abort_then_commit() -> None:
    """The ABORT marker ends the void: the same producer's next transaction is seen."""
    log = data(0, 7) + marker(ControlType.ABORT, 1, 7) + data(2, 7) + marker(ControlType.COMMIT, 3, 7)
    assert visible(log, [(7, 0)]) == [2]


def test_other_producers_and_plain_batches_stay() -> None:
    """Only transactional batches of the named producer are void."""
    log = data(0, 7) + data(1, 8) + data(2, 7, transactional=False) + data(3, -1, transactional=False)
    assert visible(log, [(7, 0)]) == [1, 2, 3]


def test_begun_before_the_answer() -> None:
    """A transaction that began before the fetched range is void from the first batch on."""
    assert visible(data(50, 7) + marker(ControlType.ABORT, 51, 7), [(7, 3)]) == []


def test_begins_inside_a_batch() -> None:
    """An entry counts from the batch that holds its first offset, wherever that batch starts."""
    assert visible(data(10, 7, count=5) + data(15, 7), [(7, 12)]) == []


def test_committed_before_the_abort() -> None:
    """What the producer committed before the aborted transaction's first offset is seen."""
    log = data(0, 7) + marker(ControlType.COMMIT, 1, 7) + data(2, 7) + marker(ControlType.ABORT, 3, 7)
    assert visible(log, [(7, 2)]) == [0]


steps = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["data", "commit", "abort"])), max_size=40)


@given(steps)
def test_agrees_with_the_history(history: list[tuple[int, str]]) -> None:
    """For any interleaving of transactions exactly the batches of committed and open ones are seen."""
    log, seen, aborted = b"", set[int](), list[tuple[int, int]]()
    open_since: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for offset, (producer_id, step) in enumerate(history):
        written = open_since[producer_id]
        if step == "data":
            log += data(offset, producer_id)
            written.append(offset)
            continue
        outcome = ControlType.ABORT if step == "abort" else ControlType.COMMIT
        log += marker(outcome, offset, producer_id)
        if outcome is ControlType.COMMIT:
            seen.update(written)
        elif written:
            aborted.append((producer_id, written[0]))
        written.clear()
    seen.update(offset for written in open_since.values() for offset in written)
    assert visible(log, aborted) == sorted(seen)


def test_control_batches_stay() -> None:
    """Control batches are handed on: the reader's position depends on them."""
    log = data(0, 7) + marker(ControlType.ABORT, 1, 7)
    batches: list[BatchView] = list(
        without_aborted(walk(log), [AbortedTransaction(producer_id=7, first_offset=0)])
    )
    assert [batch.base_offset for batch in batches] == [1]

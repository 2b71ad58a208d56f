"""Idempotent producers in a control plane: their window, and sequences that are checked again."""

from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused
from holdfast.rules.producer import SEQUENCE_LAST, ProducerState, WrittenBatch
from holdfast.store.footer import ExtentAppended, ProducerAdvanced, ProducerIdsAllotted, TopicCreated
from tests.control.frames import Apply

TOPIC = UUID(int=1)


@pytest.fixture
def apply(apply: Apply) -> Apply:
    """Frame 1 has made a topic of two partitions."""
    apply(TopicCreated("orders", TOPIC, [[1], [1]], {}))
    return apply


def _extent(first: int, last: int) -> ExtentAppended:
    return ExtentAppended(TOPIC, 0, first, last, [1], 100, 5, 0)


def test_producers_keep_their_window(plane: ControlPlane, apply: Apply) -> None:
    """Five batches of a producer are remembered, with their offsets and the time they were given."""
    for n in range(6):
        apply(_extent(n, n), ProducerAdvanced(TOPIC, 0, 9, 1, 10 * n, 10 * n + 9, n, n, 70 + n))
    window = tuple(
        WrittenBatch(
            first_sequence=10 * n,
            last_sequence=10 * n + 9,
            first_offset=n,
            last_offset=n,
            timestamp_ms=70 + n,
        )
        for n in range(1, 6)
    )
    assert plane.find_producers(TOPIC, 0) == {9: ProducerState(epoch=1, window=window)}
    assert plane.find_producers(TOPIC, 1) == {}


def test_each_partition_and_producer_has_a_window_of_its_own(plane: ControlPlane, apply: Apply) -> None:
    """A later epoch begins an empty one, sequences wrap, and neither moves anybody else's."""
    apply(
        ProducerAdvanced(TOPIC, 0, 9, 1, 0, 2, 0, 2, -1),
        ProducerAdvanced(TOPIC, 1, 9, 1, SEQUENCE_LAST, SEQUENCE_LAST, 0, 0, -1),
        ProducerAdvanced(TOPIC, 0, 8, 0, 7, 7, 3, 3, -1),
    )
    apply(ProducerAdvanced(TOPIC, 0, 9, 2, 0, 0, 4, 4, -1), ProducerAdvanced(TOPIC, 1, 9, 1, 0, 1, 1, 2, -1))
    assert plane.find_producers(TOPIC, 0) == {
        8: ProducerState(epoch=0, window=(WrittenBatch(7, 7, 3, 3),)),
        9: ProducerState(epoch=2, window=(WrittenBatch(0, 0, 4, 4),)),
    }
    assert [batch.first_sequence for batch in plane.find_producers(TOPIC, 1)[9].window] == [SEQUENCE_LAST, 0]


@pytest.mark.parametrize(
    ("epoch", "sequence"),
    [(0, 3), (1, 4), (1, 0), (2, 3)],
    ids=["an old epoch", "a gap", "a repeat", "a new epoch in the middle"],
)
def test_sequences_are_checked_again(plane: ControlPlane, apply: Apply, epoch: int, sequence: int) -> None:
    """The plan may be wrong about a producer; the commit is not."""
    apply(_extent(0, 2), ProducerAdvanced(TOPIC, 0, 9, 1, 0, 2, 0, 2, -1))
    with pytest.raises(CommitRefused, match="producer 9"):
        apply(_extent(3, 5), ProducerAdvanced(TOPIC, 0, 9, epoch, sequence, sequence + 2, 3, 5, -1))
    assert plane.find_bounds(TOPIC, 0).end == 3
    apply(_extent(3, 5), ProducerAdvanced(TOPIC, 0, 9, 1, 3, 5, 3, 5, -1))
    assert len(plane.find_producers(TOPIC, 0)[9].window) == 2


@pytest.mark.parametrize("rehearsed", [False, True], ids=["refused", "rehearsed"])
def test_a_batch_of_a_frame_without_effect_is_still_to_come(
    plane: ControlPlane, apply: Apply, rehearsed: bool
) -> None:
    """What a control plane remembers of a producer is what was committed, and nothing else."""
    apply(ProducerAdvanced(TOPIC, 0, 9, 1, 0, 0, 0, 0, -1))
    before = plane.find_producers(TOPIC, 0)
    ahead = ProducerAdvanced(TOPIC, 0, 9, 1, 1, 1, 1, 1, -1)
    if rehearsed:
        plane.rehearse([ahead])
    else:
        with pytest.raises(CommitRefused, match="does not end"):
            apply(ahead, _extent(7, 7))
    assert plane.find_producers(TOPIC, 0) == before
    apply(ahead)
    assert [batch.first_sequence for batch in plane.find_producers(TOPIC, 0)[9].window] == [0, 1]


def test_more_producers_than_one_statement_takes(plane: ControlPlane, apply: Apply) -> None:
    """Each of them has its row, and goes on from there."""
    for sequence in (0, 1):
        apply(
            *(ProducerAdvanced(TOPIC, 0, who, 0, sequence, sequence, who, who, -1) for who in range(1, 100))
        )
    found = plane.find_producers(TOPIC, 0)
    assert sorted(found) == list(range(1, 100))
    for who, state in found.items():
        assert state.window == (WrittenBatch(0, 0, who, who), WrittenBatch(1, 1, who, who))


def test_batches_of_one_frame_are_checked_in_order(plane: ControlPlane, apply: Apply) -> None:
    """A client has several in flight, and they share a commit."""
    batches = [ProducerAdvanced(TOPIC, 0, 9, 0, n, n, n, n, -1) for n in range(3)]
    with pytest.raises(CommitRefused, match="producer 9"):
        apply(batches[0], batches[2], batches[1])
    assert plane.find_producers(TOPIC, 0) == {}
    apply(*batches)
    assert plane.find_producers(TOPIC, 0)[9].last_sequence == 2


def test_producer_ids_never_go_back(plane: ControlPlane, apply: Apply) -> None:
    """Id 0 is the filler batch's; the next block begins where the last one ended."""
    assert plane.find_next_producer_id() == 1
    apply(ProducerIdsAllotted(1001))
    apply(ProducerIdsAllotted(5))
    assert plane.find_next_producer_id() == 1001

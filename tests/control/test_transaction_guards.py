"""What a control plane refuses of transactions: a state that has moved on, and an instance that is not open."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.store.footer import (
    ExtentAppended,
    TopicCreated,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
)
from tests.control.frames import Apply

TOPIC = UUID(int=1)
NEW = TransactionalIdSet("id", 0, NO_INSTANCE, 7, 0, 1000, "Empty", NO_INSTANCE, 1, -1, -1, -1)
ONGOING = replace(NEW, turn_before=1, phase="Ongoing", instance=5, started_ms=3)


@pytest.fixture
def apply(apply: Apply) -> Apply:
    """Frame 1 has made a topic of one partition and a transactional id in its first turn."""
    apply(TopicCreated("orders", TOPIC, [[1]], {}), NEW)
    return apply


def _extent(offset: int, instance: int) -> ExtentAppended:
    return ExtentAppended(TOPIC, 0, offset, offset, [1], 100, 5, 0, instance)


def test_a_state_follows_the_one_it_was_planned_on(plane: ControlPlane, apply: Apply) -> None:
    """Turn and instance before are what the row says."""
    apply(TransactionBegun(5, 7), ONGOING)
    apply(TransactionEnded(5, True, 9), replace(ONGOING, instance_before=5, instance=NO_INSTANCE, turn=2))
    state = plane.find_transactional_id("id")
    assert state is not None
    assert (state.turn, state.instance) == (2, NO_INSTANCE)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(replace(NEW, producer_id=8), id="new, but there already"),
        pytest.param(replace(ONGOING, turn_before=2), id="of a later turn"),
        pytest.param(replace(ONGOING, instance_before=4), id="of another instance"),
        pytest.param(replace(ONGOING, transactional_id="other"), id="of nobody"),
    ],
)
def test_a_state_that_was_planned_on_another_is_refused(
    plane: ControlPlane, apply: Apply, change: TransactionalIdSet
) -> None:
    """Nothing of the frame stays."""
    before = plane.list_transactional_ids()
    with pytest.raises(CommitRefused, match="has moved on"):
        apply(TransactionBegun(5, 7), change)
    assert plane.list_transactional_ids() == before
    assert plane.find_next_instance() == 1


@pytest.mark.parametrize("begin", [lambda apply: None, lambda apply: apply(TransactionBegun(5, 7))])
def test_an_extent_joins_only_an_open_instance(
    plane: ControlPlane, apply: Apply, begin: Callable[[Apply], object]
) -> None:
    """Not one that never began, nor one that has ended, whether it has data in the partition or not."""
    if begin(apply) is not None:
        apply(TransactionEnded(5, False, 9))
    with pytest.raises(CommitRefused, match="instance 5 is not open"):
        apply(_extent(0, 5))
    assert plane.find_bounds(TOPIC, 0).end == 0


def test_an_ended_instance_takes_no_more_data_where_it_has_some(plane: ControlPlane, apply: Apply) -> None:
    """Its row in the partition may still be there."""
    apply(TransactionBegun(5, 7), _extent(0, 5), _extent(1, 5))
    apply(TransactionEnded(5, True, 9))
    with pytest.raises(CommitRefused, match="instance 5 is not open"):
        apply(_extent(2, 5))
    assert plane.find_bounds(TOPIC, 0).end == plane.find_bounds(TOPIC, 0).last_stable == 2


def test_an_instance_that_a_refused_frame_began_is_not_open(plane: ControlPlane, apply: Apply) -> None:
    """The next frame finds nothing of it."""
    with pytest.raises(CommitRefused, match="does not end at 9"):
        apply(TransactionBegun(5, 7), _extent(9, 5))
    with pytest.raises(CommitRefused, match="instance 5 is not open"):
        apply(_extent(0, 5))
    assert plane.find_bounds(TOPIC, 0).end == 0


def test_extents_of_one_frame_follow_each_other(plane: ControlPlane, apply: Apply) -> None:
    """Each begins where the one before ends, or none of them is taken."""
    for second in (
        _extent(2, NO_INSTANCE),
        _extent(0, NO_INSTANCE),
        replace(_extent(1, NO_INSTANCE), leader_epoch=1),
    ):
        with pytest.raises(CommitRefused, match="does not end at"):
            apply(_extent(0, NO_INSTANCE), second)
    apply(_extent(0, NO_INSTANCE), _extent(1, NO_INSTANCE), _extent(2, NO_INSTANCE))
    assert plane.find_bounds(TOPIC, 0).end == 3


def test_instances_begin_in_the_order_of_their_numbers(plane: ControlPlane, apply: Apply) -> None:
    """A number that is not above all before it was given already."""
    with pytest.raises(CommitRefused, match="instance 5 has begun already"):
        apply(TransactionBegun(6, 7), TransactionBegun(5, 8))
    apply(TransactionBegun(5, 7), TransactionBegun(6, 8))
    assert plane.find_next_instance() == 7


def test_an_instance_that_ended_in_this_frame_takes_no_more(plane: ControlPlane, apply: Apply) -> None:
    """Though it began in the same frame, too."""
    with pytest.raises(CommitRefused, match="instance 5 is not open"):
        apply(TransactionBegun(5, 7), _extent(0, 5), TransactionEnded(5, True, 1), _extent(1, 5))
    assert plane.find_bounds(TOPIC, 0).end == 0

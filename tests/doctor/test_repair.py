"""A rebuild is planned from what the cluster tells, and refused where it would harm; an abort waits for its own end."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.client.cluster import Partition
from holdfast.client.groups import TopicPartition
from holdfast.client.hanging import OpenWrite
from holdfast.doctor import repair
from holdfast.doctor.repair import AbortPlan, abort, plan_rebuild
from holdfast.errors import RepairRefused

PLACE = TopicPartition("orders", 0)


def partition(leader: int = 1, in_sync: tuple[int, ...] = (1, 2, 3)) -> Partition:
    return Partition(index=0, leader=leader, replicas=(3, 1, 2), in_sync=in_sync)


def test_a_follower_is_taken_out_and_put_back_as_it_was() -> None:
    """The owner's order of replicas comes back with it."""
    plan = plan_rebuild(PLACE, 3, partition(), 2)
    assert plan.steps == [
        "assign orders:0 to 1,2",
        "wait until broker 3 has deleted its copy",
        "assign orders:0 to 3,1,2 again",
        "wait until replica 3 is in sync",
    ]


def test_a_leader_hands_over_first() -> None:
    """To a replica in sync that is not to be rebuilt itself; so does a leader that comes next."""
    assert plan_rebuild(PLACE, 3, partition(leader=3), 1, avoid=frozenset({1})).new_leader == 2
    assert plan_rebuild(PLACE, 3, partition(leader=1), 1, avoid=frozenset({1})).new_leader == 2
    assert plan_rebuild(PLACE, 3, partition(leader=1), 1).new_leader is None


def test_too_few_would_stay_in_sync() -> None:
    """Never fewer than the topic asks for, and never none."""
    with pytest.raises(RepairRefused, match=r"without it 1 would be in sync, and min.insync.replicas is 2"):
        plan_rebuild(PLACE, 3, partition(in_sync=(1, 3)), 2)
    with pytest.raises(RepairRefused, match=r"without it 0 would be in sync"):
        plan_rebuild(PLACE, 3, partition(in_sync=(3,)), 0)
    assert plan_rebuild(PLACE, 3, partition(in_sync=(1, 2)), 2).without == (1, 2)


def test_nobody_sound_to_copy_from() -> None:
    """All others are to be rebuilt, too; or it is no replica at all."""
    with pytest.raises(RepairRefused, match="every other replica in sync is to be rebuilt"):
        plan_rebuild(PLACE, 3, partition(), 1, avoid=frozenset({1, 2}))
    with pytest.raises(RepairRefused, match="is not assigned: it is on brokers 3,1,2"):
        plan_rebuild(PLACE, 4, partition(), 1)


HANGING = OpenWrite(
    place=PLACE, producer_id=7, producer_epoch=3, coordinator_epoch=0, start=40, last_ms=1_700_000_000_000
)


@pytest.mark.parametrize(
    "after", [None, replace(HANGING, producer_epoch=4, start=43), replace(HANGING, start=43)]
)
def test_an_abort_waits_for_the_end_of_what_hung_and_not_of_what_came_after(
    monkeypatch: pytest.MonkeyPatch, after: OpenWrite | None
) -> None:
    """A service that comes back opens its next transaction in the same partition, under the same producer id."""
    looks = iter([HANGING, HANGING, after])
    told: list[str] = []
    nobody: Any = None
    monkeypatch.setattr(repair, "find_open_write", lambda cluster, place, producer_id: next(looks))
    monkeypatch.setattr(repair, "abort_open", lambda cluster, found: found)
    monkeypatch.setattr(repair, "PAUSE_S", 0)
    abort(nobody, AbortPlan(place=PLACE, producer_id=7, found=HANGING), tell=told.append)
    assert len(told) == 2
    assert next(looks, "none is left") == "none is left"

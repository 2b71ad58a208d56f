"""Static members (KIP-345, KIP-814): one process per instance id, and no rebalance for a quick return."""

from typing import Any

import pytest

from holdfast.agent.groups.messages import GroupState, Joined, Leaver
from holdfast.errors import CoordinatorNotAvailable, FencedInstanceId, UnknownMemberId
from tests.agent.groups.driving import REBALANCE_MS, SESSION_MS, Driver, subscription


def _stable(driver: Driver, *instances: str, **options: Any) -> list[str]:
    """A stable group of static members; the first leads."""
    joined: list[Joined] = []
    for instance in instances:
        waiting = driver.join(instance=instance, **options)
        for known, member in zip(instances, joined, strict=False):
            driver.join(member.member_id, instance=known, **options)
        joined.append(driver.joined(waiting))
    ids = [member.member_id for member in joined]
    for instance, member_id in zip(instances, ids, strict=True):
        driver.sync(member_id, driver.generation, {each: each.encode() for each in ids}, instance=instance)
    return ids


@pytest.mark.parametrize("who", [0, 1], ids=["leader", "follower"])
@pytest.mark.parametrize("version", [5, 9])
def test_a_quick_return_needs_no_rebalance(who: int, version: int) -> None:
    """It gets a new id, the generation and the assignment that were there; the old id is fenced."""
    driver = Driver()
    ids = _stable(driver, "a", "b")
    generation, instance = driver.generation, "ab"[who]
    back = driver.joined(driver.join(instance=instance, version=version))
    assert driver.state() is GroupState.STABLE
    assert back.generation == generation
    assert back.member_id not in ids
    if who == 1:
        assert (back.leader, back.members, back.skip_assignment) == (ids[0], (), False)
    elif version >= 9:
        assert (back.leader, back.skip_assignment) == (back.member_id, True)
        assert [member.instance_id for member in back.members] == ["a", "b"]
    else:
        assert (back.leader, back.members) == (ids[0], ()), "it must not think that it has to assign"
    assert driver.assignment(driver.sync(back.member_id, generation, instance=instance)) == ids[who].encode()
    for act in (driver.heartbeat, driver.commit):
        act(back.member_id, generation, instance=instance)
        with pytest.raises(FencedInstanceId):
            act(ids[who], generation, instance=instance)
        with pytest.raises(UnknownMemberId):
            act(ids[who], generation)
    assert isinstance(driver.refusal(driver.join(ids[who], instance=instance)), FencedInstanceId)
    assert isinstance(driver.refusal(driver.sync(ids[who], generation, instance=instance)), FencedInstanceId)


def test_a_return_is_answered_when_it_is_durable() -> None:
    """After a crash the new id must be the one that counts."""
    driver = Driver()
    _stable(driver, "a", "b")
    driver.saves_at_once = False
    waiting = driver.join(instance="b")
    assert driver.is_waiting(waiting)
    driver.save_all()
    back = driver.joined(waiting)
    driver.restart()
    driver.heartbeat(back.member_id, back.generation, instance="b")
    waiting = driver.join(instance="b")
    driver.fail_save()
    assert isinstance(driver.refusal(waiting), CoordinatorNotAvailable)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"metadata": subscription("t", "u")}, id="other topics"),
        pytest.param({"protocols": ("sticky", "range")}, id="another protocol"),
    ],
)
def test_a_return_with_other_wishes_is_a_rebalance(options: dict[str, object]) -> None:
    """The assignment that it had would not fit."""
    driver = Driver()
    waiting = driver.join(instance="a", protocols=("range", "sticky"))
    member = driver.joined(waiting).member_id
    driver.sync(member, 1, {member: b"all"}, instance="a")
    back = driver.joined(driver.join(instance="a", **options))  # type: ignore[arg-type]
    assert (back.generation, back.skip_assignment) == (2, False)
    assert driver.state() is GroupState.COMPLETING_REBALANCE


def test_other_user_data_alone_is_no_rebalance() -> None:
    """A restarted consumer owns nothing, and says so in its metadata; that changes nothing."""
    driver = Driver()
    _stable(driver, "a")
    back = driver.joined(driver.join(instance="a", metadata=subscription("t", user_data=b"owned: none")))
    assert back.generation == 1
    assert driver.state() is GroupState.STABLE


def test_waiting_requests_of_a_fenced_process_are_refused() -> None:
    """The newer process takes the place, in whatever phase the group is."""
    driver = Driver()
    leader, member = _stable(driver, "a", "b")
    driver.join(leader, instance="a")
    joining = driver.join(member, instance="b")
    assert driver.joined(joining).generation == driver.generation
    syncing = driver.sync(member, driver.generation, instance="b")
    taking_over = driver.join(instance="b")
    assert isinstance(driver.refusal(syncing), FencedInstanceId)
    assert driver.is_waiting(taking_over), "the leader knows the old id and has to assign anew"
    once_more = driver.join(instance="b")
    assert isinstance(driver.refusal(taking_over), FencedInstanceId)
    driver.join(leader, instance="a")
    assert driver.joined(once_more).generation == driver.generation


def test_an_absent_static_member_keeps_its_place_until_its_session_ends() -> None:
    """A rebalance of the others goes on without its join; its partitions may stay reserved for it."""
    driver = Driver()
    ids = _stable(driver, "a", "b", session_timeout_ms=600_000)
    waiting = driver.join(ids[0], instance="a", session_timeout_ms=600_000)
    driver.pass_time(REBALANCE_MS)
    joined = driver.joined(waiting)
    assert [member.instance_id for member in joined.members] == ["a", "b"]
    driver.sync(ids[0], joined.generation, {ids[1]: b"kept"}, instance="a")
    back = driver.joined(driver.join(instance="b", session_timeout_ms=600_000))
    assert back.generation == joined.generation
    assert driver.assignment(driver.sync(back.member_id, back.generation, instance="b")) == b"kept"


def test_a_group_whose_static_members_are_all_away_waits_for_one() -> None:
    """There is nobody to lead; when all sessions are over, the group is empty."""
    driver = Driver()
    leader, member = _stable(driver, "a", "b")
    driver.group.leave([Leaver(member_id=leader)], driver.now_ms)
    driver.settle()
    driver.pass_time(SESSION_MS - 1)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.pass_time(1)
    assert driver.state() is GroupState.EMPTY
    assert member


@pytest.mark.parametrize("member_id", ["", "its own"])
def test_a_static_member_is_taken_out_by_its_instance_id(member_id: str) -> None:
    """An operator knows no member ids; a wrong one is fenced."""
    driver = Driver()
    ids = _stable(driver, "a", "b")
    leavers = [
        Leaver(member_id="", instance_id="nobody"),
        Leaver(member_id="wrong", instance_id="b"),
        Leaver(member_id=ids[1] if member_id else "", instance_id="b"),
    ]
    results = driver.group.leave(leavers, driver.now_ms)
    driver.settle()
    assert [type(result) for result in results] == [UnknownMemberId, FencedInstanceId, type(None)]
    joined = driver.joined(driver.join(ids[0], instance="a"))
    assert [member.instance_id for member in joined.members] == ["a"]

"""One group of dynamic members in virtual time: generations, leaders, protocols, sessions, fences."""

from collections.abc import Callable

import pytest

from holdfast.agent.groups.messages import GroupState, Leaver
from holdfast.errors import (
    CoordinatorNotAvailable,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    KafkaRefusal,
    MemberIdRequired,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from tests.agent.groups.driving import REBALANCE_MS, SESSION_MS, Driver, subscription


def test_a_new_member_is_told_its_id_first() -> None:
    """A client that retries its first join must not leave a ghost behind (KIP-394)."""
    driver = Driver()
    first, retry = driver.join(), driver.join()
    assert isinstance(driver.refusal(first), MemberIdRequired)
    assert driver.group.describe().members == ()
    promised = driver.refusal(retry)
    assert isinstance(promised, MemberIdRequired)
    driver.join(promised.member_id)
    assert driver.state() is GroupState.PREPARING_REBALANCE, "the other id may still be joined with"
    driver.pass_time(SESSION_MS)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert [member.member_id for member in driver.group.describe().members] == [promised.member_id]


def test_old_clients_join_without_knowing_their_id() -> None:
    """Before v4 there is no way to tell them first."""
    driver = Driver()
    joined = driver.joined(driver.join(version=3))
    assert joined.leader == joined.member_id == "c-1"
    assert joined.generation == 1


def test_the_leader_assigns_and_all_learn_their_part() -> None:
    """Followers wait for the leader; only it sees the members; all get what it said."""
    driver = Driver()
    leader, _ = driver.enter()
    follower, waiting = driver.enter()
    assert driver.is_waiting(waiting), "the leader has to join again first"
    with pytest.raises(RebalanceInProgress):
        driver.heartbeat(leader, 1)
    again = driver.join(leader)
    seen = driver.joined(again)
    assert (seen.generation, seen.leader, seen.protocol) == (2, leader, "range")
    assert [member.member_id for member in seen.members] == [leader, follower]
    assert driver.joined(waiting).members == ()
    asked = driver.sync(follower, 2)
    assert driver.is_waiting(asked)
    answered = driver.sync(leader, 2, {leader: b"0 1", follower: b"2 3", "stranger": b"4"})
    assert driver.assignment(asked) == b"2 3"
    assert driver.assignment(answered) == b"0 1"
    assert driver.state() is GroupState.STABLE
    assert driver.assignment(driver.sync(follower, 2)) == b"2 3", "a repeat gets the same"


def test_members_without_an_assignment_get_an_empty_one() -> None:
    """More members than partitions."""
    driver = Driver()
    leader, follower = driver.stable(2)
    driver.rejoin(leader, follower)
    driver.sync(leader, driver.generation, {leader: b"all"})
    assert driver.assignment(driver.sync(follower, driver.generation)) == b""


def test_an_assignment_counts_when_it_is_durable() -> None:
    """Nobody acts on a generation that a crash would forget."""
    driver = Driver(saves_at_once=False)
    member, _ = driver.enter()
    asked = driver.sync(member, 1, {member: b"all"})
    assert driver.is_waiting(asked)
    with pytest.raises(RebalanceInProgress):
        driver.commit(member, 1)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    driver.save_all()
    assert driver.assignment(asked) == b"all"
    driver.commit(member, 1)


def test_an_assignment_that_cannot_be_saved_is_not_given() -> None:
    """The members are told to try again, and the group rebalances."""
    driver = Driver(saves_at_once=False)
    member, _ = driver.enter()
    asked = driver.sync(member, 1, {member: b"all"})
    driver.fail_save()
    assert isinstance(driver.refusal(asked), CoordinatorNotAvailable)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.joined(driver.join(member)).generation == 2


def test_a_save_of_an_older_generation_changes_nothing() -> None:
    """A rebalance that begins while the assignment is on its way wins."""
    driver = Driver(saves_at_once=False)
    member, _ = driver.enter()
    asked = driver.sync(member, 1, {member: b"all"})
    driver.enter()
    assert isinstance(driver.refusal(asked), RebalanceInProgress)
    driver.save_all()
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_most_votes_win_among_protocols_that_all_know() -> None:
    """Each member votes for the first of its protocols that everybody offers."""
    driver = Driver()
    one, _ = driver.enter(protocols=["sticky", "range", "roundrobin"])
    two, _ = driver.enter(protocols=["roundrobin", "range"])
    driver.join(one, protocols=["sticky", "range", "roundrobin"])
    three, last = driver.enter(protocols=["roundrobin", "range"])
    driver.join(one, protocols=["sticky", "range", "roundrobin"])
    driver.join(two, protocols=["roundrobin", "range"])
    assert driver.joined(last).protocol == "roundrobin"
    assert three


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"protocols": ["sticky"]}, id="nothing in common"),
        pytest.param({"protocols": []}, id="no protocol"),
        pytest.param({"protocol_type": "connect"}, id="another type"),
        pytest.param({"protocol_type": ""}, id="no type"),
    ],
)
def test_members_must_have_a_protocol_in_common(options: dict[str, object]) -> None:
    """INCONSISTENT_GROUP_PROTOCOL, and the group is not disturbed."""
    driver = Driver()
    driver.stable()
    assert isinstance(driver.refusal(driver.join(**options)), InconsistentGroupProtocol)  # type: ignore[arg-type]
    assert driver.state() is GroupState.STABLE


@pytest.mark.parametrize("timeout_ms", [0, 999, 1_800_001, -1])
def test_session_timeouts_have_bounds(timeout_ms: int) -> None:
    """INVALID_SESSION_TIMEOUT outside of them."""
    driver = Driver()
    assert isinstance(driver.refusal(driver.join(session_timeout_ms=timeout_ms)), InvalidSessionTimeout)


def test_sizes_have_bounds() -> None:
    """What a member says of itself, and what it is assigned."""
    driver = Driver(member_bytes_max=100)
    assert isinstance(driver.refusal(driver.join(metadata=bytes(101))), InvalidRequest)
    member, _ = driver.enter(metadata=bytes(50))
    assert isinstance(driver.refusal(driver.sync(member, 1, {member: bytes(101)})), InvalidRequest)


def test_a_group_has_a_greatest_size() -> None:
    """GROUP_MAX_SIZE_REACHED for the one too many; the others go on without it."""
    driver = Driver(members_max=2)
    first, _ = driver.enter()
    promised = [driver.refusal(driver.join()) for _ in range(2)]
    assert isinstance(driver.refusal(driver.join()), GroupMaxSizeReached), "promises count too"
    tickets = [driver.join(each.member_id) for each in promised if isinstance(each, MemberIdRequired)]
    assert isinstance(driver.refusal(tickets[1]), GroupMaxSizeReached)
    driver.join(first)
    assert driver.joined(tickets[0]).generation == 2


def test_a_member_that_is_silent_for_its_session_is_out() -> None:
    """The others rebalance without it; heartbeats keep a member in."""
    driver = Driver()
    leader, follower = driver.stable(2)
    for _ in range(5):
        driver.pass_time(SESSION_MS - 1)
        driver.heartbeat(leader, 2)
        driver.heartbeat(follower, 2)
    driver.pass_time(SESSION_MS - 1)
    driver.heartbeat(follower, 2)
    driver.pass_time(1)
    with pytest.raises(UnknownMemberId):
        driver.heartbeat(leader, 2)
    with pytest.raises(RebalanceInProgress):
        driver.heartbeat(follower, 2)
    joined = driver.joined(driver.join(follower))
    assert (joined.generation, joined.leader) == (3, follower)


def test_commits_keep_a_session_alive() -> None:
    """As heartbeats do."""
    driver = Driver()
    (member,) = driver.stable()
    for _ in range(3):
        driver.pass_time(SESSION_MS - 1)
        driver.commit(member, 1)
    assert driver.state() is GroupState.STABLE


def test_a_waiting_member_does_not_expire() -> None:
    """It cannot heartbeat while its join waits for a slow one."""
    driver = Driver()
    slow, _ = driver.enter()
    _, waiting = driver.enter()
    for _ in range(5):
        driver.pass_time(SESSION_MS - 1)
        with pytest.raises(RebalanceInProgress):
            driver.heartbeat(slow, 1)
    assert driver.is_waiting(waiting)
    driver.join(slow)
    assert driver.joined(waiting).generation == 2


def test_a_waiting_member_whose_connection_breaks_may_come_back() -> None:
    """Within its session it keeps its place, after that it has none."""
    driver = Driver()
    leader, _ = driver.enter()
    member, waiting = driver.enter()
    driver.group.abandon(waiting, driver.now_ms)
    driver.join(leader)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    back = driver.join(member)
    assert driver.joined(back).generation == 2
    asked = driver.sync(member, 2)
    driver.group.abandon(asked, driver.now_ms)
    driver.pass_time(SESSION_MS)
    assert isinstance(driver.refusal(driver.sync(member, 2)), UnknownMemberId)


def test_a_rebalance_waits_no_longer_than_its_timeout() -> None:
    """Those who have not joined by then are out, however alive."""
    driver = Driver()
    leader, follower = driver.stable(2)
    waiting = driver.join(leader)
    for _ in range(REBALANCE_MS // 5_000):
        assert driver.is_waiting(waiting)
        with pytest.raises(RebalanceInProgress):
            driver.heartbeat(follower, 2)
        driver.pass_time(5_000)
    assert driver.joined(waiting).generation == 3
    with pytest.raises(UnknownMemberId):
        driver.heartbeat(follower, 3)


def test_a_member_that_never_syncs_is_out() -> None:
    """Heartbeats alone do not keep a place in a generation."""
    driver = Driver()
    leader, follower = driver.stable(2)
    driver.rejoin(leader, follower)
    asked = driver.sync(leader, 3, {leader: b"all"})
    assert driver.assignment(asked) == b"all"
    for _ in range(REBALANCE_MS // 5_000):
        driver.heartbeat(leader, 3)
        driver.heartbeat(follower, 3)
        driver.pass_time(5_000)
    with pytest.raises(UnknownMemberId):
        driver.heartbeat(follower, 3)
    with pytest.raises(RebalanceInProgress):
        driver.heartbeat(leader, 3)


def test_a_leader_that_never_syncs_holds_nobody_up_for_ever() -> None:
    """The followers are told to join again, and one of them leads."""
    driver = Driver()
    leader, follower = driver.stable(2)
    driver.rejoin(leader, follower)
    asked = driver.sync(follower, 3)
    for _ in range(REBALANCE_MS // 5_000):
        driver.heartbeat(leader, 3)
        driver.pass_time(5_000)
    assert isinstance(driver.refusal(asked), RebalanceInProgress)
    assert driver.joined(driver.join(follower)).leader == follower


def test_members_leave_together_and_cause_one_rebalance() -> None:
    """Each has an answer of its own."""
    driver = Driver()
    one, two, three = driver.stable(3)
    generation = driver.generation
    promised = driver.refusal(driver.join())
    assert isinstance(promised, MemberIdRequired)
    leavers = [Leaver(member_id=each) for each in (one, "stranger", two, promised.member_id)]
    results = driver.group.leave(leavers, driver.now_ms)
    driver.settle()
    assert [type(result) for result in results] == [type(None), UnknownMemberId, type(None), type(None)]
    joined = driver.joined(driver.join(three))
    assert (joined.generation, joined.leader) == (generation + 1, three)


def test_a_client_that_gives_up_its_promised_id_disturbs_nobody() -> None:
    """It was no member yet."""
    driver = Driver()
    driver.stable()
    promised = driver.refusal(driver.join())
    assert isinstance(promised, MemberIdRequired)
    assert driver.group.leave([Leaver(member_id=promised.member_id)], 0) == [None]
    assert driver.state() is GroupState.STABLE


def test_the_last_one_leaves_an_empty_group() -> None:
    """Saved as such: a restart does not bring the members back, and generations go on from there."""
    driver = Driver()
    (member,) = driver.stable()
    was_idle = driver.group.is_idle
    driver.group.leave([Leaver(member_id=member)], driver.now_ms)
    driver.settle()
    assert driver.state() is GroupState.EMPTY
    assert (was_idle, driver.group.is_idle) == (False, True)
    driver.restart()
    assert driver.group.describe().members == ()
    _, waiting = driver.enter()
    assert driver.joined(waiting).generation == 3


def test_a_follower_that_missed_its_answer_is_told_again() -> None:
    """No rebalance for a join that changes nothing; the leader's means one."""
    driver = Driver()
    leader, follower = driver.stable(2)
    assert driver.joined(driver.join(follower)).generation == 2
    assert driver.state() is GroupState.STABLE
    driver.join(follower, metadata=subscription("t", "u"))
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.join(leader)
    again = driver.joined(driver.join(leader))
    assert len(again.members) == 2, "in the new generation it is told again too, nobody has synced"
    driver.sync(leader, 3)
    driver.join(leader)
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_the_newer_of_two_joins_of_a_member_counts() -> None:
    """The older one is answered all the same."""
    driver = Driver()
    leader, _ = driver.enter()
    member, older = driver.enter()
    newer = driver.join(member)
    assert isinstance(driver.refusal(older), RebalanceInProgress)
    driver.join(leader)
    assert driver.joined(newer).generation == 2


FENCED: list[tuple[str, Callable[[Driver, str], None], type[KafkaRefusal]]] = [
    ("a stranger", lambda driver, member: driver.commit("stranger", 1), UnknownMemberId),
    ("an older generation", lambda driver, member: driver.commit(member, 0), IllegalGeneration),
    ("a newer generation", lambda driver, member: driver.commit(member, 2), IllegalGeneration),
    ("no generation", lambda driver, member: driver.commit(member, -1), IllegalGeneration),
    ("a simple consumer", lambda driver, member: driver.commit("", -1), UnknownMemberId),
    ("a stranger's heartbeat", lambda driver, member: driver.heartbeat("stranger", 1), UnknownMemberId),
    ("a heartbeat of another time", lambda driver, member: driver.heartbeat(member, 0), IllegalGeneration),
]


@pytest.mark.parametrize(("act", "refusal"), [each[1:] for each in FENCED], ids=[each[0] for each in FENCED])
def test_only_members_of_the_generation_may_act(
    act: Callable[[Driver, str], None], refusal: type[KafkaRefusal]
) -> None:
    """A zombie must not move the group's positions."""
    driver = Driver()
    (member,) = driver.stable()
    driver.commit(member, 1)
    with pytest.raises(refusal):
        act(driver, member)


def test_syncs_are_fenced_too() -> None:
    """By member, generation and protocol."""
    driver = Driver()
    (member,) = driver.stable()
    assert isinstance(driver.refusal(driver.sync("stranger", 1)), UnknownMemberId)
    assert isinstance(driver.refusal(driver.sync(member, 2)), IllegalGeneration)
    for ticket in (
        driver.sync(member, 1, protocol="sticky"),
        driver.sync(member, 1, protocol_type="connect"),
    ):
        assert isinstance(driver.refusal(ticket), InconsistentGroupProtocol)
    assert driver.sync(member, 1, protocol="range", protocol_type="consumer") in driver.answers
    driver.enter()
    assert isinstance(driver.refusal(driver.sync(member, 1)), RebalanceInProgress)


def test_members_may_still_commit_while_the_group_prepares() -> None:
    """They commit what they have done before they join again."""
    driver = Driver()
    (member,) = driver.stable()
    driver.enter()
    driver.commit(member, 1)
    driver.join(member)
    with pytest.raises(RebalanceInProgress):
        driver.commit(member, 2)


def test_simple_consumers_commit_to_groups_without_members() -> None:
    """Positions of a group that is managed are its members' alone."""
    driver = Driver()
    driver.commit("", -1)
    (member,) = driver.stable()
    driver.group.leave([Leaver(member_id=member)], driver.now_ms)
    driver.settle()
    driver.commit("", -1)


def test_a_restart_goes_on_in_the_same_generation() -> None:
    """Members heartbeat, commit and sync as if nothing had happened; whoever is gone expires."""
    driver = Driver()
    leader, follower = driver.stable(2)
    driver.restart()
    driver.pass_time(SESSION_MS - 1)
    driver.heartbeat(leader, 2)
    driver.commit(leader, 2)
    assert driver.assignment(driver.sync(leader, 2)) == f"to {leader}".encode()
    assert driver.joined(driver.join(follower)).generation == 2
    driver.pass_time(SESSION_MS - 1)
    driver.heartbeat(leader, 2)
    driver.pass_time(1)
    with pytest.raises(RebalanceInProgress):
        driver.heartbeat(leader, 2)
    assert driver.joined(driver.join(leader)).generation == 3


def test_the_first_members_may_be_given_time_to_gather() -> None:
    """One generation for all who come within the delay; each newcomer extends it, up to the timeout."""
    driver = Driver(initial_rebalance_delay_ms=3_000)
    tickets = [driver.enter()[1]]
    driver.pass_time(2_000)
    tickets.append(driver.enter()[1])
    driver.pass_time(3_000)
    tickets.append(driver.enter()[1])
    driver.pass_time(1_000)
    assert all(map(driver.is_waiting, tickets)), "the second one has extended it to 6 s"
    driver.pass_time(3_000)
    assert [driver.joined(ticket).generation for ticket in tickets] == [1, 1, 1]


def test_a_group_is_deleted_only_without_members() -> None:
    """While it is being deleted it takes nobody; if that fails it is as before."""
    driver = Driver()
    (member,) = driver.stable()
    with pytest.raises(NonEmptyGroup):
        driver.group.begin_delete()
    driver.group.leave([Leaver(member_id=member)], driver.now_ms)
    driver.settle()
    driver.group.begin_delete()
    assert isinstance(driver.refusal(driver.join()), CoordinatorNotAvailable)
    with pytest.raises(CoordinatorNotAvailable):
        driver.commit("", -1)
    driver.group.cancel_delete()
    driver.enter()


def test_what_a_group_shows_of_itself() -> None:
    """Metadata and assignments while it is stable, only names otherwise."""
    driver = Driver()
    (member,) = driver.stable(metadata=subscription("t", "u"))
    shown = driver.group.describe()
    assert (shown.state, shown.protocol_type, shown.protocol) == (GroupState.STABLE, "consumer", "range")
    assert (shown.members[0].member_id, shown.members[0].assignment) == (member, f"to {member}".encode())
    assert [driver.group.subscribes(topic) for topic in ("t", "u", "v")] == [True, True, False]
    driver.enter()
    shown = driver.group.describe()
    assert (shown.state, shown.protocol) == (GroupState.PREPARING_REBALANCE, "")
    assert {(each.protocols, each.assignment) for each in shown.members} == {((), b"")}

"""The guard's decisions one by one, on a small model of brokers in simulated time."""

import pytest
from msgspec.structs import replace

from holdfast.guard.decide import PATIENCE_MS, Decider, Settings
from holdfast.guard.lever import LONG_MAX, Lags, given_back, mark_of, pulled
from holdfast.guard.run import Guard
from holdfast.guard.state import Stage, State
from tests.guard.cluster_model import RETENTION_MS, TOPIC, ClusterModel

MARGIN_MS = 5_000
OWNER = Lags("1000", None)


def guard_of(model: ClusterModel, *, mark: int = 77, state: State | None = None) -> Guard:
    """A guard of the model's cluster."""
    return Guard(
        state or State(cluster_id="c", mark=mark),
        world=model,
        doctor=model,
        decider=Decider(Settings(margin_ms=MARGIN_MS)),
        write=lambda state: None,
    )


def turn(model: ClusterModel, *guards: Guard, times: int = 1, pause_ms: int = 1_000) -> list[str]:
    """So many turns, a second apart; what the last guard told."""
    told: list[str] = []
    for _ in range(times):
        for guard in guards:
            told += guard.turn()
        model.spread()
        model.pass_time(pause_ms)
    return told


def stage(guard: Guard) -> Stage | None:
    """How far its hold is."""
    hold = guard.state.hold_of(TOPIC)
    return None if hold is None else hold.stage


def reasons(guard: Guard) -> list[tuple[int, str]]:
    """Who is tainted and why."""
    hold = guard.state.hold_of(TOPIC)
    return [] if hold is None else [(taint.replica, taint.why) for taint in hold.taints]


def test_a_pause_from_its_beginning_to_its_end() -> None:
    """Paused when one leaves, given back when all are there, caught up, and the margin has passed; not before."""
    model = ClusterModel(owner=OWNER)
    guard = guard_of(model)
    turn(model, guard)
    assert stage(guard) is None
    model.take_away(3, cut_off=False)
    turn(model, guard)
    assert (stage(guard), model.settings) == (Stage.PAUSING, Lags(str(LONG_MAX - 77), str(LONG_MAX)))
    turn(model, guard)
    assert (stage(guard), reasons(guard)) == (Stage.PAUSED, [])
    turn(model, guard, times=1000)
    assert stage(guard) is Stage.PAUSED
    model.bring_back(3)
    turn(model, guard, times=20)
    assert stage(guard) is Stage.PAUSED
    model.catch_up(3)
    turn(model, guard, times=MARGIN_MS // 1_000)
    assert (stage(guard), mark_of(model.settings)) == (Stage.PAUSED, 77)
    turn(model, guard)
    assert (stage(guard), model.settings) == (Stage.RESTORING, OWNER)
    turn(model, guard)
    assert (stage(guard), model.settings, model.answers) == (None, OWNER, 0)


def test_a_replica_that_leaves_while_settings_are_put_back() -> None:
    """Some brokers still show the pause when it is over: the lever is pulled again, and nobody is suspected."""
    model = ClusterModel(owner=OWNER)
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(3, cut_off=False)
    turn(model, guard, times=2)
    model.bring_back(3)
    model.catch_up(3)
    turn(model, guard, times=5)
    guard.turn()
    assert (stage(guard), model.settings) == (Stage.RESTORING, OWNER)
    model.spread_to(1)
    model.in_sync.discard(2)
    model.nodes[1].sees_in_sync = frozenset({1, 3})
    model.out_since_ms[2] = model.now_ms
    turn(model, guard, times=3)
    assert (stage(guard), mark_of(model.settings), reasons(guard)) == (Stage.PAUSED, 77, [])
    model.catch_up(2)
    turn(model, guard, times=20)
    assert (stage(guard), model.settings) == (None, OWNER)


def test_the_margin_begins_anew() -> None:
    """A replica that comes and goes keeps a topic paused; the time in between does not add up."""
    model = ClusterModel()
    guard = guard_of(model)
    turn(model, guard)
    for _ in range(3):
        model.take_away(3, cut_off=False)
        turn(model, guard, times=2)
        model.bring_back(3)
        model.catch_up(3)
        turn(model, guard, times=4)
        assert mark_of(model.settings) == 77


def test_in_sync_is_not_caught_up() -> None:
    """A replica whose log ends before the others' did when all were back is waited for."""
    model = ClusterModel()
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(3, cut_off=False)
    model.write()
    turn(model, guard, times=2)
    model.bring_back(3)
    model.in_sync.add(3)
    model.out_since_ms.clear()
    model.spread()
    turn(model, guard, times=20)
    assert stage(guard) is Stage.PAUSED
    model.write()
    turn(model, guard, times=7)
    assert stage(guard) is None


@pytest.mark.parametrize(("epochs", "turns"), [(0, 400), (1, 2)])
def test_a_late_pause_has_the_replica_examined(epochs: int, turns: int) -> None:
    """The guard looked too late, or a broker did not acknowledge in time: cleanup waits for the doctor.

    Who is taken out of the assignment, as in a repair, raises the leader's epoch, though no look may have met him out
    of it: then the doctor looks again at once.
    """
    model = ClusterModel()
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(3, cut_off=False)
    model.pass_time(RETENTION_MS)
    turn(model, guard)
    ((replica, why),) = reasons(guard)
    assert (replica, why) == (3, "not every broker acknowledged the pause within delete.retention.ms")
    model.harmed.add(3)
    model.bring_back(3)
    model.catch_up(3)
    turn(model, guard, times=20)
    hold = guard.state.hold_of(TOPIC)
    assert hold is not None
    assert (hold.stage, hold.taints[0].verdict, model.answers) == (Stage.PAUSED, "{3} differ", 1)
    model.repair()
    model.leader_epoch += epochs
    turn(model, guard, times=turns)
    assert (reasons(guard), model.answers) == ([], 2)
    turn(model, guard, times=10)
    assert stage(guard) is None


def test_a_broker_that_does_not_acknowledge() -> None:
    """It is cut off from the controller, and cleans on: the replica that left is examined."""
    model = ClusterModel()
    guard = guard_of(model)
    turn(model, guard)
    model.nodes[2].cut_off = True
    model.take_away(3, cut_off=False)
    turn(model, guard, times=30)
    assert (stage(guard), reasons(guard)) == (Stage.PAUSING, [])
    turn(model, guard, times=40)
    assert [replica for replica, _ in reasons(guard)] == [3]


def test_a_leader_that_changes_meanwhile() -> None:
    """A copy of two leaders may be wrong though the pause was in time; that the leader itself left is no such case."""
    model = ClusterModel()
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(1, cut_off=False)
    turn(model, guard, times=3)
    assert reasons(guard) == []
    model.change_leader(3)
    turn(model, guard)
    assert reasons(guard) == [
        (1, "the leader changed while it was out of sync, so its copy may come from two")
    ]


def test_a_replica_that_was_out_before() -> None:
    """Nobody knows for how long: it is paused at once, and examined."""
    model = ClusterModel()
    model.take_away(3, cut_off=False)
    guard = guard_of(model)
    turn(model, guard, times=2)
    assert stage(guard) is Stage.PAUSED
    assert reasons(guard) == [(3, "it was out of sync before this guard saw it in sync")]


def test_an_examination_that_is_overtaken_does_not_count() -> None:
    """A replica leaves while the doctor is at work: what he says is about before."""
    model = ClusterModel()
    model.take_away(3, cut_off=False)
    guard = guard_of(model)
    turn(model, guard, times=2)
    model.bring_back(3)
    model.catch_up(3)
    turn(model, guard)
    before = model.asked
    model.asked = []
    model.take_away(2, cut_off=False)
    turn(model, guard)
    model.bring_back(2)
    model.catch_up(2)
    model.asked = list(before)
    turn(model, guard)
    assert [replica for replica, _ in reasons(guard)] == [3]
    assert [step.asked_ms > before[0].asked_ms for step in model.asked] == [True]
    turn(model, guard)
    assert reasons(guard) == []


def test_the_owner_wins() -> None:
    """Somebody changes the setting during a pause: it stays, it is told, and who is out is examined."""
    model = ClusterModel(owner=Lags("1000", "90000"))
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(3, cut_off=False)
    turn(model, guard, times=2)
    model.change_owner(Lags("0", "90000"))
    told = turn(model, guard, times=3)
    assert (stage(guard), model.settings.min_ms) == (Stage.OVERRIDDEN, "0")
    assert any("was changed by somebody else" in line for line in told)
    assert reasons(guard) == [(3, "somebody ended the pause while it was out of sync")]
    model.bring_back(3)
    model.catch_up(3)
    turn(model, guard, times=20)
    assert (stage(guard), model.settings) == (None, Lags("0", "90000"))


def test_a_topic_that_is_made_anew() -> None:
    """What is written down of the old one is not forced upon the new one."""
    model = ClusterModel(owner=OWNER)
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(3, cut_off=False)
    turn(model, guard, times=2)
    model.settings = Lags()
    model.topic_id = "id-2"
    model.bring_back(3)
    model.catch_up(3)
    told = turn(model, guard, times=20)
    assert (stage(guard), model.settings) == (None, Lags())
    assert told == [f"{TOPIC} was deleted and made anew: there is nothing to give back"]


def test_a_second_guard_keeps_its_hands_off() -> None:
    """It sees the other's mark, tells of it, and does nothing; the other gives back what it has taken."""
    model = ClusterModel(owner=OWNER)
    first, second = guard_of(model), guard_of(model, mark=78)
    turn(model, first, second)
    model.take_away(3, cut_off=False)
    turn(model, first)
    told = turn(model, first, second, times=30)
    assert (stage(first), stage(second)) == (Stage.PAUSED, None)
    assert [line for line in told if "another guard's" in line]
    model.bring_back(3)
    model.catch_up(3)
    turn(model, first, second, times=20)
    assert (stage(first), stage(second), model.settings) == (None, None, OWNER)


def test_two_guards_that_pull_at_once() -> None:
    """Both read the owner's settings before either mark was there: the last one has the topic, the other lets go."""
    model = ClusterModel(owner=OWNER)
    first, second = guard_of(model), guard_of(model, mark=78)
    turn(model, first, second)
    model.take_away(3, cut_off=False)
    first.turn()
    second.turn()
    for node in model.nodes.values():
        node.lags = pulled(77)  # brokers have heard of the first only
    second.turn()
    model.spread()
    assert (stage(first), stage(second)) == (Stage.PAUSING, Stage.PAUSING)
    turn(model, first, second, times=PATIENCE_MS // 1_000 + 2)
    assert (stage(first), stage(second), mark_of(model.settings)) == (None, Stage.PAUSED, 78)
    model.bring_back(3)
    model.catch_up(3)
    turn(model, first, second, times=20)
    assert (stage(second), model.settings) == (None, OWNER)


def test_a_mark_that_nobody_remembers() -> None:
    """The state file was lost: the topic is left alone, and what to do is told once."""
    model = ClusterModel(owner=pulled(77))
    guard = guard_of(model)
    told = turn(model, guard, times=5)
    assert [line for line in told if "not in its state file" in line] == told
    assert len(told) == 1


def test_what_is_refused_is_told_once_and_tried_again() -> None:
    """The right to alter was taken away, and comes back."""
    model = ClusterModel()
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(3, cut_off=False)
    model.refuses = True
    told = turn(model, guard, times=5)
    assert len([line for line in told if "could not be changed" in line]) == 1
    assert guard.refused == {TOPIC: "refused"}
    model.refuses = False
    turn(model, guard, times=2)
    assert (stage(guard), guard.refused) == (Stage.PAUSED, {})


def test_growth_is_counted_from_the_pause_on() -> None:
    """The first size that is told stays."""
    model = ClusterModel()
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(3, cut_off=False)
    turn(model, guard)
    hold = guard.state.hold_of(TOPIC)
    assert hold is not None
    assert hold.size_bytes_then is None
    again = guard_of(model, state=replace(guard.state, holds=(replace(hold, size_bytes_then=5),)))
    turn(model, again)
    assert again.state.holds[0].size_bytes_then == 5


def test_what_is_given_back() -> None:
    """What is ours as it was; what is not ours as it is."""
    owner = Lags(None, "90000")
    assert given_back(pulled(77), owner, 77) == owner
    assert given_back(Lags("5", str(LONG_MAX)), owner, 77) == Lags("5", "90000")
    assert given_back(pulled(78), owner, 77) == Lags(str(LONG_MAX - 78), "90000")
    assert mark_of(Lags(str(LONG_MAX))) is None
    assert mark_of(Lags("0")) is None
    assert pulled(77).changes_to(owner).unset == ("min.compaction.lag.ms",)
    assert pulled(77).changes_to(owner).put == {"max.compaction.lag.ms": "90000"}

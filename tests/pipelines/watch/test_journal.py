"""What a watcher says, and when: each alarm when it begins and when it ends, in lines that people can read."""

from dataclasses import replace

from holdfast.pipelines.config import Alarms, Budget, Mode, Trigger
from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.evaluator import AlarmKind
from holdfast.pipelines.watch.journal import Journal
from holdfast.pipelines.watch.profile import derive
from holdfast.pipelines.watch.world import Forwarding, Spending, World

START_MS = 1_794_614_400_000
STUCK = Forwarding(
    group="a-audit",
    topic="q",
    partition=3,
    log_start=0,
    stable_end=4_000,
    log_end=4_000,
    committed=1_000,
    tenants=("acme", "birch"),
)
SPENDINGS = (
    Spending(tenant="acme", expected=144_000, failed=440, share_of_waiting=0.0),
    Spending(tenant="birch", expected=144_000, failed=0, share_of_waiting=0.0),
    Spending(tenant="cedar", expected=144_000, failed=1_440, share_of_waiting=0.0),
)


def journal() -> Journal:
    profile = derive(Trigger(interval_ms=10_000), Alarms(), Budget(), Mode.ADAPTER)
    return Journal("payments", profile, Commands(), interval_ms=5_000)


def look(made: Journal, seconds: int, *forwardings: Forwarding) -> list[str]:
    world = World(now_ms=START_MS + seconds * 1_000, forwardings=forwardings, spendings=SPENDINGS)
    made.note(world)
    return list(made.news())


def test_an_alarm_says_who_where_how_much_how_long_and_what_to_run_once() -> None:
    """Minutes are those of the tenant that is hit hardest, not of one whose messages do not wait."""
    made = journal()
    assert look(made, 0, STUCK) == []
    assert look(made, 60, STUCK) == [
        "PAGE  stalled: a-audit has not moved in q-3 for 60 s "
        "(at offset 1,000; 3,000 messages wait; tenants acme, birch; 10 min of budget left)",
        "  holdfast group describe a-audit",
    ]
    assert look(made, 65, STUCK) == []
    assert look(made, 70, replace(STUCK, committed=4_000)) == [
        "over  stalled: a-audit has not moved in q-3 for 65 s"
    ]


def test_an_alarm_goes_on_while_more_tenants_come_to_wait_and_tenants_who_spend_too_much_have_one_each() -> (
    None
):
    made = journal()
    look(made, 0, replace(STUCK, tenants=("acme",)))
    assert len(look(made, 60, replace(STUCK, tenants=("acme",)))) == 2
    assert look(made, 65, STUCK) == []
    assert look(made, 70, replace(STUCK, tenants=("birch",))) == []
    spent = tuple(replace(each, failed=144_000) for each in SPENDINGS)
    made.note(World(now_ms=START_MS + 75_000, forwardings=(STUCK,), spendings=spent[:1]))
    assert [line[:17] for line in made.news()] == ["PAGE  budget: acm", "  holdfast recon "]
    made.note(World(now_ms=START_MS + 80_000, forwardings=(STUCK,), spendings=spent[:2]))
    assert [line[:17] for line in made.news()] == ["PAGE  budget: bir", "  holdfast recon "]


def test_a_cluster_that_cannot_be_reached_is_an_alarm_soon_and_what_was_wrong_stays_wrong() -> None:
    """Nothing is over before somebody has seen that it is."""
    made = journal()
    look(made, 0, STUCK)
    look(made, 60, STUCK)
    made.fail(START_MS + 65_000, "nobody answers")
    assert list(made.news()) == []
    made.fail(START_MS + 95_000, "nobody answers")
    assert list(made.news()) == [
        "PAGE  blind: nothing can be seen of payments: nobody answers",
        "  holdfast topic list",
    ]
    assert [alarm.kind for alarm in made.alarms] == [AlarmKind.BLIND, AlarmKind.STALLED]
    assert look(made, 100, STUCK) == ["over  blind: nothing can be seen of payments: nobody answers"]
    assert look(made, 105, replace(STUCK, committed=4_000)) == [
        "over  stalled: a-audit has not moved in q-3 for 100 s"
    ]

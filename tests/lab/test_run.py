"""Every scenario under both policies: Kafka's harm, named from what is seen, and none under coordination."""

import pytest

from holdfast.lab import library
from holdfast.lab.account import run
from holdfast.lab.scenario import parse

HARMS = {
    "aborted-to-committed": "aborted-to-committed",
    "committed-to-aborted": "committed-to-aborted",
    "leader-change": "tombstone",
    "mixed-sources": "tombstone",
    "short-outage": None,
    "stalled": "tombstone",
    "stuck": "stuck",
    "stuck-busy": "stuck",
    "tombstone": "tombstone",
    "two-late-replicas": "tombstone",
}


def test_every_scenario_is_expected_here() -> None:
    """A new scenario needs its harm written down."""
    assert sorted(HARMS) == library.names()


@pytest.mark.parametrize(("name", "variant"), HARMS.items())
def test_kafkas_rules_do_the_harm(name: str, variant: str | None) -> None:
    """Under `kafka` each scenario ends in its variant."""
    account = run(library.load(name), policy="kafka")
    assert account.variant == variant
    assert account.agreed is (variant is None)
    assert not account.halted


@pytest.mark.parametrize("name", HARMS)
def test_coordination_prevents_it_and_cleanup_resumes(name: str) -> None:
    """Under `coordinated` all agree, and in the end every replica has forgotten all that it may."""
    account = run(library.load(name), policy="coordinated")
    assert account.agreed
    removed = account.removed()
    assert removed["tombstones"] + removed["outcomes"] > 0
    last = {strip.replica: [cell.label for cell in strip.cells] for strip in account.frames[-1].strips}
    assert not any(
        label.endswith("✗") or label in ("COMMIT", "ABORT") for row in last.values() for label in row
    )


def test_removal_waits_for_the_replica_that_is_away() -> None:
    """While replica 3 is down, no tombstone goes; once it is back, all go."""
    account = run(library.load("tombstone"), policy="coordinated")
    labels = {
        frame.line.text: [[cell.label for cell in strip.cells] for strip in frame.strips]
        for frame in account.frames
    }
    assert "K=✗" in labels["churn 4 every 13h"][0]
    assert account.removed() == {"tombstones": 3, "outcomes": 0}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ["aborted-to-committed", "committed-to-aborted", "stuck"])
def test_both_transaction_versions_are_harmed(name: str, version: int) -> None:
    """The epoch bump of KIP-890 does not close an open transaction on a follower."""
    text = library.text(name)
    scenario = parse(name, f"set transaction.version {version}\n{text}")
    assert run(scenario, policy="kafka").variant == name
    assert run(scenario, policy="coordinated").agreed


def test_the_variant_does_not_come_from_the_name() -> None:
    """The same story under another name has the same harm."""
    text = library.text("stuck")
    assert run(parse("tombstone", text), policy="kafka").variant == "stuck"


@pytest.mark.parametrize("name", ["tombstone", "aborted-to-committed", "committed-to-aborted", "stuck"])
@pytest.mark.parametrize("replicas", [3, 5, 7])
def test_the_number_of_replicas_does_not_matter(name: str, replicas: int) -> None:
    """One late replica among many does the same harm, and coordination the same good."""
    assert run(library.load(name, replicas=replicas), policy="kafka").variant == name
    assert run(library.load(name, replicas=replicas), policy="coordinated").agreed


def test_two_runs_give_the_same_account() -> None:
    """The model is deterministic, to the last cell."""
    first, second = (run(library.load("two-late-replicas"), policy="kafka") for _ in range(2))
    assert first.frames == second.frames


def test_an_idle_producer_with_a_long_expiry_keeps_its_marker() -> None:
    """The contrast to `stuck-busy`: idle, TV1, producer ids kept for 7 days, and nothing is lost."""
    idle = parse(
        "idle",
        """
        set delete.retention.ms 30m
        set producer.id.expiration.ms 7d
        set min.cleanable.dirty.ratio 0
        set segment.ms 20m
        begin p
        produce K=V by p
        kill 3
        commit p
        produce K=W
        churn 20 every 30m
        return 3
        await-isr
        consume-via 3
        """,
    )
    account = run(idle, policy="kafka")
    assert account.agreed
    assert account.removed()["outcomes"] == 0


def test_the_articles_form_of_the_third_harm_is_invisible() -> None:
    """A COMMIT goes only after its data, so a value that it governed was superseded: clients see nothing."""
    text = library.text("committed-to-aborted")
    as_value = text.replace("delete K by p", "produce K=W by p").replace(
        "commit p\n", "commit p\nproduce K=X\n", 1
    )
    account = run(parse("as-value", as_value), policy="kafka")
    assert account.removed()["outcomes"] > 0
    assert account.agreed

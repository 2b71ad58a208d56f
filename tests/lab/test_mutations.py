"""Every guard can be taken out, and then the search finds harm: no guard is idle, and none is out of reach."""

import pytest

from holdfast.errors import UsageError
from holdfast.lab.explore import Search, run_seed
from holdfast.lab.guards import GUARDS, without
from holdfast.rules import fencing

SEEDS_MAX = 4_000
NEEDS_COMPANY = {"absence"}


def first_kind(search: Search, seeds: int) -> tuple[str, str | None] | None:
    """How the first failing schedule among these seeds fails."""
    with without(search.without):
        for seed in range(seeds):
            found = run_seed(seed, search)
            if found is not None:
                return found.kind
    return None


@pytest.mark.parametrize("guard", sorted(GUARDS.keys() - NEEDS_COMPANY))
def test_search_notices_that_a_guard_is_gone(guard: str) -> None:
    """With all guards these seeds are clean (test_explore); without this one, one of them is not."""
    assert first_kind(Search(without=(guard,)), SEEDS_MAX) is not None


def test_lost_tombstone_brings_deleted_data_back() -> None:
    """Coordination switched off for tombstones: readers meet Kafka's first variant."""
    kind = first_kind(Search(without=("mtro",), readers_only=True), SEEDS_MAX)
    assert kind == ("replicas", "tombstone")


def test_lost_outcome_is_a_loud_stop() -> None:
    """Coordination switched off for outcomes: a replica stops itself, because absence never decides."""
    kind = first_kind(Search(without=("mxro",), readers_only=True), SEEDS_MAX)
    assert kind == ("halted", None)


def test_guessed_outcome_is_silent_harm() -> None:
    """Where absence decides, the same loss goes unnoticed until readers meet one of Kafka's variants."""
    kind = first_kind(Search(without=("mxro", "absence"), readers_only=True), SEEDS_MAX)
    assert kind is not None
    assert kind[0] == "replicas"


def test_guards_are_back_afterwards() -> None:
    """Taking a guard out lasts no longer than asked for."""
    with without(["term"]):
        assert not fencing.stale_term(1, 2)
    assert fencing.stale_term(1, 2)


def test_unknown_guard_is_refused() -> None:
    """A misspelt guard is not silently left in place."""
    with pytest.raises(UsageError, match="luck"), without(["luck"]):
        pass

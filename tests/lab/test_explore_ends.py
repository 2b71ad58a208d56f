"""A search comes to its end whatever guard is missing, and however many seeds are asked for."""

from itertools import islice

import pytest

from holdfast.lab.explore import Search, explore
from holdfast.lab.guards import GUARDS

SEEDS = 60


def search(seeds: int, *without: str) -> Search:
    return Search(
        policy="coordinated", first_seed=0, seeds=seeds, replicas=None, without=without, readers_only=False
    )


@pytest.mark.timeout(60)
@pytest.mark.parametrize("guard", GUARDS)
def test_every_search_without_a_guard_ends(guard: str) -> None:
    """Also where the protocol itself no longer comes to rest: that is a violation, not a hang."""
    assert sum(part.seeds for part in explore(search(SEEDS, guard))) == SEEDS


@pytest.mark.timeout(60)
def test_more_seeds_than_memory_has_room_for() -> None:
    """Parts are made when they are needed."""
    assert next(islice(explore(search(10**18)), 1)).seeds > 0

"""Whoever is killed, and whatever is away meanwhile: in the end all replicas show what was written, and no more."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from soak.processes import find_keeper, kill
from tests.keeper.stage import Stage

SEED = 7_919
KEEPER_KILLS = 4

StageOf = Callable[..., Stage]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A log under load."""
    made = Stage(tmp_path / "round", seed=SEED)
    try:
        made.start()
        made.go_on(50)
        yield made
    finally:
        made.close()


def test_the_keeper_is_killed(stage: Stage) -> None:
    """At any moment of a round: what it has not published is nobody's, and the next one goes on at once."""
    for _ in range(KEEPER_KILLS):
        keeper = stage.wait_for(lambda: find_keeper(stage.server.process.pid), "keeper")
        stage.go_on(40)
        kill(keeper)
        stage.wait_for(lambda keeper=keeper: find_keeper(stage.server.process.pid) != keeper, "end of it")
    stage.end()


def test_the_agent_is_killed(stage: Stage) -> None:
    """Its keeper finds nobody to publish to, and the next one begins with what is recorded."""
    for _ in range(3):
        stage.wait_for(lambda: find_keeper(stage.server.process.pid), "keeper")
        stage.go_on(60)
        stage.crash()
        stage.server.process.start()
    stage.end()


def test_a_store_is_away_for_longer_than_its_retention(stage: Stage) -> None:
    """The others go on, and forget no delete that it needs; then it is brought along."""
    with stage.without(3):
        stage.go_on(300)
        assert stage.phase(3) == "away"
    stage.go_on(50)
    stage.wait_for(lambda: stage.phase(3) == "in sync", "store that is in sync")
    stage.end()


def test_a_store_is_fenced_and_rebuilt_under_load(stage: Stage) -> None:
    """Its next life begins empty and ends up the same."""
    with stage.without(2):
        stage.go_on(100)
        stage.care("fence", 2)
        stage.go_on(100)
    stage.go_on(50)
    stage.care("rebuild", 2)
    stage.go_on(100)
    stage.wait_for(lambda: stage.phase(2) == "in sync", "store that is in sync")
    stage.end()

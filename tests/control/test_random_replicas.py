"""Random lives of stores and replicas, for both control planes: they fail, settle, come back and begin anew."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from holdfast.store.footer import Change
from holdfast.store.replica_changes import ReplicaChange
from tests.control.drafts import Draft, plan
from tests.control.pair import Pair
from tests.control.replica_drafts import HELD_BY, OFF_BY, PICK, SMALL, STORE, WEIGHTED

WALKS = 12
STEPS = 60
ACCEPTED_MIN = 4

DRAFTS: list[tuple[int, str | type[Change], tuple[Sequence[object], ...]]] = [
    *WEIGHTED,
    (10, "append", (PICK, SMALL, HELD_BY, OFF_BY, (0,))),
    (4, "append_open", (PICK, SMALL, HELD_BY, (0,))),
    (5, "end", (PICK, (True, False), (0,))),
    (2, "move_start", (PICK, SMALL, (0,))),
    (2, "move_leader", (PICK, STORE, (0,))),
]
_WEIGHTS = [weight for weight, _, _ in DRAFTS]


def _drafts(rng: random.Random) -> list[Draft]:
    ((_, make, arguments),) = rng.choices(DRAFTS, _WEIGHTS)
    # The first of two begins the transaction that the second one needs.
    times = 2 if make == "append_open" else 1
    return [Draft(make, tuple(rng.choice(choices) for choices in arguments)) for _ in range(times)]


def _walk(pair: Pair, rng: random.Random) -> None:
    for _ in range(STEPS):
        match rng.randrange(12):
            case 0:
                pair.trim(rng.randint(1, 9))
            case 1:
                pair.drop_stores([rng.choice(STORE)])
            case 2:
                pair.restart()
            case _:
                drafts = [draft for _ in range(rng.choice((1, 1, 1, 2, 3))) for draft in _drafts(rng)]
                lost = [rng.choice(STORE)] if rng.random() < 0.1 else []
                pair.apply(plan(pair.plane, drafts), list(rng.choice(HELD_BY)), lost)
    pair.finish()


@pytest.fixture(scope="module")
def accepted() -> Counter[str]:
    """What was in frames that were not refused, over all walks."""
    return Counter()


@pytest.mark.parametrize("seed", range(WALKS))
def test_both_planes_agree(seed: int, tmp_path: Path, accepted: Counter[str]) -> None:
    """After every step, and with replays from all stores and from one."""
    pair = Pair(tmp_path / "control.db")
    try:
        _walk(pair, random.Random(seed))
    finally:
        pair.close()
    accepted.update(pair.accepted)


def test_enough_of_each_was_accepted(accepted: Counter[str]) -> None:
    """For that to mean something."""
    kinds = [change.kind for change in get_args(ReplicaChange)]
    assert not [kind for kind in kinds if accepted[kind] < ACCEPTED_MIN], accepted

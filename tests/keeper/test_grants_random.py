"""Random lives of stores and replicas: the ledger comes to what the control plane has, from accepted frames alone."""

import random
from collections import Counter

import pytest

from holdfast.control import replica_rules
from holdfast.control.memory import MemoryControlPlane
from holdfast.control.replicas import StorePhase
from holdfast.errors import CommitRefused
from holdfast.keeper.grants import Frame, GrantLedger, Violation
from holdfast.store.footer import Change, TopicCreated
from holdfast.store.replica_changes import StoreLeft
from tests.control.answers import IDS
from tests.control.drafts import plan
from tests.control.frames import stored
from tests.control.replica_drafts import STORE
from tests.control.test_random_replicas import _drafts as random_drafts

WALKS = 24
STEPS = 60


class Walk:
    """A control plane and a ledger that hear the same."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._plane = MemoryControlPlane()
        self._ledger = GrantLedger()
        self._number = 0
        self.accepted: Counter[str] = Counter()
        for store in STORE:
            self._plane.add_store(store)
        self.apply([TopicCreated("a", IDS[0], [[1, 2]], {}), TopicCreated("b", IDS[1], [[2]], {})])

    def step(self) -> Violation | None:
        """One frame, and if it lost a store, one that says so."""
        lost = [self._rng.choice(STORE)] if self._rng.random() < 0.1 else []
        times = self._rng.choice((1, 1, 1, 2, 3))
        drafts = [draft for _ in range(times) for draft in random_drafts(self._rng)]
        found = self.apply(plan(self._plane, drafts), lost)
        left = [
            StoreLeft(state.store, tuple(self._plane.list_behind(state.store)))
            for state in self._plane.list_stores()
            if state.phase is StorePhase.LOST
        ]
        return found or (self.apply(list(left)) if left else None)

    def apply(self, changes: list[Change], lost: list[int] | None = None) -> Violation | None:
        """What the ledger finds wrong with a frame that was accepted."""
        self._number += 1
        try:
            self._plane.apply(stored(self._number, 1, 2, 3), changes, lost=lost or [])
        except CommitRefused:
            return None
        self.accepted.update(change.kind for change in changes)
        return self._ledger.follow(Frame(number=self._number, changes=changes))

    def check_removables(self) -> None:
        """The ledger has computed what the control plane has, for every partition."""
        for topic in self._plane.list_topics():
            for number in range(len(topic.partitions)):
                kept = self._plane.find_removal(topic.topic_id, number).removable
                assert self._ledger.find_removable((topic.topic_id, number)) == kept


@pytest.fixture(scope="module")
def accepted() -> Counter[str]:
    """What was in frames that were not refused, over all walks."""
    return Counter()


@pytest.mark.parametrize("seed", range(WALKS))
def test_the_ledger_agrees(seed: int, accepted: Counter[str]) -> None:
    """After every frame; nothing that the control plane accepts is a fault."""
    walk = Walk(seed)
    for _ in range(STEPS):
        assert walk.step() is None
        walk.check_removables()
    accepted.update(walk.accepted)


def test_enough_was_accepted(accepted: Counter[str]) -> None:
    """For that to mean something."""
    kinds = ("segments", "keeper-leased", "store-left", "store-joining", "store-joined", "store-fenced")
    assert not [kind for kind in (*kinds, "store-rebuilt", "replicas") if accepted[kind] < WALKS // 2], (
        accepted
    )


def test_a_control_plane_that_forgets_a_member_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the greatest report for the least; no frame of it is doctored."""

    def greatest(reports: dict[int, int], members: list[int]) -> int:
        return max((reports[member] for member in members), default=0)

    monkeypatch.setattr(replica_rules, "removal_offset", greatest)
    found = []
    for seed in range(WALKS):
        walk = Walk(seed)
        found.append(next((each for _ in range(STEPS) if (each := walk.step())), None))
    whys = [each.why for each in found if each is not None]
    assert len(whys) > WALKS // 3
    assert all("while the members' reports allowed" in why for why in whys)

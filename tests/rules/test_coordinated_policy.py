"""A replica under coordination: what its passes publish, and what they may forget."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.rules.coordinated_policy import CoordinatedRules, RemovalRecord
from holdfast.rules.grace import Coverage
from holdfast.rules.membership import Membership
from holdfast.rules.policy import CompactionConfig, Fate
from holdfast.rules.removal import Cleaned, Removable
from holdfast.rules.removal_replica import ReplicaState
from holdfast.rules.transaction import Outcome

CONFIG = CompactionConfig(min_cleanable_dirty_ratio=0.0, delete_retention_ms=100)


@pytest.fixture
def rules() -> CoordinatedRules:
    """A founding member that has been allowed nothing yet."""
    membership = Membership.found(3)
    state = ReplicaState.founding(membership.replicas[0], membership)
    return CoordinatedRules(CONFIG, RemovalRecord(state=state))


def follow(rules: CoordinatedRules, log: Any) -> None:
    for entry in log.entries:
        rules.append(entry)
    rules.replicated_to(log.next_offset)


def test_a_pass_says_how_far_it_is_clean_on_both_tracks(rules: CoordinatedRules, log: Any) -> None:
    """MCCO and MXFO move with the rewritten log, under a new manifest generation."""
    log.txn("K", "V")
    log.end(Outcome.COMMITTED)
    follow(rules, log)
    before = rules.record.state.generation
    rules.clean(log.view(now_ms=5), 2)
    assert rules.record.state.cleaned == Cleaned(mcco=2, mxfo=2)
    assert rules.record.state.generation == before + 1


def test_settling_moves_mxfo_alone(rules: CoordinatedRules, log: Any) -> None:
    """Outcomes are applied, but nothing was compacted: MCCO stays."""
    log.txn("K", "V")
    log.end(Outcome.COMMITTED)
    follow(rules, log)
    done = rules.settle(log.view())
    assert done.count(Fate.SETTLED) == 1
    assert rules.record.state.cleaned == Cleaned(mcco=0, mxfo=2)


def test_being_clean_oneself_allows_nothing(rules: CoordinatedRules, log: Any) -> None:
    """Without MTRO and MXRO neither a tombstone nor an outcome goes, however much time passes."""
    log.data("K", None)
    log.txn("L", "W")
    log.end(Outcome.COMMITTED)
    follow(rules, log)
    rules.clean(log.view(now_ms=0), 3)
    assert rules.pass_end(log.view(now_ms=10**15, first_dirty=3)) is None


def test_what_the_group_allows_goes_and_is_forgotten(rules: CoordinatedRules, log: Any) -> None:
    """With MTRO and MXRO past them and the grace over, both go, and the instance is unknown afterwards."""
    log.data("K", None)
    log.txn("L", "W")
    log.end(Outcome.COMMITTED)
    follow(rules, log)
    log.entries = rules.clean(log.view(now_ms=0), 3).entries
    rules.record.state = replace(
        rules.record.state, removable=Removable(mtro=3, mxro=3), coverage=Coverage().cover(3, 50)
    )
    assert rules.pass_end(log.view(now_ms=60, first_dirty=3)) == 3
    early = rules.clean(log.view(now_ms=60), 3)
    assert [fate for fate, _ in early.fates] == [Fate.OUTCOME]
    assert 1 not in rules.transactions.instances
    log.entries = early.entries
    late = rules.clean(log.view(now_ms=150), 3)
    assert [fate for fate, _ in late.fates] == [Fate.TOMBSTONE]

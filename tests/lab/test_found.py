"""Schedules that random search once failed on, shrunk and kept; each names what was wrong then."""

from holdfast.lab.explore import Run
from holdfast.lab.setting import RETENTION_MS, Setting
from holdfast.lab.steps import (
    AwaitIsr,
    BackUp,
    Begin,
    Clean,
    End,
    Exchange,
    Fetch,
    ForceLeader,
    Kill,
    Lag,
    Produce,
    PutBack,
    Return,
    Settle,
    Step,
    Truncate,
)
from holdfast.lab.violation import Violation
from holdfast.rules.policy import CompactionConfig
from holdfast.rules.transaction import Outcome

CONFIG = CompactionConfig(delete_retention_ms=RETENTION_MS, min_cleanable_dirty_ratio=0.0, segment_batches=1)


def play(replicas: int, *schedule: Step, policy: str = "coordinated") -> Violation | None:
    """What the schedule breaks, or what shows once everybody is back."""
    run = Run(Setting(policy=policy, replicas=replicas, config=CONFIG, length=0))
    for step in schedule:
        violation = run.take(step)
        if violation is not None:
            return violation
    return run.finish()


def test_truncation_below_what_was_compacted() -> None:
    """One replica had dropped a value for a tombstone that was then cut off; the other had not."""
    assert (
        play(
            2,
            Produce("c", "v1"),
            Produce("d", "v2"),
            Produce("c", None),
            Clean(1),
            Truncate(2),
        )
        is None
    )


def test_truncation_of_a_log_that_was_copied_from_a_compacted_one() -> None:
    """The new leader had cleaned nothing itself, but had never received what its source had dropped."""
    assert (
        play(
            3,
            Produce("a", "v1"),
            Lag(3),
            Produce("b", "v2"),
            Produce("b", "v3"),
            Produce("b", "v4"),
            Clean(1),
            AwaitIsr(),
            ForceLeader(3),
            Truncate(3),
        )
        is None
    )


def test_truncation_of_an_outcome_that_others_had_applied() -> None:
    """The marker was cut off where one replica had settled by it already: the outcome is written again."""
    assert (
        play(
            3,
            Begin("p"),
            Produce("a", "v1", "p"),
            End("p", Outcome.ABORTED),
            ForceLeader(3),
            Settle(3),
            Truncate(1),
        )
        is None
    )


def test_replica_that_missed_a_truncation_shows_nothing_of_the_old_log() -> None:
    """It has to truncate before it is heard or read again."""
    assert play(2, Produce("a", "v1"), Kill(1), Truncate(0), Produce("a", None), Return(1), Clean(1)) is None


def test_old_disk_of_the_same_cleanliness_is_still_an_old_disk() -> None:
    """The copy was made before a grant arrived: what was granted, and by whom, must not be forgotten."""
    schedule = (Produce("c", None), Clean(1), Clean(2), BackUp(2), Exchange(), Kill(2), PutBack(2), Return(2))
    assert play(2, *schedule) is None


def test_replica_behind_a_compacted_leader_claims_no_more_than_it_knows() -> None:
    """A record between two of a key was dropped at the source: the oldest stays until the newest is fetched."""
    assert (
        play(
            2,
            Produce("b", None),
            Kill(1),
            Produce("b", "v2"),
            Produce("c", None),
            Produce("b", "v4"),
            Clean(2),
            Return(1),
            Fetch(1, 1),
            Clean(1),
        )
        is None
    )


def test_unacknowledged_record_may_come_back_with_a_later_leader() -> None:
    """Two leaders later somebody in sync still has it, and then it counts."""
    assert (
        play(3, Produce("b", None, acknowledged=False), Fetch(3), Kill(1), ForceLeader(3), Produce("a", "v"))
        is None
    )


def test_high_watermark_waits_for_a_fetch_in_the_new_epoch() -> None:
    """A follower's log end says nothing about a new leader's log before it has compared the two."""
    schedule = (
        Produce("b", "v1", acknowledged=False),
        Fetch(4, 1),
        Kill(1),
        Produce("a", None, acknowledged=False),
        Fetch(3, 1),
        Kill(2),
    )
    assert play(4, *schedule) is None


HIDDEN_EPOCH_START = (
    Kill(4),
    Produce("b", "v1"),
    Produce("c", "lost", acknowledged=False),
    Kill(1),
    Produce("d", "v3"),
    Produce("d", "v4"),
    Kill(2),
    Produce("a", "v5"),
    Clean(3),
    Return(4),
    AwaitIsr(),
    Kill(3),
)


def test_compaction_does_not_hide_where_an_epoch_began() -> None:
    """Replica 4 copied a log without the first record of an epoch, and led: replica 1 must truncate even so."""
    assert play(4, *HIDDEN_EPOCH_START) is None


def test_kafkas_epochs_are_what_the_batches_tell() -> None:
    """The same under Kafka's rules: a record that nobody acknowledged stays on one replica alone."""
    violation = play(4, *HIDDEN_EPOCH_START, policy="kafka")
    assert violation is not None
    assert violation.what == "replica 1: c=lost was never committed"

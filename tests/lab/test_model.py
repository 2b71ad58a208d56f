"""The model replicates as Kafka does: high watermark, ISR, leader epochs, truncation, kill and return."""

import random

import pytest

from holdfast.lab import steps
from holdfast.lab.engines.engine import StepError
from holdfast.lab.engines.model import Model
from holdfast.lab.verdict import judge
from holdfast.rules.entry import Isolation
from holdfast.rules.policy import HOUR_MS, CompactionConfig
from holdfast.rules.transaction import Outcome

CONFIG = CompactionConfig(min_cleanable_dirty_ratio=0.0, segment_ms=HOUR_MS, delete_retention_ms=HOUR_MS)


def model(policy: str = "kafka", replicas: int = 3) -> Model:
    return Model(policy=policy, replicas=replicas, config=CONFIG)


def run(subject: Model, *script: steps.Step) -> Model:
    for step in script:
        subject.apply(step)
    return subject


def values(subject: Model, replica: int) -> dict[str, str | None]:
    return {key: entry.value for key, entry in subject.replicas[replica].table().items()}


@pytest.mark.parametrize("policy", ["kafka", "coordinated"])
def test_an_acknowledged_record_is_on_every_replica_in_sync(policy: str) -> None:
    """acks=all: log end and high watermark move together on all."""
    subject = run(model(policy), steps.Produce("K", "V"))
    for replica in subject.replicas.values():
        assert (replica.log_end, replica.high_watermark, replica.last_stable_offset) == (1, 1, 1)
        assert values(subject, replica.id) == {"K": "V"}


def test_an_unacknowledged_record_is_invisible_and_lost_with_its_leader() -> None:
    """The high watermark does not cover it; the old leader truncates it when it returns."""
    subject = run(model(), steps.Produce("K", "V"), steps.Produce("K", "lost", acknowledged=False))
    assert subject.replicas[1].log_end == 2
    assert values(subject, 1) == {"K": "V"}
    run(subject, steps.Kill(1), steps.Produce("K", "W"), steps.Return(1), steps.AwaitIsr())
    assert [entry.value for entry in subject.replicas[1].entries] == ["V", "W"]
    assert judge(subject) == []


def test_a_killed_replica_leaves_the_isr_and_fetches_from_its_own_end() -> None:
    """It keeps its log, misses what is written, and is in sync only when it has caught up."""
    subject = run(
        model(), steps.Produce("a", "1"), steps.Kill(3), steps.Produce("b", "2"), steps.Produce("c", "3")
    )
    assert subject.partition.isr == {1, 2}
    run(subject, steps.Return(3))
    assert subject.replicas[3].log_end == 1
    run(subject, steps.Fetch(3, 1))
    assert (subject.replicas[3].log_end, 3 in subject.partition.isr) == (2, False)
    run(subject, steps.Fetch(3))
    assert (subject.replicas[3].log_end, 3 in subject.partition.isr) == (3, True)


def test_only_a_replica_in_sync_can_lead() -> None:
    """A lagging replica is refused, and the last one in sync leads again when it is back."""
    subject = run(model(), steps.Lag(3))
    with pytest.raises(StepError, match="not in sync"):
        subject.apply(steps.ForceLeader(3))
    run(subject, steps.Kill(2), steps.Kill(1))
    with pytest.raises(StepError, match="no leader"):
        subject.apply(steps.Produce("K", "V"))
    run(subject, steps.Return(2))
    assert subject.partition.leader_id is None
    run(subject, steps.Return(1), steps.Produce("K", "V"))
    assert subject.partition.leader_id == 1


@pytest.mark.parametrize("policy", ["kafka", "coordinated"])
def test_read_committed_stops_at_the_last_stable_offset(policy: str) -> None:
    """An open transaction hides itself and what follows it; read_uncommitted sees both."""
    subject = run(
        model(policy),
        steps.Produce("a", "1"),
        steps.Begin("p"),
        steps.Produce("b", "2", "p"),
        steps.Produce("c", "3"),
    )
    replica = subject.replicas[2]
    assert replica.last_stable_offset == 1
    assert [entry.key for entry in replica.read(Isolation.READ_COMMITTED)] == ["a"]
    assert [entry.key for entry in replica.read(Isolation.READ_UNCOMMITTED)] == ["a", "b", "c"]
    run(subject, steps.End("p", Outcome.ABORTED))
    assert [entry.key for entry in replica.read(Isolation.READ_COMMITTED)] == ["a", "c"]


@pytest.mark.parametrize("version", [1, 2])
def test_markers_carry_the_epoch_of_their_transaction_version(version: int) -> None:
    """TV2 bumps the epoch with the marker, TV1 does not."""
    subject = run(
        model(), steps.Begin("p", version), steps.Produce("a", "1", "p"), steps.End("p", Outcome.COMMITTED)
    )
    data, marker = subject.replicas[1].entries
    assert marker.producer_epoch == data.producer_epoch + (version - 1)


def test_a_transaction_without_data_writes_no_marker() -> None:
    """The partition never hears of it."""
    subject = run(model(), steps.Begin("p"), steps.End("p", Outcome.COMMITTED))
    assert subject.replicas[1].entries == []


@pytest.mark.parametrize(
    "step",
    [
        steps.Produce("a", "1", "nobody"),
        steps.End("nobody", Outcome.COMMITTED),
        steps.Kill(9),
        steps.Return(1),
        steps.Join(1),
        steps.Leave(1),
        steps.Deliver(0),
    ],
)
def test_an_impossible_step_is_refused(step: steps.Step) -> None:
    """The step raises, and the log is as it was."""
    subject = run(model("coordinated"), steps.Produce("K", "V"))
    with pytest.raises(StepError):
        subject.apply(step)
    assert len(subject.replicas[1].entries) == 1


def test_a_joining_replica_copies_nothing_before_it_has_its_start() -> None:
    """Under coordination the first byte waits for the group's removal offsets."""
    subject = run(model("coordinated"), steps.Produce("K", "V"), steps.Join(4), steps.Fetch(4))
    assert subject.replicas[4].log_end == 0
    run(subject, steps.Exchange(), steps.Fetch(4))
    assert subject.replicas[4].log_end == 1


@pytest.mark.parametrize("policy", ["kafka", "coordinated"])
def test_a_truncation_cuts_every_replica_and_keeps_decided_what_was_decided(policy: str) -> None:
    """Offsets are used again, a replica that was away follows, and a cut marker is written anew."""
    subject = run(
        model(policy),
        steps.Begin("p"),
        steps.Produce("a", "1", "p"),
        steps.Kill(3),
        steps.End("p", Outcome.COMMITTED),
        steps.Produce("b", "2"),
        steps.Truncate(1),
        steps.Produce("c", "3"),
        steps.Return(3),
        steps.AwaitIsr(),
        steps.Exchange(),
    )
    assert judge(subject) == []
    assert [values(subject, number) for number in (1, 2, 3)] == [{"a": "1", "c": "3"}] * 3


def test_a_lost_outcome_stops_the_replica_rather_than_guess() -> None:
    """Coordinated rules with the marker taken out behind their back: halted, not wrong."""
    subject = run(
        model("coordinated"),
        steps.Begin("p"),
        steps.Produce("poison", "x", "p"),
        steps.Kill(3),
        steps.End("p", Outcome.ABORTED),
    )
    for number in (1, 2):
        replica = subject.replicas[number]
        replica.entries = [entry for entry in replica.entries if entry.marker is None]
    run(subject, steps.Return(3), steps.AwaitIsr())
    assert subject.replicas[3].halted is not None
    assert 3 not in subject.partition.isr
    assert judge(subject) == []


def _any_step(rng: random.Random) -> steps.Step:
    """A step in a cluster where nobody is ever away."""
    producer, key = rng.choice("pq"), rng.choice("abc")
    value = rng.choice(["1", "2", None])
    number = rng.randint(1, 3)
    choices: list[steps.Step] = [
        steps.Produce(key, value),
        steps.Begin(producer, rng.choice([1, 2])),
        steps.Produce(key, value, producer),
        steps.End(producer, rng.choice([Outcome.COMMITTED, Outcome.ABORTED])),
        steps.End(producer, rng.choice([Outcome.COMMITTED, Outcome.ABORTED])),
        steps.Advance(rng.choice([1, HOUR_MS // 2, 2 * HOUR_MS])),
        steps.Clean(number),
        steps.Clean(number),
        steps.Clean(number),
        steps.Settle(number),
        steps.ForceLeader(number),
        steps.Exchange(),
    ]
    return rng.choice(choices)


@pytest.mark.parametrize("policy", ["kafka", "coordinated"])
def test_where_nobody_is_ever_away_nobody_is_harmed(policy: str) -> None:
    """Cleaners on schedules of their own and changing leaders do no harm: the model exaggerates nothing."""
    config = CompactionConfig(
        min_cleanable_dirty_ratio=0.0,
        segment_batches=1,
        delete_retention_ms=1,
        producer_id_expiration_ms=HOUR_MS,
    )
    removed = 0
    for seed in range(60):
        rng = random.Random(seed)
        subject = Model(policy=policy, replicas=3, config=config)
        for _ in range(80):
            try:
                subject.apply(_any_step(rng))
            except StepError:
                continue
            assert judge(subject) == [], f"seed {seed}"
        assert all(replica.halted is None for replica in subject.replicas.values())
        removed += sum(r.tombstones_removed + r.outcomes_removed for r in subject.replicas.values())
    assert removed > 100

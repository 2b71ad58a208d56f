"""Planning a commit: offsets, sequences, a place for every batch, and nothing changed before it succeeds."""

from uuid import UUID

import pytest

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan, Tail
from holdfast.agent.topic_plan import KnownTopic, KnownTopics
from holdfast.agent.transactions.plan import KnownTransactions
from holdfast.control.memory import MemoryControlPlane
from holdfast.errors import InvalidProducerEpoch, OutOfOrderSequence, TopicAlreadyExists
from holdfast.records.batch import BatchView, validate
from holdfast.records.walk import walk_valid
from holdfast.rules.producer import WrittenBatch
from holdfast.store.footer import ExtentAppended, ProducerAdvanced, TopicCreated
from tests.agent.batches import NOW_MS, batch, view

A = PartitionKey(UUID(int=1), 0)
B = PartitionKey(UUID(int=1), 1)


def plan_on(tails: dict[PartitionKey, Tail], *, now_ms: int = NOW_MS) -> CommitPlan:
    return CommitPlan(
        find_tail=tails.__getitem__,
        topics=KnownTopics(
            {A.topic_id: KnownTopic(name="there", partitions=2, configs={"retention.ms": "5"})}, {"there"}
        ),
        transactions=KnownTransactions(MemoryControlPlane()),
        in_sync=frozenset({1}),
        now_ms=now_ms,
    )


def empty_tails(end: int = 0) -> dict[PartitionKey, Tail]:
    return {key: Tail(end=end, leader=1, leader_epoch=3, replicas=(1,), producers={}) for key in (A, B)}


def sealed(plan: CommitPlan) -> tuple[bytes, list[ExtentAppended]]:
    bodies, changes = plan.seal()
    return b"".join(bodies[1]), [change for change in changes if isinstance(change, ExtentAppended)]


def append(plan: CommitPlan, key: PartitionKey, one: BatchView) -> WrittenBatch:
    return plan.append(key, one, leader=1, stamp_time=False, in_sync_min=1)


def test_offsets_continue_the_log_and_each_other() -> None:
    """Batches of one partition get consecutive offsets from the log end on, and carry them themselves."""
    plan = plan_on(empty_tails(end=100))
    first = append(plan, A, view(batch(b"a", b"b")))
    second = append(plan, A, view(batch(b"c")))
    assert (first.first_offset, first.last_offset, second.first_offset) == (100, 101, 102)
    body, (extent,) = sealed(plan)
    assert [(one.base_offset, one.leader_epoch) for one in walk_valid(body)] == [(100, 3), (102, 3)]
    assert (extent.first, extent.last, extent.length_bytes) == (100, 102, len(body))


def test_body_is_sorted_by_partition_whatever_the_order_of_arrival() -> None:
    """A partition's bytes are contiguous in the frame, so that a fetch is one read."""
    plan = plan_on(empty_tails())
    for key, value in ((B, b"b0"), (A, b"a0"), (B, b"b1"), (A, b"a1")):
        append(plan, key, view(batch(value)))
    body, extents = sealed(plan)
    assert [(extent.partition, extent.first, extent.last) for extent in extents] == [(0, 0, 1), (1, 0, 1)]
    position = 0
    for extent in extents:
        part = body[position : position + extent.length_bytes]
        position += extent.length_bytes
        assert [one.base_offset for one in walk_valid(part)] == [0, 1]
    assert sum(extent.length_bytes for extent in extents) == len(body)


def test_repeat_within_one_plan_is_answered_with_the_first_ones_offset() -> None:
    """A retry that meets its original in the same commit appends nothing."""
    plan = plan_on(empty_tails(end=5))
    one = batch(b"a", b"b", producer_id=9)
    assert append(plan, A, view(one)) == append(plan, A, view(one))
    body, (extent,) = sealed(plan)
    assert len(body) == len(one)
    assert (extent.first, extent.last) == (5, 6)


def test_gap_in_the_sequence_is_refused_and_leaves_no_trace() -> None:
    """The refused batch takes no offset, so the next good one follows without a hole."""
    plan = plan_on(empty_tails())
    append(plan, A, view(batch(b"a", producer_id=9)))
    with pytest.raises(OutOfOrderSequence):
        append(plan, A, view(batch(b"c", producer_id=9, base_sequence=2)))
    assert append(plan, A, view(batch(b"b", producer_id=9, base_sequence=1))).first_offset == 1
    _, (extent,) = sealed(plan)
    assert (extent.first, extent.last) == (0, 1)


def test_older_epoch_is_fenced() -> None:
    """A producer whose epoch was overtaken in this very plan is refused."""
    plan = plan_on(empty_tails())
    append(plan, A, view(batch(b"a", producer_id=9, producer_epoch=2)))
    with pytest.raises(InvalidProducerEpoch):
        append(plan, A, view(batch(b"b", producer_id=9, producer_epoch=1, base_sequence=1)))


def test_known_tails_stay_as_they_were() -> None:
    """Everything a plan learns is its own until the commit has succeeded."""
    tails = empty_tails()
    plan = plan_on(tails)
    append(plan, A, view(batch(b"a", producer_id=9)))
    assert tails == empty_tails()
    assert plan.tails[A].end == 1
    assert set(plan.tails[A].producers) == {9}
    assert plan.appended == [A]


def test_log_append_time_is_stamped_with_a_valid_crc() -> None:
    """The broker's time is in the batch, in the extent, and in the answer, also that to a repeat."""
    plan = plan_on(empty_tails(), now_ms=NOW_MS + 77)
    data = batch(b"a", producer_id=9, timestamp_ms=5)
    written = plan.append(A, view(data), leader=1, stamp_time=True, in_sync_min=1)
    assert written.timestamp_ms == NOW_MS + 77
    assert plan.append(A, view(data), leader=1, stamp_time=True, in_sync_min=1) == written
    body, (extent,) = sealed(plan)
    stored = validate(body)
    assert stored.is_log_append_time
    assert stored.max_timestamp == extent.max_timestamp == extent.first_timestamp == NOW_MS + 77


def test_extent_knows_its_first_and_its_greatest_timestamp() -> None:
    """Times may go backwards inside an extent."""
    plan = plan_on(empty_tails())
    for timestamp_ms in (20, 90, 10):
        append(plan, A, view(batch(b"a", timestamp_ms=timestamp_ms)))
    _, (extent,) = sealed(plan)
    assert (extent.first_timestamp, extent.max_timestamp) == (20, 90)


def test_producer_changes_name_every_batch_once() -> None:
    """What a replay needs to rebuild the windows is in the footer: one change for each idempotent batch."""
    plan = plan_on(empty_tails())
    append(plan, A, view(batch(b"a", producer_id=9)))
    append(plan, A, view(batch(b"b", b"c", producer_id=9, base_sequence=1)))
    append(plan, A, view(batch(b"d")))
    _, changes = plan.seal()
    advanced = [change for change in changes if isinstance(change, ProducerAdvanced)]
    assert [(one.first_sequence, one.last_sequence, one.first_offset) for one in advanced] == [
        (0, 0, 0),
        (1, 2, 1),
    ]


def test_topic_of_the_same_name_is_refused_within_and_across_plans() -> None:
    """Two creations that share a commit collide like any other two."""
    plan = plan_on(empty_tails())
    plan.topics.create(TopicCreated("new", UUID(int=5), [[1]], {}))
    for name in ("new", "there"):
        with pytest.raises(TopicAlreadyExists):
            plan.topics.create(TopicCreated(name, UUID(int=6), [[1]], {}))
    _, changes = plan.seal()
    assert changes == [TopicCreated("new", UUID(int=5), [[1]], {})]

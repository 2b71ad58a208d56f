"""A micro-batch's transaction without Spark around it: every guard, by the copies of tasks that it is there for."""

import itertools
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.transactional_ids import describe_transactional_id
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1, TV2, Generation
from holdfast.errors import (
    CheckpointOutdated,
    ConnectionFailed,
    HoldfastError,
    UnknownTopicOrPartition,
    UsageError,
    WriteRefused,
)
from holdfast.records.build import Record
from holdfast.spark.claims import EPOCH_LAST_GIVEN, Claim, follows
from holdfast.spark.outputs import Outputs
from holdfast.spark.part_writer import write_alone, write_part
from holdfast.spark.placing import place_rows
from holdfast.spark.steps import Step, ignore
from holdfast.spark.ticket import (
    ADDED_BYTES_MAX,
    Report,
    Ticket,
    abandon,
    commit,
    cut_added,
    take_ticket,
)
from holdfast.spark.tokens import GROUP_PREFIX, TOKEN_MARK, Batch
from holdfast.spark.write_options import WriteOptions
from tests.agent.lossy import END_TXN, LossyCluster, lose_the_next
from tests.spark.streams import consume, make_topic

QUERY = "query"
PARTITIONS = 3
SETTLED_S_MAX = 30.0

numbers = itertools.count()


@pytest.fixture(params=[TV1, TV2], ids=["TV1", "TV2"])
def generation(request: pytest.FixtureRequest) -> Generation:
    """Both generations of the protocol: Kafka before 4.0 has only the first."""
    return request.param


@pytest.fixture
def options(holdfast: str) -> WriteOptions:
    """A topic that nobody else writes to."""
    topic = f"ticket.{next(numbers)}"
    make_topic(holdfast, topic, partitions=PARTITIONS)
    return WriteOptions(endpoint=Endpoint(holdfast), topic=topic)


def take(options: WriteOptions, generation: Generation = TV2) -> Ticket:
    with Cluster(options.endpoint) as cluster:
        return replace(take_ticket(cluster, options, f"id-{options.topic}"), generation=generation)


def write(ticket: Ticket, *values: str, slot: int = 0, task: int = 0, attempt: int = 0) -> Report:
    rows = pa.RecordBatch.from_pydict(
        {
            "slot": pa.array([slot] * len(values), pa.int32()),
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array([value.encode() for value in values], pa.binary()),
            "timestamp": pa.array([1_700_000_000_000] * len(values), pa.int64()),
        }
    )
    return write_part(ticket, [rows], task=task, attempt=attempt)


def finish(ticket: Ticket, *reports: Report, number: int = 0, digest: str = "") -> None:
    with Cluster(ticket.options.endpoint) as cluster:
        commit(cluster, ticket, reports, batch=batch(number, digest), on_step=ignore)


def batch(number: int, digest: str = "", *, query: str = QUERY) -> Batch:
    return Batch(query_id=query, number=number, digest=digest)


def visible(options: WriteOptions) -> list[str]:
    assert options.topic is not None
    return sorted(consume(str(options.endpoint), options.topic).elements())


def test_tasks_write_together_and_the_token_tells(options: WriteOptions, generation: Generation) -> None:
    """Nothing is to be seen before the commit; afterwards the batch is known, and the next one is not."""
    ticket = take(options, generation)
    reports = [write(ticket, "a", "b", slot=0, task=0), write(ticket, "c", slot=2, task=1)]
    assert visible(options) == []
    finish(ticket, *reports, number=6)
    assert visible(options) == ["a", "b", "c"]
    later = take(options)
    assert later.has_committed(batch(6))
    assert not later.has_committed(batch(7))
    assert not later.has_committed(batch(0, query="another query"))


def test_a_batch_that_cannot_be_the_committed_one_is_refused(options: WriteOptions) -> None:
    """Spark replays its newest batch as it was: what comes else has rows that nobody would write any more."""
    ticket = take(options)
    finish(ticket, write(ticket, "a"), number=6, digest="abc")
    later = take(options)
    assert later.has_committed(batch(6, "abc"))
    assert later.has_committed(batch(6))  # where offsets cannot be seen the number has to do
    with pytest.raises(CheckpointOutdated, match="batch 6 has other offsets"):
        later.has_committed(batch(6, "def"))
    for digest in ("", "abc"):
        with pytest.raises(CheckpointOutdated, match="goes on with batch 5, and batch 6 is committed"):
            later.has_committed(batch(5, digest))
    assert not later.has_committed(batch(7, "def"))


def test_a_token_without_a_digest_goes_on_being_one(options: WriteOptions) -> None:
    """As they were written once; and of several the one of the last batch counts, with its digest."""
    with Cluster(options.endpoint) as cluster:
        producer = TransactionalProducer(cluster, f"id-{options.topic}")
        producer.init()
        producer.begin()
        for partition, (digest, following) in enumerate([(" new", 4), ("", 5), (" other", 2)]):
            token = {TopicPartition(options.topic or "", partition): following}
            metadata = f"{TOKEN_MARK} {QUERY}{digest}"
            producer.send_offsets(f"{GROUP_PREFIX}id-{options.topic}", token, metadata=metadata)
        producer.commit()
    ticket = take(options)
    assert ticket.has_committed(batch(4, "any"))
    assert not ticket.has_committed(batch(5, "any"))


def test_a_late_task_of_an_earlier_attempt_is_fenced_off(
    options: WriteOptions, generation: Generation
) -> None:
    """It carries the ticket that it was given, however late it runs."""
    old = take(options, generation)
    write(old, "lost", slot=0, task=0)
    new = take(options, generation)
    report = write(new, "a", slot=0, task=0)
    with pytest.raises(HoldfastError):
        write(old, "late", slot=1, task=1)
    with pytest.raises(HoldfastError):
        finish(old, Report(task=0, identity=old.identity, counts={TopicPartition(options.topic or "", 0): 1}))
    finish(new, report)
    assert visible(options) == ["a"]


def test_a_second_copy_of_a_task_is_refused(options: WriteOptions, generation: Generation) -> None:
    """Its rows have the same sequence numbers: the broker would take them for those that it has."""
    ticket = take(options, generation)
    write(ticket, "a", "b")
    with pytest.raises(WriteRefused, match="has run before"):
        write(ticket, "c", "d")
    again = take(options, generation)
    finish(again, write(again, "c", "d"))
    assert visible(options) == ["c", "d"]


def test_a_copy_that_comes_first_but_reports_last_keeps_the_other_out(options: WriteOptions) -> None:
    """Speculation: whichever copy claims the task is the only one that writes, on whatever partitions."""
    ticket = take(options)
    write(ticket, "a", slot=0, task=1)
    with pytest.raises(WriteRefused, match="has run before"):
        write(ticket, "b", slot=2, task=1)


def test_a_second_attempt_is_refused(options: WriteOptions) -> None:
    """Even if the first did not come to its claim: nobody can know."""
    with pytest.raises(WriteRefused, match="2th time"):
        write(take(options), "a", attempt=1)


def test_a_task_without_rows_may_run_often(options: WriteOptions) -> None:
    """It claims nothing, and its report is empty."""
    ticket = take(options)
    reports = [write_part(ticket, [], task=0, attempt=attempt) for attempt in range(2)]
    finish(ticket, *reports)
    assert not take(options).has_committed(batch(0))


def test_two_writers_of_one_partition_are_refused(options: WriteOptions) -> None:
    """Both begin at sequence 0: the rows of one are lost. The message says what to do."""
    ticket = take(options)
    reports = [write(ticket, "a", slot=1, task=0), write(ticket, "b", slot=1, task=1)]
    with pytest.raises(WriteRefused, match="by_output_partition"):
        finish(ticket, *reports)
    assert visible(options) == []


@pytest.mark.parametrize("claimed", [1, 3])
def test_the_log_must_hold_what_was_reported(options: WriteOptions, claimed: int) -> None:
    """A row too few or too many: nothing of the batch is committed."""
    ticket = take(options)
    report = write(ticket, "a", "b")
    wrong = replace(report, counts=dict.fromkeys(report.counts, claimed))
    with pytest.raises(WriteRefused, match="should hold"):
        finish(ticket, wrong)
    assert visible(options) == []


def test_a_report_of_another_ticket_is_refused(options: WriteOptions) -> None:
    """Messages of two attempts must not be mixed."""
    old = take(options)
    report = write(old, "a")
    with pytest.raises(WriteRefused, match="wrote as"):
        finish(take(options), report)


def test_more_tasks_than_can_write(options: WriteOptions) -> None:
    """Without a repartition a frame has tasks that no output partition belongs to."""
    with pytest.raises(WriteRefused, match="repartition"):
        write(take(options), "a", task=PARTITIONS)


def test_abandoning_frees_readers_and_never_undoes(options: WriteOptions, generation: Generation) -> None:
    """Spark calls abort also after a commit whose answer was lost."""
    done = take(options, generation)
    finish(done, write(done, "a"))
    abandon(done)
    assert visible(options) == ["a"]
    left = take(options, generation)
    write(left, "b")
    abandon(left)
    # Kafka answers before its markers are in the partitions.
    deadline = time.monotonic() + SETTLED_S_MAX
    with Cluster(options.endpoint) as cluster:
        while len({_end(cluster, options, isolation) for isolation in Isolation}) > 1:
            assert time.monotonic() < deadline, "readers are held back"
            time.sleep(0.05)
    assert visible(options) == ["a"]


def test_a_commit_in_doubt(options: WriteOptions, generation: Generation) -> None:
    """The broker has committed, and its answer is lost: giving up takes nothing back, and the token is there."""
    ticket = take(options, generation)
    report = write(ticket, "a")
    with LossyCluster(str(options.endpoint)) as cluster:

        def on_step(step: Step) -> None:
            if step is Step.STAGED:
                lose_the_next(END_TXN, cluster)

        with pytest.raises(ConnectionFailed):
            commit(cluster, ticket, [report], batch=batch(0), on_step=on_step)
    abandon(ticket)
    assert take(options, generation).has_committed(batch(0))
    assert visible(options) == ["a"]


def _end(cluster: Cluster, options: WriteOptions, isolation: Isolation) -> int:
    return list_offsets(cluster, options.topic or "", {0: LATEST}, isolation=isolation)[0]


def test_a_time_out_costs_an_attempt(options: WriteOptions, generation: Generation) -> None:
    """The broker gives up first: the commit is refused, and the batch is written anew."""
    ticket = take(replace(options, transaction_ms=300), generation)
    report = write(ticket, "a")
    deadline = time.monotonic() + SETTLED_S_MAX
    with Cluster(options.endpoint) as cluster:
        while describe_transactional_id(cluster, ticket.identity.transactional_id).is_open:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    with pytest.raises(HoldfastError):
        finish(ticket, report)
    again = take(options, generation)
    finish(again, write(again, "a"))
    assert visible(options) == ["a"]


def test_somebody_elses_offsets_are_no_token(options: WriteOptions) -> None:
    """Taken for one, they would have batches skipped."""
    place = TopicPartition(options.topic or "", 0)
    with Cluster(options.endpoint) as cluster:
        commit_group_offsets(cluster, f"{GROUP_PREFIX}id-{options.topic}", {place: 9})
    with pytest.raises(WriteRefused, match="no sink has committed"):
        take(options)


def test_claims_follow_each_other() -> None:
    """Also where the epochs of a producer id are used up."""
    seen = Claim(producer_id=7, producer_epoch=3)
    assert follows(Claim(producer_id=7, producer_epoch=4), seen)
    assert not follows(Claim(producer_id=7, producer_epoch=5), seen)
    assert not follows(Claim(producer_id=8, producer_epoch=4), seen)
    assert follows(Claim(producer_id=7, producer_epoch=0), None)
    assert not follows(Claim(producer_id=7, producer_epoch=1), None)
    last = Claim(producer_id=7, producer_epoch=EPOCH_LAST_GIVEN)
    assert follows(Claim(producer_id=8, producer_epoch=0), last)
    assert not follows(Claim(producer_id=8, producer_epoch=1), last)
    assert not follows(Claim(producer_id=7, producer_epoch=EPOCH_LAST_GIVEN + 1), last)


def test_rows_over_the_topics_limit_go_in_smaller_batches(holdfast: str) -> None:
    """The broker's refusal is heard; the rows arrive in their order."""
    make_topic(holdfast, "ticket.small", partitions=1, configs={"max.message.bytes": "3000"})
    options = WriteOptions(endpoint=Endpoint(holdfast), topic="ticket.small")
    ticket = take(options)
    values = [f"{number:03d}" + "x" * 400 for number in range(40)]
    finish(ticket, write(ticket, *values))
    assert visible(options) == values


def test_where_rows_go(options: WriteOptions) -> None:
    """By their own choice, by topic, by key as Kafka's clients have it, spread without one; the rest is refused."""
    outputs = Outputs(topics=(("a", 2), ("b", 5)))
    by_column = replace(options, topic=None)
    rows = pa.RecordBatch.from_pydict(
        {
            "topic": ["a", "b", "b", "b"],
            "partition": pa.array([1, None, 4, None], pa.int32()),
            "key": pa.array([b"k", b"key-7", None, None], pa.binary()),
            "value": ["1", "2", "3", "4"],
            "timestamp": pa.array([-1, None, 1_999, 2_000], pa.timestamp("us", "UTC")),
        }
    )
    placed = place_rows(rows, by_column, outputs, now_ms=5)
    slots = placed["slot"].to_pylist()
    assert (slots[0], slots[2]) == (1, 2 + 4)
    from holdfast.client.producer import partition_of_key

    assert slots[1] == 2 + partition_of_key(b"key-7", 5)
    assert 2 <= slots[3] < 7
    assert placed["timestamp"].to_pylist() == [-1, 5, 1, 2]
    with pytest.raises(UsageError, match="b has no partition 5"):
        place_rows(
            rows.set_column(1, "partition", pa.array([0, 5, 0, 0], pa.int32())), by_column, outputs, now_ms=0
        )
    with pytest.raises(UsageError, match="no topic c"):
        place_rows(rows.set_column(0, "topic", pa.array(["a", "b", "c", "b"])), by_column, outputs, now_ms=0)


def test_alone_a_task_needs_no_ticket(options: WriteOptions) -> None:
    """At least once: two tasks to one partition are fine."""
    with Cluster(options.endpoint) as cluster, pytest.raises(UnknownTopicOrPartition):
        take_ticket(cluster, replace(options, topic="missing"), "id")
    outputs = Outputs(topics=((options.topic or "", PARTITIONS),))
    rows = pa.RecordBatch.from_pydict({"value": ["a", "b"]})
    for task in range(2):
        write_alone(options, [place_rows(rows, options, outputs, now_ms=0)], outputs, task=task)
    assert visible(options) == ["a", "a", "b", "b"]


def test_what_the_driver_adds_is_cut_by_its_size() -> None:
    """Into batches that a topic takes, in order, each record once; one that is too large stands alone."""
    sizes = [ADDED_BYTES_MAX // 3] * 4 + [2 * ADDED_BYTES_MAX, 1]
    records = [Record(key=b"%d" % number, value=bytes(size)) for number, size in enumerate(sizes)]
    batches = [list(batch) for batch in cut_added(records)]
    assert [len(batch) for batch in batches] == [2, 2, 1, 1]
    assert [record for batch in batches for record in batch] == records

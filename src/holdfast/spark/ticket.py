"""One transaction for one micro-batch: opened by the driver, written to by tasks, committed by the driver.

The order of things is what makes it exact. The driver initializes the transactional id: whatever an earlier
attempt has left open is aborted, and its tasks are fenced off. Only then it reads the token, which tells the last
batch that was committed: nobody can commit another one now. The ticket travels inside of the tasks, so that a
late task of an earlier attempt has an earlier epoch. The token of this batch is committed in the same transaction
as its rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.client import transactions
from holdfast.client.cluster import Cluster
from holdfast.client.coordinator import CoordinatorType, find_coordinator
from holdfast.client.groups import TopicPartition
from holdfast.client.hanging import list_open_writes
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import Generation, Identity
from holdfast.errors import HoldfastError, UnknownTopicOrPartition, WriteRefused
from holdfast.records.build import Record
from holdfast.spark.claims import Claim, look_up_claims
from holdfast.spark.outputs import Outputs, find_outputs
from holdfast.spark.steps import OnStep, Step
from holdfast.spark.tokens import GROUP_PREFIX, Batch, Token, read_tokens
from holdfast.spark.write_options import WriteOptions

SEQUENCES: Final = 2**31
CLIENT_ID: Final = "holdfast-sink"
ADDED_BYTES_MAX: Final = 128 << 10
"""Of what the driver adds, in one batch: nearly every topic takes that much."""
RECORD_BYTES: Final = 32
"""What a record takes besides key and value, at most, if it has no headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The right to write one micro-batch, until somebody takes the next one."""

    options: WriteOptions
    identity: Identity
    generation: Generation
    outputs: Outputs
    claims: Mapping[int, Claim | None]
    """By number of the task: where its claim stood."""
    tokens: Mapping[str, Token]
    """By query id."""

    def has_committed(self, batch: Batch) -> bool:
        """Whether an earlier attempt at the batch has come to its end; CheckpointOutdated if another batch has."""
        token = self.tokens.get(batch.query_id)
        return token is not None and token.tells_of(batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one task has written, by partition."""

    task: int
    identity: Identity
    counts: Mapping[TopicPartition, int]
    claim: Claim | None = field(default=None)
    notes: tuple[Any, ...] = ()
    """See `aside`."""


def take_ticket(
    cluster: Cluster,
    options: WriteOptions,
    transactional_id: str,
    *,
    writers: int | None = None,
    known_claims: Mapping[int, Claim] | None = None,
    generation: Generation | None = None,
) -> Ticket:
    """Fences off every earlier attempt, then looks at what it has left; waits for brokers that restart.

    `writers` bounds the number of tasks that will write, as the option does; there is one for each output partition
    at most. `known_claims` need not be looked up, nor `generation`, what the cluster spoke before.
    """
    patience = cluster.patience()
    while True:
        try:
            return _take(cluster, options, transactional_id, writers, known_claims or {}, generation)
        except UnknownTopicOrPartition:
            raise
        except HoldfastError as failure:
            cluster.forget_leaders()
            patience.wait(failure)


def _take(
    cluster: Cluster,
    options: WriteOptions,
    transactional_id: str,
    writers: int | None,
    known_claims: Mapping[int, Claim],
    generation: Generation | None,
) -> Ticket:
    producer = TransactionalProducer(
        cluster, transactional_id, timeout_ms=options.transaction_ms, generation=generation
    )
    producer.init()
    outputs = find_outputs(cluster, options)
    tasks = min(options.writers or writers or len(outputs), len(outputs))
    known = {task: claim for task, claim in known_claims.items() if task < tasks}
    missing = [task for task in range(tasks) if task not in known]
    return Ticket(
        options=options,
        identity=producer.identity,
        generation=producer.generation,
        outputs=outputs,
        claims={**look_up_claims(cluster, transactional_id, missing), **known},
        tokens=read_tokens(cluster, transactional_id),
    )


def commit(
    cluster: Cluster,
    ticket: Ticket,
    reports: Iterable[Report],
    *,
    batch: Batch,
    on_step: OnStep,
    added: Mapping[TopicPartition, Sequence[Record]] | None = None,
) -> None:
    """Makes the batch visible, with what the driver adds, if what lies in the log is what the tasks have reported."""
    counts = _merge(ticket, reports)
    on_step(Step.REPORTED)
    name = ticket.identity.transactional_id
    producer = TransactionalProducer(cluster, name, generation=ticket.generation)
    producer.adopt(ticket.identity)
    producer.begin()
    for place, records in (added or {}).items():
        if place in counts:
            raise WriteRefused(
                f"a task wrote to {place.topic}-{place.partition}, which is the driver's alone"
            )
        for some in cut_added(records):
            producer.send(*place, some)
        counts[place] = len(records)
    if not counts:
        return
    _check_sequences(cluster, ticket, counts)
    token = {TopicPartition(_token_topic(ticket, counts), 0): batch.number + 1}
    producer.send_offsets(GROUP_PREFIX + name, token, metadata=batch.token)
    on_step(Step.STAGED)
    producer.commit()
    on_step(Step.ENDED)


def cut_added(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Batches of what the driver adds, in order, of ADDED_BYTES_MAX or of a single record that is larger."""
    first = size_bytes = 0
    for number, record in enumerate(records):
        record_bytes = len(record.key or b"") + len(record.value or b"") + RECORD_BYTES
        if number > first and size_bytes + record_bytes > ADDED_BYTES_MAX:
            yield records[first:number]
            first, size_bytes = number, 0
        size_bytes += record_bytes
    yield records[first:]


def abandon(ticket: Ticket) -> None:
    """Ends the transaction if it is still open; what it has committed it keeps.

    The broker knows the two apart: by the epoch, which a commit has raised, or by the state that a commit has left.
    If nobody answers, the next ticket or the time-out ends the transaction.
    """
    name = ticket.identity.transactional_id
    request = transactions.end_txn(ticket.identity, committed=False)
    with (
        suppress(HoldfastError),
        Cluster(ticket.options.endpoint, client_id=CLIENT_ID, patience_s=0) as cluster,
    ):
        find_coordinator(cluster, CoordinatorType.TRANSACTION, name).send(
            request, versions=ticket.generation.end_txn
        )


def default_transactional_id(query_id: str) -> str:
    """Every query has one of its own, the same after each restart."""
    return f"holdfast-{query_id}"


def _merge(ticket: Ticket, reports: Iterable[Report]) -> dict[TopicPartition, int]:
    """All counts; refused if tasks wrote under another ticket, or two to the same partition."""
    merged: dict[TopicPartition, int] = {}
    for report in reports:
        if report.identity != ticket.identity:
            raise WriteRefused(
                f"task {report.task} wrote as {report.identity}, the batch is {ticket.identity}"
            )
        for place, count in report.counts.items():
            if place in merged:
                raise WriteRefused(
                    f"two tasks wrote to {place.topic}-{place.partition}, so that rows may be lost: nothing is"
                    " committed; repartition with holdfast.spark.sink.by_output_partition, or use its Sink"
                )
            merged[place] = count
    return merged


def _check_sequences(cluster: Cluster, ticket: Ticket, counts: Mapping[TopicPartition, int]) -> None:
    """The brokers must have counted as many records as the tasks."""
    mine = (ticket.identity.producer_id, ticket.identity.producer_epoch)
    found = {
        write.place: write.last_sequence
        for write in list_open_writes(cluster, set(counts))
        if (write.producer_id, write.producer_epoch) == mine
    }
    for place, count in counts.items():
        if found.get(place) != (count - 1) % SEQUENCES:
            raise WriteRefused(
                f"{place.topic}-{place.partition} should hold {count} rows of this batch, but the last sequence"
                f" number there is {found.get(place, 'unknown')}: nothing is committed"
            )


def _token_topic(ticket: Ticket, counts: Mapping[TopicPartition, int]) -> str:
    return min(ticket.options.names or (place.topic for place in counts))

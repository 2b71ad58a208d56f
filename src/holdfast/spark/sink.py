"""Streaming writes that shuffle rows to one writer per output partition: exactly once, into any Kafka cluster.

    df.writeStream.foreachBatch(Sink(bootstrap="127.0.0.1:9092", topic="audit")).option(...).start()

Each micro-batch is one transaction, see `ticket`. An attempt that fails, because a worker died or a broker went away,
is aborted and made anew, a few times, before the query fails.
"""

import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Generation, Identity
from holdfast.errors import CheckpointOutdated, HoldfastError, UsageError
from holdfast.records.build import Record
from holdfast.spark.aside import NOTED, Aside, Note, place_added
from holdfast.spark.brevity import told_to_spark, was_stopped
from holdfast.spark.claims import Claim
from holdfast.spark.columns import check_columns
from holdfast.spark.outputs import find_outputs
from holdfast.spark.planned import digest_of_running
from holdfast.spark.schema import KEY_HASH
from holdfast.spark.shaping import place, shape
from holdfast.spark.steps import OnStep, Step, ignore
from holdfast.spark.ticket import (
    CLIENT_ID,
    Report,
    Ticket,
    abandon,
    commit,
    default_transactional_id,
    take_ticket,
)
from holdfast.spark.tokens import Batch
from holdfast.spark.traces import cause_line
from holdfast.spark.write_options import Delivery, WriteOptions, options_from

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ATTEMPTS: Final = 4
REPORT_SCHEMA: Final = "report binary"

Write = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_LOG: Final = logging.getLogger(__name__)


class Sink:
    """For `foreachBatch`; its options are those of writing with `format("holdfast")`, as `transactional_id=...`.

    Who has read them already gives them as they are.
    `attempts` bounds how often a batch is tried before the query fails.
    """

    def __init__(
        self,
        parsed: WriteOptions | None = None,
        /,
        *,
        attempts: int = BATCH_ATTEMPTS,
        on_step: OnStep = ignore,
        **options: str | int,
    ) -> None:
        self._options = parsed or options_from(options, default=Delivery.EXACTLY_ONCE)
        self._attempts = attempts
        self._on_step = on_step
        self._claims: dict[int, Claim] = {}
        self._generation: Generation | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Writes one micro-batch; returns when it is committed, now or by an earlier attempt."""
        self.write(frame, batch_id)

    def write(self, frame: DataFrame, batch_id: int, aside: Aside | None = None) -> None:
        """The same, exactly once alone, with what is to happen beside it; the frame then has the column `noted`.

        It may have the column `keyHash`, too, of rows whose key is as it was read: what need not be computed again.
        """
        with told_to_spark():
            self._write_anew(frame, batch_id, aside)

    def _write_anew(self, frame: DataFrame, batch_id: int, aside: Aside | None) -> None:
        """As often as it takes."""
        check_columns(frame.schema, self._options, beside=() if aside is None else (NOTED, KEY_HASH))
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if query_id is None:
            raise UsageError("a Sink is for foreachBatch: outside of a streaming query a batch has no number")
        is_exact = self._options.delivery is Delivery.EXACTLY_ONCE
        digest = digest_of_running(frame.sparkSession, query_id, batch_id) if is_exact else ""
        batch = Batch(query_id=query_id, number=batch_id, digest=digest)
        for attempt in range(1, self._attempts + 1):
            try:
                self._write(frame, batch, aside)
                return
            except (HoldfastError, PySparkException, Py4JError) as failure:
                self._claims, self._generation = {}, None  # what was learned may be why the attempt failed
                is_final = isinstance(failure, UsageError | CheckpointOutdated) or was_stopped(failure)
                if attempt == self._attempts or is_final:
                    raise
                told = cause_line(str(failure))
                _LOG.warning("batch %d, attempt %d of %d: %s", batch_id, attempt, self._attempts, told)

    def _write(self, frame: DataFrame, batch: Batch, aside: Aside | None) -> None:
        # A sink is not told when its query ends, so that it keeps no connection from one batch to the next.
        with Cluster(self._options.endpoint, client_id=CLIENT_ID) as cluster:
            if self._options.delivery is Delivery.AT_LEAST_ONCE:
                assert aside is None, "what is written again would be noted again"
                _collect(frame.mapInArrow(_alone(self._options, cluster), REPORT_SCHEMA))
                return
            ticket = take_ticket(
                cluster,
                self._options,
                self._options.transactional_id or default_transactional_id(batch.query_id),
                writers=frame.sparkSession.sparkContext.defaultParallelism,
                known_claims=self._claims,
                generation=self._generation,
            )
            self._generation = ticket.generation
            if ticket.has_committed(batch):
                return
            self._on_step(Step.TICKET)
            try:
                reports = _collect(self._plan(frame, ticket, aside))
                commit(
                    cluster,
                    ticket,
                    reports,
                    batch=batch,
                    on_step=self._on_step,
                    added=_conclude(ticket, reports, aside),
                )
            except BaseException:
                # Readers of committed rows need not wait for the time-out of what nobody goes on with.
                abandon(ticket)
                raise
            self._claims = {report.task: report.claim for report in reports if report.claim is not None}

    def _plan(self, frame: DataFrame, ticket: Ticket, aside: Aside | None) -> DataFrame:
        """Every row to the one task that writes to its partition; a report of each task comes back."""
        shaped = shape(frame, self._options, ticket.outputs)
        shuffled = shaped.repartitionById(len(ticket.claims), "slot")
        note = None if aside is None else aside.note
        written = shuffled.mapInArrow(_together(ticket, note, self._on_step), REPORT_SCHEMA)
        if aside is None or aside.beside is None:
            return written
        # Writers come first: their numbers are what they have claimed.
        return written.unionAll(aside.beside.mapInArrow(_beside(ticket.identity, aside.note), REPORT_SCHEMA))


def by_output_partition(frame: DataFrame, **options: str | int) -> DataFrame:
    """The frame with its rows where `writeStream.format("holdfast")` needs them: one task per output partition.

    The topics are looked at once, now. The column `partition` is filled, and with option `topic` there is a column
    `topic` too.
    """
    parsed = options_from(options, default=Delivery.EXACTLY_ONCE)
    with Cluster(parsed.endpoint, client_id=CLIENT_ID) as cluster:
        outputs = find_outputs(cluster, parsed)
    return place(frame, parsed, outputs)


def _together(ticket: Ticket, note: Note | None, on_step: OnStep) -> Write:
    """What a task does with its rows under a ticket, which travels inside of it."""
    now_ms = _now_ms()

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from holdfast.spark.part_writer import write_part  # noqa: PLC0415  numba is for workers
        from holdfast.spark.placing import fill_times  # noqa: PLC0415

        context = _context()
        task, attempt = context.partitionId(), context.attemptNumber()
        notes: list[Any] = []

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if note is not None and batch.num_rows:
                    notes.append(note(batch[NOTED]))
                yield fill_times(batch, now_ms)

        report = write_part(ticket, rows(), task=task, attempt=attempt, on_step=on_step)
        yield _to_arrow(replace(report, notes=tuple(notes)))

    return write


def _beside(identity: Identity, note: Note) -> Write:
    """What a task does with rows that are noted and not written."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        notes = tuple(note(batch[NOTED]) for batch in batches if batch.num_rows)
        yield _to_arrow(Report(task=_context().partitionId(), identity=identity, counts={}, notes=notes))

    return write


def _conclude(
    ticket: Ticket, reports: Sequence[Report], aside: Aside | None
) -> Mapping[TopicPartition, Sequence[Record]]:
    if aside is None:
        return {}
    return place_added(aside.conclude([note for report in reports for note in report.notes]), ticket.outputs)


def _alone(options: WriteOptions, cluster: Cluster) -> Write:
    """What a task does with its rows where each task is on its own."""
    outputs = find_outputs(cluster, options)
    now_ms = _now_ms()

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from holdfast.spark.part_writer import write_alone  # noqa: PLC0415  numba is for workers
        from holdfast.spark.placing import place_rows  # noqa: PLC0415

        placed = (place_rows(batch, options, outputs, now_ms=now_ms) for batch in batches)
        yield _to_arrow(write_alone(options, placed, outputs, task=_context().partitionId()))

    return write


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _to_arrow(report: Report) -> pa.RecordBatch:
    return pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})


def _collect(frame: DataFrame) -> list[Report]:
    return [pickle.loads(row.report) for row in frame.collect()]  # noqa: S301  from our own workers


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

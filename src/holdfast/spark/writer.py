"""`df.write` and `df.writeStream` with `format("holdfast")`: the same transactions as the sink's, without its shuffle.

Spark makes a stream writer anew for each micro-batch, in a planning process, and sends it to the tasks; being pickled
is how it learns that a batch begins. In another process it is made once more to commit, and knows only what the
tasks have reported.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from holdfast.client.cluster import Cluster
from holdfast.errors import UsageError
from holdfast.spark.outputs import find_outputs
from holdfast.spark.planned import digest_of_newest, local_checkpoint
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
from holdfast.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the process that commits."""

    report: Report
    ticket: Ticket | None = None
    batch: Batch | None = None


class AloneWriter(DataSourceArrowWriter):
    """Batch writes: each task on its own, at least once."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """All rows of a task."""
        return Written(report=_write_alone(self._options, iterator))


class AloneStreamWriter(DataSourceStreamArrowWriter):
    """The same for each micro-batch: a batch that is tried again is written again."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """All rows of a task."""
        return Written(report=_write_alone(self._options, iterator))


class ExactStreamWriter(DataSourceStreamArrowWriter):
    """One transaction per micro-batch. Each output partition must have its rows in one task."""

    def __init__(self, options: WriteOptions, *, on_step: OnStep = ignore) -> None:
        self._options = options
        self._on_step = on_step
        self._ticket: Ticket | None = None
        self._newest = (-1, "")

    def __getstate__(self) -> dict[str, Any]:
        """On its way to the tasks of a batch, twice: they share one ticket."""
        if self._ticket is None:
            with Cluster(self._options.endpoint, client_id=CLIENT_ID) as cluster:
                self._ticket = take_ticket(cluster, self._options, _transactional_id(self._options))
            checkpoint = local_checkpoint(self._options.checkpoint)
            if checkpoint is not None:
                self._newest = digest_of_newest(checkpoint)
            self._on_step(Step.TICKET)
        return self.__dict__

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """All rows of a task, unless an earlier attempt has committed them."""
        from holdfast.spark.part_writer import write_part  # noqa: PLC0415  see `source`
        from holdfast.spark.placing import place_rows  # noqa: PLC0415

        ticket, context = self._ticket, _context()
        assert ticket is not None
        query_id, number = context.getLocalProperty(QUERY_ID), int(context.getLocalProperty(BATCH_ID))
        newest, digest = self._newest
        batch = Batch(query_id=query_id, number=number, digest=digest if newest == number else "")
        now_ms = time.time_ns() // 1_000_000
        batches = iter(()) if ticket.has_committed(batch) else iterator
        rows = (place_rows(each, ticket.options, ticket.outputs, now_ms=now_ms) for each in batches)
        task, attempt = context.partitionId(), context.attemptNumber()
        report = write_part(ticket, rows, task=task, attempt=attempt, on_step=self._on_step)
        return Written(report=report, ticket=ticket, batch=batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commits what the tasks of a batch have written."""
        written = [message for message in messages if isinstance(message, Written)]
        if not written:
            return
        ticket, batch = written[0].ticket, written[0].batch
        assert ticket is not None
        assert batch is not None
        assert batch.number == batchId
        if ticket.has_committed(batch):
            return
        reports = [message.report for message in written]
        with Cluster(ticket.options.endpoint, client_id=CLIENT_ID) as cluster:
            commit(cluster, ticket, reports, batch=batch, on_step=self._on_step)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Spark calls this also after a commit that it could not hear of: that one stays."""
        for message in messages:
            if isinstance(message, Written) and message.ticket is not None:
                abandon(message.ticket)
                return


def _write_alone(options: WriteOptions, batches: Iterator["pa.RecordBatch"]) -> Report:
    from holdfast.spark.part_writer import write_alone  # noqa: PLC0415  see `source`
    from holdfast.spark.placing import place_rows  # noqa: PLC0415

    with Cluster(options.endpoint, client_id=CLIENT_ID) as cluster:
        outputs = find_outputs(cluster, options)
    now_ms = time.time_ns() // 1_000_000
    placed = (place_rows(batch, options, outputs, now_ms=now_ms) for batch in batches)
    return write_alone(options, placed, outputs, task=_context().partitionId())


def _transactional_id(options: WriteOptions) -> str:
    """The option, or one made of the query's id, which the planning process finds in the checkpoint alone."""
    if options.transactional_id is not None:
        return options.transactional_id
    checkpoint = local_checkpoint(options.checkpoint)
    if checkpoint is not None:
        return default_transactional_id(json.loads((checkpoint / "metadata").read_text())["id"])
    raise UsageError(
        "option transactionalId is missing: give each query one of its own, the same after every restart"
        " (without it the query's id is taken from a checkpointLocation on this machine, and there is none)"
    )


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context

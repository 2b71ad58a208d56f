"""One task's part of a write: Arrow batches → record batches → the leaders of their partitions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.piece_producer import Piece, PieceProducer
from holdfast.client.producer import init_producer
from holdfast.client.transactions import Identity
from holdfast.errors import OutOfOrderSequence, WriteRefused
from holdfast.records.batch import Codec
from holdfast.records.encode import Rows
from holdfast.spark.claims import make_claim
from holdfast.spark.outputs import Outputs
from holdfast.spark.steps import OnStep, Step, ignore
from holdfast.spark.ticket import Report, Ticket
from holdfast.spark.write_options import WriteOptions

CLIENT_ID: Final = "holdfast-spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPiece:
    """Some rows for one partition."""

    rows: Rows
    chosen: NDArray[np.int64]
    codec: Codec

    def __len__(self) -> int:
        return len(self.chosen)

    def build(self, identity: Identity, base_sequence: int, *, transactional: bool) -> bytes | bytearray:
        """See `Piece`."""
        return self.rows.build(
            self.chosen,
            codec=self.codec,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )

    def halves(self) -> tuple[Piece, Piece]:
        """See `Piece`."""
        middle = len(self.chosen) // 2
        first, second = (
            RowPiece(rows=self.rows, chosen=part, codec=self.codec)
            for part in (self.chosen[:middle], self.chosen[middle:])
        )
        return first, second


def write_part(
    ticket: Ticket, batches: Iterable[pa.RecordBatch], *, task: int, attempt: int, on_step: OnStep = ignore
) -> Report:
    """Writes the rows of one task into the ticket's transaction; rows have a slot, see `shaping`.

    Only the first attempt may write: what an earlier one has written is in the log, under the same numbers. A task
    without rows claims nothing, and may run as often as Spark likes.
    """
    filled = _filled(batches)
    first = next(filled, None)
    if first is None:
        return Report(task=task, identity=ticket.identity, counts={})
    if attempt > 0:
        raise WriteRefused(
            f"task {task} runs for the {attempt + 1}th time in this attempt at the batch, and rows of the time before"
            " may be written: the batch has to be written anew"
        )
    if task not in ticket.claims:
        raise WriteRefused(
            f"task {task} has rows, but only {len(ticket.claims)} tasks can write to {len(ticket.outputs)} output"
            " partitions: repartition with holdfast.spark.sink.by_output_partition, or use its Sink"
        )
    on_step(Step.WRITING)
    with Cluster(ticket.options.endpoint, client_id=CLIENT_ID) as cluster:
        claim = make_claim(
            cluster,
            ticket.identity.transactional_id,
            task,
            seen=ticket.claims[task],
            generation=ticket.generation,
            timeout_ms=ticket.options.transaction_ms,
        )
        producer = PieceProducer(cluster, ticket.identity, generation=ticket.generation)
        try:
            for batch in _with_first(first, filled):
                producer.send(pieces_of(batch, ticket.options, ticket.outputs))
        except OutOfOrderSequence as error:
            raise WriteRefused(
                f"another task writes to the same partition ({error}): repartition with"
                " holdfast.spark.sink.by_output_partition, or use its Sink"
            ) from error
    on_step(Step.WRITTEN)
    return Report(task=task, identity=ticket.identity, counts=dict(producer.counts), claim=claim)


def write_alone(
    options: WriteOptions, batches: Iterable[pa.RecordBatch], outputs: Outputs, *, task: int
) -> Report:
    """Writes the rows of one task under a producer id of its own: at least once, since a task may run again."""
    with Cluster(options.endpoint, client_id=CLIENT_ID) as cluster:
        producer_id, producer_epoch = init_producer(cluster)
        identity = Identity(transactional_id="", producer_id=producer_id, producer_epoch=producer_epoch)
        producer = PieceProducer(cluster, identity, generation=None)
        for batch in _filled(batches):
            producer.send(pieces_of(batch, options, outputs))
        return Report(task=task, identity=identity, counts=dict(producer.counts))


def pieces_of(
    batch: pa.RecordBatch, options: WriteOptions, outputs: Outputs
) -> dict[TopicPartition, list[Piece]]:
    """The batch's rows by partition, in their order, in pieces that a topic takes."""
    rows = Rows(
        key=batch["key"],
        value=batch["value"],
        timestamp_ms=batch["timestamp"],
        headers=batch["headers"] if "headers" in batch.schema.names else None,
    )
    slots = batch["slot"].to_numpy(zero_copy_only=False)
    order = np.argsort(slots, kind="stable")
    places = outputs.places
    found: dict[TopicPartition, list[Piece]] = {}
    starts = np.flatnonzero(np.diff(slots[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        chosen = order[start:end]
        found[places[slots[chosen[0]]]] = [
            RowPiece(rows=rows, chosen=piece, codec=options.codec)
            for piece in rows.cut(chosen, bytes_max=options.batch_bytes)
        ]
    return found


def _filled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _with_first(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others

"""Sends as a service without transactions has them: each is tried again ten times, and then given up.

What is given up is gone: the batch counts as done, and the next one begins. That is the fault which delivery mode
dual is there to show.
"""

import logging
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.groups import TopicPartition
from holdfast.client.piece_producer import Piece, PieceProducer
from holdfast.client.producer import init_producer
from holdfast.client.transactions import Identity
from holdfast.errors import HoldfastError
from holdfast.spark.aside import NOTED, Note
from holdfast.spark.outputs import Outputs, find_outputs
from holdfast.spark.write_options import Delivery, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

RETRIES_MAX: Final = 10
PAUSE_S: Final = 0.1
"""Between two attempts, as in Kafka's own producer."""
ANSWER_S_MAX: Final = 30.0
CLIENT_ID: Final = "holdfast-dual"

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of the rows of a frame, or of a task."""

    given_up: Counter[str]
    """By topic."""
    notes: list[Any]
    """See `holdfast.spark.aside`."""


class DualSends:
    """Sends the rows of a frame, in tasks, to one topic after the other, and tells what was given up."""

    def __init__(self, endpoint: Endpoint, *, pause_s: float = PAUSE_S) -> None:
        self._endpoint = endpoint
        self._pause_s = pause_s

    def __call__(self, records: DataFrame, topics: tuple[str, ...], *, note: Note) -> Sent:
        """The topics in the order in which a message is sent to them; what is to be sent is noted, given up or not."""
        options = WriteOptions(endpoint=self._endpoint, topics=topics, delivery=Delivery.AT_LEAST_ONCE)
        with Cluster(self._endpoint, client_id=CLIENT_ID) as cluster:
            outputs = find_outputs(cluster, options)
        write = _writer(options, outputs, note, self._pause_s)
        total = Sent(given_up=Counter(), notes=[])
        for row in records.mapInArrow(write, "sent binary").collect():
            sent = pickle.loads(row.sent)  # noqa: S301  from our own workers
            total.given_up.update(sent.given_up)
            total.notes.extend(sent.notes)
        for topic, lost in total.given_up.items():
            _LOG.warning("%d messages for %s were given up after %d retries", lost, topic, RETRIES_MAX)
        return total


def _writer(
    options: WriteOptions, outputs: Outputs, note: Note, pause_s: float
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    now_ms = time.time_ns() // 1_000_000

    def write(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa  # noqa: PLC0415  numba and Arrow are for workers

        from holdfast.spark.part_writer import pieces_of  # noqa: PLC0415
        from holdfast.spark.placing import place_rows  # noqa: PLC0415

        sender = Sender(options.endpoint, pause_s=pause_s)
        notes = []
        for batch in batches:
            if batch.num_rows:
                notes.append(note(batch[NOTED]))
                pieces = pieces_of(place_rows(batch, options, outputs, now_ms=now_ms), options, outputs)
                for topic in options.topics:
                    sender.send({place: queue for place, queue in pieces.items() if place.topic == topic})
        sender.close()
        sent = Sent(given_up=sender.given_up, notes=notes)
        yield pa.record_batch({"sent": pa.array([pickle.dumps(sent)], pa.binary())})

    return write


class Sender:
    """Sends pieces, and remembers how many records it has given up, by topic."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        pause_s: float = PAUSE_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.given_up: Counter[str] = Counter()
        self._cluster = Cluster(endpoint, client_id=CLIENT_ID, timeout=ANSWER_S_MAX, patience_s=0)
        self._pause_s = pause_s
        self._sleep = sleep
        self._producer: PieceProducer | None = None

    def send(self, pieces: Mapping[TopicPartition, Iterable[Piece]]) -> None:
        """One piece per partition at a time."""
        queues = {place: iter(queue) for place, queue in pieces.items()}
        while queues:
            heads = {
                place: head for place, queue in queues.items() if (head := next(queue, None)) is not None
            }
            queues = {place: queue for place, queue in queues.items() if place in heads}
            self._send_heads(heads)

    def close(self) -> None:
        """Lets go of the brokers."""
        self._cluster.close()

    def _send_heads(self, heads: dict[TopicPartition, Piece]) -> None:
        for attempt in range(1 + RETRIES_MAX):
            if not heads:
                return
            if attempt:
                self._sleep(self._pause_s)
            before = Counter() if self._producer is None else Counter(self._producer.counts)
            try:
                self._open().send({place: [piece] for place, piece in heads.items()})
                return
            except HoldfastError as failure:
                heads = self._left(heads, before)
                if not failure.retriable:
                    break
        self._give_up(heads)

    def _left(
        self, heads: Mapping[TopicPartition, Piece], before: Counter[TopicPartition]
    ) -> dict[TopicPartition, Piece]:
        """What was not acknowledged. Of a piece that got there in part the rest is given up."""
        counts = before if self._producer is None else self._producer.counts
        left = {}
        for place, piece in heads.items():
            arrived = counts[place] - before[place]
            if not arrived:
                left[place] = piece
            elif arrived < len(piece):
                self.given_up[place.topic] += len(piece) - arrived
        return left

    def _give_up(self, heads: Mapping[TopicPartition, Piece]) -> None:
        for place, piece in heads.items():
            self.given_up[place.topic] += len(piece)
        # The brokers may have what was given up, under numbers that the next piece would bear again.
        self._producer = None

    def _open(self) -> PieceProducer:
        if self._producer is None:
            producer_id, producer_epoch = init_producer(self._cluster)
            identity = Identity(transactional_id="", producer_id=producer_id, producer_epoch=producer_epoch)
            self._producer = PieceProducer(self._cluster, identity, generation=None)
        return self._producer

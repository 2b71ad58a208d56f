"""A producer that sends what it is given and says where it lies; exactly once where acks=all."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.partitioner.default import murmur2
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from holdfast.client.cluster import Cluster
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed, HoldfastError, MessageTooLarge
from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch

PRODUCE_VERSIONS: Final = (3, 8)
"""From 9 on headers are flexible, and 13 names topics by id."""
INIT_PRODUCER_ID_VERSIONS: Final = (0, 1)

REQUEST_MS_MAX: Final = 10_000
SEQUENCES: Final = 2**31
"""Sequence numbers begin anew after the largest int32."""

ACKS_ALL: Final = -1
NO_ACKS: Final = 0
UNKNOWN_OFFSET: Final = -1

Pieces = dict[int, deque[Sequence[Record]]]
"""By partition, what is still to be sent, a batch at a time."""


@dataclass(slots=True, kw_only=True)
class Written:
    """What a partition has acknowledged; offsets are UNKNOWN_OFFSET where the broker does not tell."""

    first: int = UNKNOWN_OFFSET
    last: int = UNKNOWN_OFFSET
    count: int = 0


class Producer:
    """Sends to one topic, one batch per partition at a time; not for several threads.

    With acks=all it is idempotent: a batch whose answer was lost is sent again, and lies in the log once.
    `written` tells by partition what was acknowledged, also after a failure.
    """

    def __init__(
        self, cluster: Cluster, topic: str, *, acks: int = ACKS_ALL, codec: Codec = Codec.NONE
    ) -> None:
        self.written: dict[int, Written] = defaultdict(Written)
        self._cluster = cluster
        self._topic = topic
        self._acks = acks
        self._codec = codec
        self._sequences: dict[int, int] = defaultdict(int)
        self._producer_id, self._producer_epoch = init_producer(cluster) if acks == ACKS_ALL else (-1, -1)

    def send(self, records: Mapping[int, Sequence[Record]]) -> None:
        """One batch for each partition; returns when all are acknowledged.

        A batch over the topic's limit goes in halves, until a single record is too large.
        """
        due: Pieces = {partition: deque([batch]) for partition, batch in records.items() if batch}
        patience = self._cluster.patience()
        while due:
            try:
                self._send_heads(due)
                patience.renew()
            except HoldfastError as failure:
                if isinstance(failure, ConnectionFailed) and self._acks != ACKS_ALL:
                    raise ConnectionFailed(
                        f"{failure}; what was sent last may be written or not"
                    ) from failure
                self._cluster.forget_leaders()
                patience.wait(failure)

    def _send_heads(self, due: Pieces) -> None:
        """The next batch of every partition; what is acknowledged leaves `due`."""
        by_leader: dict[int, list[int]] = defaultdict(list)
        for partition in due:
            by_leader[self._cluster.leader_of(self._topic, partition)].append(partition)
        for leader, partitions in by_leader.items():
            broker = self._cluster.broker(leader)
            request = self._request({partition: due[partition][0] for partition in partitions})
            if self._acks == NO_ACKS:
                broker.post(request, versions=PRODUCE_VERSIONS)
                for partition in partitions:
                    self._acknowledge(due, partition, UNKNOWN_OFFSET)
            else:
                answer = broker.send(request, versions=PRODUCE_VERSIONS)
                self._read(due, partitions, answer)

    def _read(self, due: Pieces, partitions: list[int], answer: Any) -> None:
        """Every acknowledgement counts, also beside a refusal."""
        found = {each.index: each for topic in answer.responses for each in topic.partition_responses}
        failures: list[HoldfastError] = []
        for partition in partitions:
            result = found.get(partition)
            if result is None:
                failures.append(ConnectionFailed(f"{self._topic}-{partition} is missing in the answer"))
            elif result.error_code == 0:
                self._acknowledge(due, partition, result.base_offset)
            elif result.error_code == MessageTooLarge.kafka_code and len(due[partition][0]) > 1:
                batch = due[partition].popleft()
                due[partition].extendleft([batch[len(batch) // 2 :], batch[: len(batch) // 2]])
            else:
                where = f"producing to {self._topic}-{partition}"
                failures.append(refusal(result.error_code, where, result.error_message))
        # What can be tried again must not hide what cannot.
        for failure in sorted(failures, key=lambda failure: failure.retriable):
            raise failure

    def _acknowledge(self, due: Pieces, partition: int, first: int) -> None:
        batch = due[partition].popleft()
        if not due[partition]:
            del due[partition]
        self._sequences[partition] = (self._sequences[partition] + len(batch)) % SEQUENCES
        written = self.written[partition]
        written.count += len(batch)
        if first != UNKNOWN_OFFSET:
            written.first = first if written.first == UNKNOWN_OFFSET else written.first
            written.last = first + len(batch) - 1

    def _request(self, batches: Mapping[int, Sequence[Record]]) -> ProduceRequest:
        topic_part = ProduceRequest.TopicProduceData
        partitions = [
            topic_part.PartitionProduceData(
                index=partition,
                records=build_batch(
                    batch,
                    codec=self._codec,
                    producer_id=self._producer_id,
                    producer_epoch=self._producer_epoch,
                    base_sequence=self._sequences[partition] if self._producer_id >= 0 else -1,
                ),
            )
            for partition, batch in batches.items()
        ]
        return ProduceRequest(
            transactional_id=None,
            acks=self._acks,
            timeout_ms=REQUEST_MS_MAX,
            topic_data=[topic_part(name=self._topic, partition_data=partitions)],
        )


def init_producer(cluster: Cluster) -> tuple[int, int]:
    """A producer id and epoch that nobody else has."""
    patience = cluster.patience()
    while True:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=REQUEST_MS_MAX)
        try:
            answer = cluster.any_broker().send(request, versions=INIT_PRODUCER_ID_VERSIONS)
            if not answer.error_code:
                return answer.producer_id, answer.producer_epoch
            raise refusal(answer.error_code, "asking for a producer id")
        except HoldfastError as failure:
            patience.wait(failure)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Where the Java client's partitioner puts a key."""
    return int(murmur2(key) & 0x7FFF_FFFF) % partitions

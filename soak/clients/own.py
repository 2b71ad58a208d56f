"""Holdfast's own producer, in either generation of the protocol."""

from typing import ClassVar

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, fetch_group_offsets
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1, TV2, Generation
from holdfast.errors import ConnectionFailed
from holdfast.records.build import Record, read_records
from soak.clients.client import BATCH_MAX, PATIENCE_SECONDS, TIMEOUT_MS
from soak.history import LogRecord
from soak.txn_history import Place, Write


class _Own:
    generation: ClassVar[Generation]

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._cluster = Cluster(bootstrap, patience_s=PATIENCE_SECONDS)
        self._producer = TransactionalProducer(
            self._cluster, transactional_id, timeout_ms=TIMEOUT_MS, generation=self.generation
        )
        self._place = Place("", 0)
        self._group = ""
        self._position = 0

    def init(self) -> None:
        self._producer.init()

    def follow(self, place: Place, group: str) -> int:
        self._place, self._group = place, group
        self._position = position_of(self._cluster, group, place) or 0
        return self._position

    def poll(self) -> list[LogRecord]:
        found = read_committed(self._cluster, self._place, start=self._position)[:BATCH_MAX]
        if found:
            self._position = found[-1].offset + 1
        return found

    def rewind(self, offset: int) -> None:
        self._position = offset

    def begin(self) -> None:
        self._producer.begin()

    def send(self, writes: list[Write]) -> None:
        by_place: dict[Place, list[Record]] = {}
        for place, value in writes:
            by_place.setdefault(place, []).append(Record(value=value))
        for place, records in by_place.items():
            self._producer.send(*place, records)

    def send_offset(self, offset: int) -> None:
        self._producer.send_offsets(self._group, {TopicPartition(*self._place): offset})

    def commit(self) -> None:
        self._producer.commit()

    def abort(self) -> None:
        self._producer.abort()


class OwnFirstGeneration(_Own):
    """TV1: partitions and groups are announced."""

    generation = TV1


class OwnSecondGeneration(_Own):
    """TV2: every transaction has an epoch of its own."""

    generation = TV2


def position_of(cluster: Cluster, group: str, place: Place) -> int | None:
    """Where the group is; asked again while the log is down."""
    patience = cluster.patience()
    while True:
        try:
            return fetch_group_offsets(cluster, group).get(TopicPartition(*place))
        except ConnectionFailed as failure:
            patience.wait(failure)


def read_committed(
    cluster: Cluster, place: Place, *, start: int = 0, end: int | None = None, node: int | None = None
) -> list[LogRecord]:
    """The records from an offset up to the last stable one, or to `end`."""
    isolation = Isolation.READ_COMMITTED
    if end is None:
        end = list_offsets(cluster, place.topic, {place.partition: LATEST}, isolation=isolation)[
            place.partition
        ]
    wanted = OffsetRange(topic=place.topic, partition=place.partition, start=start, end=end)
    found = []
    for chunk in read_range(cluster, wanted, isolation=isolation, node_id=node):
        for batch in without_aborted(chunk.batches, chunk.aborted):
            for record in () if batch.is_control else read_records(batch):
                assert record.offset is not None
                if start <= record.offset < end:
                    found.append(LogRecord(record.offset, bytes(record.value or b"")))
    return found

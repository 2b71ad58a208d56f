"""Reads several partitions of a topic as records, from given positions on, for as long as one likes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final

from kafka.protocol.consumer import FetchRequest

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.fetching import FetchedPartition, fetch
from holdfast.client.offsets import Isolation
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed, CorruptBatch, HoldfastError, OffsetOutOfRange
from holdfast.records.batch import BatchView
from holdfast.records.build import Record, read_records
from holdfast.records.walk import walk_valid, whole_bytes

FETCH_BYTES: Final = 8 << 20
PARTITION_BYTES: Final = 1 << 20


class Consumer:
    """Positions in one topic that move as records are read; not for several threads.

    `positions` is by partition the offset that follows what was yielded; it may be changed between polls.
    """

    def __init__(
        self, cluster: Cluster, topic: str, positions: Mapping[int, int], *, isolation: Isolation
    ) -> None:
        self.positions = dict(positions)
        self._cluster = cluster
        self._topic = topic
        self._isolation = isolation
        self._patience = cluster.patience()
        self._was_busy = True

    def poll(self, wait_ms: int) -> Iterator[tuple[int, Record]]:
        """Asks every leader once and yields what is there with its partition, by partition and offset.

        Waits up to `wait_ms` for the first byte if the last poll found none. While leaders move or brokers
        restart it yields nothing, and raises what is wrong when the cluster's patience is spent.
        """
        try:
            answers = self._fetch(0 if self._was_busy else wait_ms)
        except HoldfastError as failure:
            self._cluster.forget_leaders()
            self._patience.wait(failure)
            return
        self._patience.renew()
        self._was_busy = any(found.records for found in answers)
        # Brokers answer in an order of their own.
        for found in sorted(answers, key=attrgetter("partition")):
            yield from self._read(found)

    def _fetch(self, wait_ms: int) -> list[FetchedPartition]:
        by_leader: dict[int, list[int]] = defaultdict(list)
        for partition in self.positions:
            by_leader[self._cluster.leader_of(self._topic, partition)].append(partition)
        answers: list[FetchedPartition] = []
        for leader, partitions in by_leader.items():
            request = self._request(partitions, wait_ms // len(by_leader))
            answer = fetch(self._cluster.broker(leader), request)
            if answer.error_code:
                raise refusal(answer.error_code, f"fetching {self._topic}")
            told = {each.partition: each for each in answer.partitions if each.topic == self._topic}
            for partition in partitions:
                if partition not in told:
                    raise ConnectionFailed(f"node {leader} left {self._topic}-{partition} out of its answer")
                answers.append(self._check(told[partition]))
        return answers

    def _check(self, found: FetchedPartition) -> FetchedPartition:
        where = f"{self._topic}-{found.partition}"
        if found.error_code == OffsetOutOfRange.kafka_code:
            raise OffsetOutOfRange(
                f"offset {self.positions[found.partition]} of {where} is not there, or no longer: "
                "start from the beginning, the end or another offset"
            )
        if found.error_code:
            raise refusal(found.error_code, f"fetching {where}")
        return found

    def _read(self, found: FetchedPartition) -> Iterator[tuple[int, Record]]:
        partition = found.partition
        for batch in self._batches(found):
            for record in () if batch.is_control else read_records(batch):
                assert record.offset is not None
                if record.offset >= self.positions[partition]:
                    self.positions[partition] = record.offset + 1
                    yield partition, record
            self.positions[partition] = max(self.positions[partition], batch.next_offset)

    def _batches(self, found: FetchedPartition) -> Iterator[BatchView]:
        records = found.records
        whole = whole_bytes(records)
        if records and not whole:
            raise CorruptBatch(f"{self._topic}-{found.partition}: only the beginning of a batch was sent")
        batches = list(walk_valid(records, end=whole))
        if self._isolation == Isolation.READ_UNCOMMITTED:
            yield from batches
            return
        yield from without_aborted(batches, found.aborted)
        if batches:
            # The last batch may be one that was left out.
            partition = found.partition
            self.positions[partition] = max(self.positions[partition], batches[-1].next_offset)

    def _request(self, partitions: list[int], wait_ms: int) -> FetchRequest:
        topic_part = FetchRequest.FetchTopic
        wanted = [
            topic_part.FetchPartition(
                partition=partition,
                current_leader_epoch=-1,
                fetch_offset=self.positions[partition],
                log_start_offset=-1,
                partition_max_bytes=PARTITION_BYTES,
            )
            for partition in partitions
        ]
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(self._isolation),
            session_id=0,
            session_epoch=-1,
            topics=[topic_part(topic=self._topic, partitions=wanted)],
            forgotten_topics_data=[],
            rack_id="",
        )

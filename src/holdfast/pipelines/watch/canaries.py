"""Canaries: marked records that are sent where an adapter reads, and looked for in audit.

They bear a reserved header and are nobody's message: reconciliation leaves them out, and so should everybody who
reads the topic.
"""

import uuid
from collections import deque
from dataclasses import replace
from typing import Final

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.producer import Producer
from holdfast.client.reader import OffsetRange, read_range
from holdfast.pipelines.recon.columns import CANARY_HEADER, find_header
from holdfast.pipelines.watch.world import Canary
from holdfast.records.arrow import decode
from holdfast.records.build import Record
from holdfast.spark.rows import gather

KEPT_MAX: Final = 1_000


class Canaries:
    """Sends one to each partition every so often, and follows audit to see them arrive."""

    def __init__(self, cluster: Cluster, *, topics: list[str], audit: str, every_ms: int) -> None:
        self._cluster = cluster
        self._audit = audit
        self._every_ms = every_ms
        self._producers = {topic: Producer(cluster, topic) for topic in topics}
        self._sent_ms: int | None = None
        self._positions: dict[int, int] = self._ends()
        self._out: dict[bytes, Canary] = {}
        self._back: deque[Canary] = deque(maxlen=KEPT_MAX)

    def look(self, now_ms: int) -> tuple[Canary, ...]:
        """Sends if it is time, reads what audit has got since, and tells of all that are out or came back lately."""
        if self._sent_ms is None or now_ms - self._sent_ms >= self._every_ms:
            self._send(now_ms)
        self._read(now_ms)
        return (*self._back, *self._out.values())

    def _send(self, now_ms: int) -> None:
        for topic, producer in self._producers.items():
            partitions = self._cluster.topic(topic).partitions
            marks = {partition: uuid.uuid4().hex.encode() for partition in partitions}
            producer.send(
                {
                    partition: [Record(value=b"", headers=[(CANARY_HEADER, mark)], timestamp_ms=now_ms)]
                    for partition, mark in marks.items()
                }
            )
            for partition, mark in marks.items():
                offset = producer.written[partition].last
                self._out[mark] = Canary(
                    topic=topic, partition=partition, offset=offset, sent_ms=now_ms, seen_ms=None
                )
        self._sent_ms = now_ms
        while len(self._out) > KEPT_MAX:
            del self._out[next(iter(self._out))]

    def _read(self, now_ms: int) -> None:
        for partition, end in self._ends().items():
            start = self._positions.get(partition, 0)
            if start >= end:
                continue
            wanted = OffsetRange(topic=self._audit, partition=partition, start=start, end=end)
            for stored in gather(read_range(self._cluster, wanted, isolation=Isolation.READ_COMMITTED)):
                for batch in decode(
                    stored, start=start, end=end, columns=["headers"], check_crcs=False
                ).to_batches():
                    for mark in find_header(batch["headers"], CANARY_HEADER).drop_null().to_pylist():
                        self._arrived(mark, now_ms)
            self._positions[partition] = end

    def _arrived(self, mark: bytes, now_ms: int) -> None:
        canary = self._out.pop(mark, None)
        if canary is not None:
            self._back.append(replace(canary, seen_ms=now_ms))

    def _ends(self) -> dict[int, int]:
        partitions = self._cluster.topic(self._audit).partitions
        return list_offsets(
            self._cluster, self._audit, dict.fromkeys(partitions, LATEST), isolation=Isolation.READ_COMMITTED
        )

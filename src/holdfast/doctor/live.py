"""A running cluster: every replica through its own broker, with rights to read and to describe."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.hanging import list_open_writes_on
from holdfast.client.offsets import Isolation
from holdfast.client.replica_log import ReplicaChunk, fetch_replica, find_bounds
from holdfast.client.transactional_ids import describe_open
from holdfast.doctor.rights import needing
from holdfast.doctor.source import Answer, Position
from holdfast.errors import ConnectionFailed, HoldfastError

FETCH_BYTES: Final = 1 << 20

Result = TypeVar("Result")


class Meter:
    """How much was read, and no faster than is allowed."""

    def __init__(
        self,
        bytes_per_second_max: int | None = None,
        *,
        on_read: Callable[[int], None] = lambda offsets: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.read_bytes = 0
        self._bytes_per_second_max = bytes_per_second_max
        self._on_read = on_read
        self._clock = clock
        self._sleep = sleep
        self._due = clock()
        """When all that was read so far may have been read."""

    def count(self, size_bytes: int, offsets: int) -> None:
        """So much was read just now; returns when the next piece may be."""
        self.read_bytes += size_bytes
        self._on_read(offsets)
        if self._bytes_per_second_max is not None:
            now = self._clock()
            self._due = max(self._due, now) + size_bytes / self._bytes_per_second_max
            self._sleep(max(0.0, self._due - now))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSource:
    """Implements `source.Source`: the replica of one broker."""

    name: int
    cluster: Cluster
    place: TopicPartition
    meter: Meter

    def find_position(self) -> Position:
        """Log start and end, and the high watermark that this replica knows of."""

        def ask() -> Position:
            with needing("Describe", self.place.topic):
                bounds = find_bounds(self.cluster, self.name, self.place)
            high_watermark = self._fetch(bounds.log_end, fetch_bytes=1).high_watermark
            return Position(log_start=bounds.log_start, high_watermark=high_watermark, log_end=bounds.log_end)

        return self._patiently(ask, "Read")

    def read(self, start: int) -> Iterator[Answer]:
        """Fetch by fetch, each when the meter lets it."""
        position = start
        while True:
            chunk = self._patiently(partial(self._fetch, position, fetch_bytes=FETCH_BYTES), "Read")
            if chunk.batches:
                # Before they are given away: whoever has read enough does not come back.
                read_bytes = sum(batch.size_bytes for batch in chunk.batches)
                self.meter.count(read_bytes, chunk.batches[-1].next_offset - position)
                position = chunk.batches[-1].next_offset
            yield Answer(batches=chunk.batches, aborted=chunk.aborted, stable=chunk.last_stable_offset)
            if not chunk.batches:
                return

    def list_open(self) -> dict[int, int]:
        """As this replica's own producer state has it."""
        found = self._patiently(
            lambda: list(list_open_writes_on(self.cluster, self.name, [self.place])), "Read"
        )
        return {write.producer_id: write.start for write in found}

    def _fetch(self, position: int, *, fetch_bytes: int) -> ReplicaChunk:
        return fetch_replica(
            self.cluster,
            self.name,
            self.place,
            position,
            isolation=Isolation.READ_COMMITTED,
            fetch_bytes=fetch_bytes,
        )

    def _patiently(self, ask: Callable[[], Result], right: str) -> Result:
        """A broker that is gone is no reason to wait: it is named, and the others are examined."""
        patience = self.cluster.patience()
        while True:
            try:
                with needing(right, self.place.topic):
                    return ask()
            except ConnectionFailed:
                raise
            except HoldfastError as failure:
                patience.wait(failure)


def list_coordinated(cluster: Cluster, place: TopicPartition) -> set[int]:
    """The producers with a transaction in a partition that a coordinator knows."""
    return {each.producer_id for each in describe_open(cluster) if place in each.partitions}

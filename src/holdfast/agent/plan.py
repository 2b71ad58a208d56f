"""Planning one group commit: offsets are assigned here, on top of what the commits before it left behind."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from holdfast.errors import TopicAlreadyExists
from holdfast.records.batch import BatchView, assign, stamp_log_append_time
from holdfast.rules.producer import ProducerState, WrittenBatch, append_batch, check_batch
from holdfast.store.footer import Change, ExtentAppended, ProducerAdvanced, TopicCreated
from holdfast.store.journal import Buffer


class PartitionKey(NamedTuple):
    """A partition of a topic; sorts, so that a frame's body is in a settled order."""

    topic_id: UUID
    partition: int


@dataclass(slots=True, kw_only=True)
class Tail:
    """The end of a partition's log as the next commit finds it."""

    end: int
    leader_epoch: int
    producers: dict[int, ProducerState]


@dataclass(slots=True)
class _Extent:
    """Batches of one partition, gathered for this commit."""

    first: int
    batches: list[Buffer] = field(default_factory=list)
    length_bytes: int = 0
    max_timestamp: int = -1


class CommitPlan:
    """What one frame will say. `tails` and `topic_names` hold what the plan changes, and nothing else."""

    def __init__(
        self, *, find_tail: Callable[[PartitionKey], Tail], topic_exists: Callable[[str], bool], now_ms: int
    ) -> None:
        self.now_ms = now_ms
        self.changes: list[Change] = []
        self.tails: dict[PartitionKey, Tail] = {}
        self.topic_names: set[str] = set()
        self._find_tail = find_tail
        self._topic_exists = topic_exists
        self._extents: dict[PartitionKey, _Extent] = {}

    def create_topic(self, change: TopicCreated) -> None:
        """Add a topic; TopicAlreadyExists if there is one of that name, be it in this very plan."""
        if change.name in self.topic_names or self._topic_exists(change.name):
            raise TopicAlreadyExists(f"topic {change.name!r} exists already")
        self.topic_names.add(change.name)
        self.changes.append(change)

    def append(self, key: PartitionKey, view: BatchView, *, stamp_time: bool) -> WrittenBatch:
        """Give a validated batch its offsets; a repeat of an earlier one is answered with that one's.

        The batch's buffer must be writable: its header is patched in place, and the frame is made of it.
        """
        tail = self._tail(key)
        idempotent = view.producer_id >= 0
        if idempotent:
            state = tail.producers.get(view.producer_id)
            repeated = check_batch(
                state,
                epoch=view.producer_epoch,
                first_sequence=view.base_sequence,
                last_sequence=view.last_sequence,
            )
            if repeated is not None:
                return repeated
        written = WrittenBatch(
            first_sequence=view.base_sequence,
            last_sequence=view.last_sequence,
            first_offset=tail.end,
            last_offset=tail.end + view.last_offset_delta,
            timestamp_ms=self.now_ms if stamp_time else -1,
        )
        self._place(key, tail, view, written)
        if idempotent:
            tail.producers[view.producer_id] = append_batch(state, epoch=view.producer_epoch, batch=written)
            self.changes.append(
                ProducerAdvanced(
                    key.topic_id,
                    key.partition,
                    view.producer_id,
                    view.producer_epoch,
                    written.first_sequence,
                    written.last_sequence,
                    written.first_offset,
                    written.last_offset,
                    written.timestamp_ms,
                )
            )
        return written

    def _tail(self, key: PartitionKey) -> Tail:
        tail = self.tails.get(key)
        if tail is None:
            known = self._find_tail(key)
            # A copy: if the commit fails, the tail of the last successful one must still be there.
            tail = Tail(end=known.end, leader_epoch=known.leader_epoch, producers=dict(known.producers))
            self.tails[key] = tail
        return tail

    def _place(self, key: PartitionKey, tail: Tail, view: BatchView, written: WrittenBatch) -> None:
        buffer = view.buffer
        assert isinstance(buffer, bytearray | memoryview)
        assign(buffer, view.position, base_offset=written.first_offset, leader_epoch=tail.leader_epoch)
        max_timestamp = view.max_timestamp
        if written.timestamp_ms >= 0:
            stamp_log_append_time(buffer, view.position, timestamp_ms=written.timestamp_ms)
            max_timestamp = written.timestamp_ms
        extent = self._extents.setdefault(key, _Extent(tail.end))
        extent.batches.append(memoryview(buffer)[view.position : view.position + view.size_bytes])
        extent.length_bytes += view.size_bytes
        extent.max_timestamp = max(extent.max_timestamp, max_timestamp)
        tail.end = written.last_offset + 1

    def seal(self) -> tuple[list[Buffer], list[Change]]:
        """The frame's body, sorted by partition, and all changes, its extents among them."""
        body: list[Buffer] = []
        extents: list[Change] = []
        position = 0
        for key in sorted(self._extents):
            extent = self._extents[key]
            tail = self.tails[key]
            extents.append(
                ExtentAppended(
                    key.topic_id,
                    key.partition,
                    extent.first,
                    tail.end - 1,
                    position,
                    extent.length_bytes,
                    extent.max_timestamp,
                    tail.leader_epoch,
                )
            )
            body += extent.batches
            position += extent.length_bytes
        # Topics come before the extents that may lie in them.
        return body, self.changes + extents

    @property
    def appended(self) -> list[PartitionKey]:
        """Partitions whose log end moves."""
        return list(self._extents)

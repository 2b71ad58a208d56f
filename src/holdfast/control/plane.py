"""What a control plane offers: one verb each, the same contract for every implementation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from holdfast.rules.producer import ProducerState
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import Change, GroupSaved
from holdfast.store.store import Checkpoint, Place, StoredFrame

EXTENTS_PER_PLAN_MAX = 256
"""As many extents one answer holds: a reader with no bound in bytes reads on from the last of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Who holds a partition and who leads it; nodes and their home stores share their numbers."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as clients see it."""

    topic_id: UUID
    name: str
    partitions: tuple[Partition, ...]
    configs: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """A partition's [start, end), its last stable offset, and the epoch of its leader."""

    start: int
    end: int
    last_stable: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Offsets first..last of a partition lie at these places, by store, as whole batches."""

    first: int
    last: int
    places: dict[int, Place]
    length_bytes: int
    max_timestamp: int
    instance: int = NO_INSTANCE
    outcome: Outcome | None = None
    """What became of the instance; None if there is none, or nothing is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInstance:
    """A transaction instance that is open in a partition."""

    instance: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """A consumer group's position in a partition."""

    topic_id: UUID
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    committed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group that has been saved, or that has at least committed a position."""

    group: str
    protocol_type: str
    members: int


class ControlPlane(Protocol):
    """The truth about topics, offsets, producers and groups.

    `apply` is called by one thread at a time; any thread reads, each verb on one consistent snapshot.
    """

    def apply(
        self, frames: Sequence[StoredFrame], changes: Sequence[Change], *, lost: Sequence[int] = ()
    ) -> None:
        """Record one frame that is durable on the stores of `frames`, all of it or nothing.

        `lost` are stores that failed to take it: they are in sync no longer, which is durable on return. A
        frame that is already applied is left alone, so a replay may begin too early. CommitRefused if a change
        no longer fits (another log end, leader epoch, sequence, topic or owner of a transactional id than the
        commit was planned with, or a transaction instance that is open no longer): the frame then counts as
        applied, without effect.
        """
        ...

    def trim(self, rows_max: int) -> int:
        """Delete up to so many rows that nobody sees any more, and say how many there were.

        They are those of extents below a log start, and of topics that were deleted. Any thread may call it.
        """
        ...

    def add_store(self, store: int) -> None:
        """Make a store known, in sync and empty; no effect on one that is."""
        ...

    def drop_stores(self, stores: Sequence[int]) -> None:
        """The stores lack what was acknowledged: they are in sync no longer, which is durable on return."""
        ...

    def find_in_sync(self) -> frozenset[int]:
        """The stores that have every frame."""
        ...

    def find_applied(self) -> int:
        """The number of the last frame applied; 0 before the first."""
        ...

    def find_checkpoint(self, store: int) -> Checkpoint | None:
        """The last frame applied that lies on the store; None before the first."""
        ...

    def list_topics(self) -> list[Topic]:
        """All topics by name."""
        ...

    def find_partition(self, topic_id: UUID, partition: int) -> Partition:
        """Who holds and who leads it; UnknownTopicOrPartition."""
        ...

    def find_bounds(self, topic_id: UUID, partition: int) -> LogBounds:
        """Where the partition's log begins, is stable and ends; UnknownTopicOrPartition.

        Stable means: every transaction that begins below is decided.
        """
        ...

    def find_size(self, topic_id: UUID, partition: int) -> int:
        """Bytes of the partition's extents, the one that holds the log start included; 0 if it is unknown."""
        ...

    def find_extents(
        self, topic_id: UUID, partition: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Extent]]:
        """Bounds, and the extents from the one that holds `offset` on until they have `bytes_max`.

        At least one extent if `offset` is within the bounds, else none; EXTENTS_PER_PLAN_MAX at most.
        UnknownTopicOrPartition.
        """
        ...

    def find_extent_by_time(
        self, topic_id: UUID, partition: int, offset: int, timestamp_ms: int
    ) -> Extent | None:
        """The first extent, from the one that holds `offset` on, with a record at or after the time.

        `offset` is not below the log start: what lies there may be trimmed at any moment. Like the next one and
        `find_size`, it takes no longer for a long log. UnknownTopicOrPartition.
        """
        ...

    def find_extent_of_max_time(self, topic_id: UUID, partition: int, offset: int) -> Extent | None:
        """The first extent with the greatest timestamp, from the one that holds `offset` on, as above."""
        ...

    def find_epoch_end(self, topic_id: UUID, partition: int, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end): the greatest epoch up to the one asked for, and where it ended; (-1, -1) if none.

        UnknownTopicOrPartition.
        """
        ...

    def find_producers(self, topic_id: UUID, partition: int) -> dict[int, ProducerState]:
        """Idempotent producers of the partition by producer id."""
        ...

    def find_open_instances(self, topic_id: UUID, partition: int) -> dict[int, OpenInstance]:
        """The transaction instances that are open in the partition, by producer id."""
        ...

    def find_transactional_id(self, transactional_id: str) -> TransactionalId | None:
        """A transactional id as it stands; None if nobody has used it."""
        ...

    def list_transactional_ids(self) -> dict[str, TransactionalId]:
        """All transactional ids by name."""
        ...

    def find_next_instance(self) -> int:
        """The number that the next transaction instance gets."""
        ...

    def find_instance_partitions(self, instance: int) -> list[tuple[UUID, int, int]]:
        """(topic id, partition, first offset) of an open instance."""
        ...

    def find_staged(self, group: str) -> set[tuple[UUID, int]]:
        """(topic id, partition) of the positions that open transactions have staged for a group."""
        ...

    def find_next_producer_id(self) -> int:
        """First producer id not yet allotted."""
        ...

    def find_group_offsets(self, group: str) -> list[GroupOffset]:
        """All positions that a group has committed, by topic name and partition."""
        ...

    def find_stale_groups(self, before_ms: int) -> list[str]:
        """Groups with a position that was committed at the time or before, and those without members or positions.

        By name. It looks through all positions.
        """
        ...

    def find_group(self, group: str) -> GroupSaved | None:
        """A group as its last rebalance left it; None if it never had members, or was deleted."""
        ...

    def list_groups(self) -> list[ListedGroup]:
        """All groups by name."""
        ...

    def close(self) -> None:
        """Let go of all files."""
        ...

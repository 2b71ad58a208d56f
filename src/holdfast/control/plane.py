"""What a control plane offers: one verb each, the same contract for every implementation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import UUID

from holdfast.control.replicas import PartitionRemoval, Segment, StoreState
from holdfast.errors import OutcomeMissing
from holdfast.records.batch import NO_TIMESTAMP
from holdfast.rules.producer import ProducerState
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import Change, GroupSaved
from holdfast.store.replica_changes import HeldTo
from holdfast.store.store import Checkpoint, Place, StoredFrame

EXTENTS_PER_PLAN_MAX = 256
"""As many extents one answer holds: a reader with no bound in bytes reads on from the last of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Who holds a partition and who leads it; nodes and their home stores share their numbers."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    joining: tuple[int, ...] = ()
    """Replicas that are given every frame but lack older ones, in sync though their store may be."""
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment under way brings; they may be in sync already."""
    removing: tuple[int, ...] = ()
    """Replicas that go when it ends."""


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
    """Offsets first..last of a partition lie at these places, by store, as whole batches.

    A store is not named if it has no replica, is fenced, has settled the extent, or lacks something below it.
    """

    first: int
    last: int
    places: dict[int, Place]
    length_bytes: int
    max_timestamp: int
    instance: int = NO_INSTANCE
    outcome: Outcome | None = None
    """What became of the instance; None if there is none, or nothing is known of it."""
    first_timestamp: int = NO_TIMESTAMP
    """The time of its first record; NO_TIMESTAMP if that was not written down, or has none."""

    @property
    def end(self) -> int:
        """The offset after its last, as a segment has it."""
        return self.last + 1


def is_hidden(extent: Extent) -> bool:
    """Whether readers of committed records must not see it; OutcomeMissing rather than a guess."""
    if extent.instance == NO_INSTANCE:
        return False
    if extent.outcome in (None, Outcome.OPEN):
        raise OutcomeMissing(
            f"offsets {extent.first} to {extent.last} belong to transaction instance {extent.instance},"
            " of which no outcome is known"
        )
    return extent.outcome is Outcome.ABORTED


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

        `lost` are stores that failed to take it: they are in sync no longer, which is durable on return; what they
        hold ends before this frame. The next frame has to say that they left. A frame that is already applied is
        left alone, so a replay may begin too early. CommitRefused if a change no longer fits (another log end,
        leader epoch, sequence, topic, manifest or owner of a transactional id than the commit was planned with,
        or a transaction instance that is open no longer): the frame then counts as applied, without effect.
        """
        ...

    def rehearse(self, changes: Sequence[Change]) -> None:
        """CommitRefused if a frame that says just this would be refused now; nothing is changed.

        For whoever answers for the changes of others too: one that does not fit must not take a frame down.
        """
        ...

    def trim(self, rows_max: int) -> int:
        """Delete up to so many rows that nobody sees any more, and say how many there were.

        They are those of extents below a log start, of extents that every member has settled and nobody will ask
        about again, and of topics that were deleted. Any thread may call it.
        """
        ...

    def add_store(self, store: int) -> None:
        """Make a store known, in sync and empty; no effect on one that is."""
        ...

    def drop_stores(self, stores: Sequence[int]) -> None:
        """The stores lack what was acknowledged: they are in sync no longer, which is durable on return.

        What they hold ends before the first extent that has no place on them. As with `apply`, the next frame has to
        say that they left.
        """
        ...

    def list_stores(self) -> list[StoreState]:
        """All stores by number."""
        ...

    def find_in_sync(self) -> frozenset[int]:
        """The stores that have every frame."""
        ...

    def find_applied(self) -> int:
        """The number of the last frame applied; 0 before the first."""
        ...

    def find_checkpoint(self, store: int) -> Checkpoint | None:
        """The last frame applied that lies on the store; None before the first one of its life."""
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

    def find_size(self, topic_id: UUID, partition: int, store: int) -> int:
        """Bytes of the partition on the store, the piece that holds the log start included; 0 if it serves none."""
        ...

    def find_extents(
        self, topic_id: UUID, partition: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Extent]]:
        """Bounds, and the extents from the one that holds `offset` on until they have `bytes_max`.

        At least one extent if `offset` is within the bounds, else none; EXTENTS_PER_PLAN_MAX at most. Those that
        every member has settled may be missing (`PartitionRemoval.trimmed_to`). UnknownTopicOrPartition.
        """
        ...

    def find_pieces(
        self, topic_id: UUID, partition: int, store: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Segment | Extent]]:
        """Bounds, and what a reader of one store reads from `offset` on: its segments, then the extents above.

        From the piece that covers `offset` on until they have `bytes_max`, EXTENTS_PER_PLAN_MAX at most. A segment
        does not count if it is empty, or if `offset` lies inside: nobody knows what is left of it. Nothing above what
        the store holds. An extent that straddles the end of the segments comes whole: its reader skips what it has
        had. UnknownTopicOrPartition; NotLeaderOrFollower if the store has no replica, or is fenced.
        """
        ...

    def find_logs(
        self, wanted: Sequence[tuple[UUID, int, int]], extents_max: int
    ) -> list[tuple[LogBounds, list[Segment | Extent]]]:
        """All of several replicas (topic, partition, store), at one moment: bounds, and pieces from the log start on.

        As from `find_pieces`, but without its bounds; ReadingRefused if there are more extents than `extents_max`.
        """
        ...

    def find_extent_by_time(
        self, topic_id: UUID, partition: int, store: int, offset: int, timestamp_ms: int
    ) -> Segment | Extent | None:
        """The first piece on the store, from the one that covers `offset` on, with a record at or after the time.

        `offset` is not below the log start: what lies there may be trimmed at any moment. Like the next one and
        `find_size`, it takes no longer for a long log. Refusals as for `find_pieces`.
        """
        ...

    def find_extent_of_max_time(
        self, topic_id: UUID, partition: int, store: int, offset: int
    ) -> Segment | Extent | None:
        """The first piece with the greatest timestamp, from the one that covers `offset` on, as above."""
        ...

    def find_removal(self, topic_id: UUID, partition: int) -> PartitionRemoval:
        """How far each member is clean and how far the group may forget; UnknownTopicOrPartition."""
        ...

    def find_segments(self, topic_id: UUID, partition: int, store: int, offset: int = 0) -> list[Segment]:
        """The segments of a partition on a store, from the one that covers `offset` on; none if it has none."""
        ...

    def find_held(self, topic_id: UUID, partition: int, store: int) -> int:
        """The store holds every byte of the partition below it. Refusals as for `find_pieces`, but not if fenced."""
        ...

    def list_behind(self, store: int) -> list[HeldTo]:
        """The partitions of which a store lacks something, with what it holds, by topic and partition."""
        ...

    def list_files(self, store: int) -> set[str]:
        """Every segment file on the store that is in use."""
        ...

    def find_oldest_journal(self, store: int) -> int | None:
        """The lowest number of a journal, or else of a carried file, that is in use on the store; None if none is.

        In use means: an extent that the store has not settled yet lies in it. Nothing of a fenced store is.
        """
        ...

    def find_carried(self, store: int) -> set[int]:
        """The numbers of the carried files on the store that are in use."""
        ...

    def snapshot(self, path: Path) -> int:
        """Write all of it to a file, durably and all or nothing; the number of the last frame applied in it."""
        ...

    def find_elapsed(self) -> int:
        """What the grace clock had counted when it was saved last, or the latest time that a frame has named."""
        ...

    def save_elapsed(self, elapsed_ms: int) -> None:
        """Keep what the grace clock has counted. In no frame: to lose it only prolongs a grace."""
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

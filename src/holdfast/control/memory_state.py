"""What the in-memory control plane knows: tables of rows that are replaced, never changed."""

from collections import Counter
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from uuid import UUID

from holdfast.control.plane import Extent, GroupOffset, LogBounds, OpenInstance, Partition
from holdfast.control.replica_rules import KeptGroup, KeptReplica, KeptStore
from holdfast.control.replicas import Segment, StorePhase
from holdfast.rules.lso import last_stable_offset
from holdfast.rules.producer import ProducerState
from holdfast.rules.transaction import Outcome
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import GroupSaved
from holdfast.store.store import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRow:
    """What is known of a store."""

    kept: KeptStore
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic without its partitions."""

    name: str
    configs: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition and its log. `epochs`: each leader epoch and the offset at which it began."""

    partition: Partition
    start: int = 0
    end: int = 0
    joined: tuple[OpenInstance, ...] = ()
    """Transaction instances with data here, in the order in which they begin; decided ones too."""
    epochs: tuple[tuple[int, int], ...] = ((0, 0),)
    extents: tuple[Extent, ...] = ()
    group: KeptGroup = field(default_factory=KeptGroup)
    replicas: Mapping[int, KeptReplica] = field(default_factory=dict)
    """By store, as are the segments."""
    segments: Mapping[int, tuple[Segment, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRow:
    """A transaction instance."""

    producer_id: int
    outcome: Outcome = Outcome.OPEN


@dataclass(slots=True, kw_only=True)
class State:
    """All that a control plane knows. Rows are replaced, never changed, so a copy of the tables is a snapshot."""

    applied: int = 0
    next_producer_id: int = 1
    next_instance: int = 1
    elapsed_ms: int = 0
    stores: dict[int, StoreRow] = field(default_factory=dict)
    topics: dict[UUID, TopicRow] = field(default_factory=dict)
    partitions: dict[tuple[UUID, int], PartitionRow] = field(default_factory=dict)
    producers: dict[tuple[UUID, int, int], ProducerState] = field(default_factory=dict)
    groups: dict[str, GroupSaved] = field(default_factory=dict)
    group_offsets: dict[tuple[str, UUID, int], GroupOffset] = field(default_factory=dict)
    transactional_ids: dict[str, TransactionalId] = field(default_factory=dict)
    instances: dict[int, InstanceRow] = field(default_factory=dict)
    staged: dict[tuple[str, UUID, int, int], GroupOffset | None] = field(default_factory=dict)
    """Positions that count once their instance, the last part of the key, is committed; in order of staging.

    None: the group has committed another one since.
    """
    unseen: Counter[str | None] = field(default_factory=Counter)
    """Rows of deleted topics that are yet to be trimmed, by the group whose deletion takes them too."""

    def is_open(self, instance: int) -> bool:
        """Whether a transaction instance has begun and has no outcome yet."""
        row = self.instances.get(instance)
        return row is not None and row.outcome is Outcome.OPEN

    def phase(self, store: int) -> StorePhase | None:
        """Where a store stands; None if it is not known."""
        row = self.stores.get(store)
        return None if row is None else row.kept.phase

    def bounds(self, row: PartitionRow) -> LogBounds:
        """Where a partition's log begins, is stable and ends."""
        first_open = next((each.first_offset for each in row.joined if self.is_open(each.instance)), None)
        return LogBounds(
            start=row.start,
            end=row.end,
            last_stable=max(last_stable_offset(row.end, first_open), row.start),
            leader_epoch=row.partition.leader_epoch,
        )

    def copy(self) -> "State":
        """Another state, to be changed."""
        return State(**{table.name: copy(getattr(self, table.name)) for table in fields(self)})

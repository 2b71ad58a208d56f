"""What can be committed: each write adds itself to the plan of a group commit."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from uuid import UUID

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan
from holdfast.agent.transactions.plan import Membership
from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused, NotEnoughReplicasAfterAppend, StorageUnavailable
from holdfast.records.batch import BatchView
from holdfast.store.footer import Change, GroupOffsetCommitted, ProducerIdsAllotted, TopicCreated


class Stored(NamedTuple):
    """What a producer is told of its batch."""

    first_offset: int
    timestamp_ms: int
    """The log append time; -1 if the producer set the time."""
    log_start: int


class Write(ABC):
    """Something to commit: it adds itself to a plan and says what to answer once the plan is durable."""

    __slots__ = ()

    goes_first: ClassVar[bool] = False
    """Whether it is planned before all that waits with it."""

    @property
    def size_bytes(self) -> int:
        """What it weighs in the queue; only batches weigh anything."""
        return 0

    @abstractmethod
    def plan(self, plan: CommitPlan) -> object:
        """The answer, valid from the moment the commit succeeds; a HoldfastError refuses this write alone."""

    def check(self, plan: CommitPlan, lost: frozenset[int]) -> None:  # noqa: B027 (most writes do not mind)
        """Called if stores failed to take the frame: a HoldfastError takes the answer's place."""


@dataclass(slots=True)
class AppendBatch(Write):
    """One validated batch for one partition, taken in by the node `leader`.

    Not frozen, though nobody changes it: one is made for every batch, and a frozen one takes thrice as long.
    """

    key: PartitionKey
    view: BatchView
    leader: int
    stamp_time: bool = False
    in_sync_min: int = 0
    """How many replicas must have it before it is acknowledged; 0 without acks=all."""
    membership: Membership | None = None
    """The transaction of a transactional batch."""

    @property
    def size_bytes(self) -> int:
        """The batch as it is stored."""
        return self.view.size_bytes

    def plan(self, plan: CommitPlan) -> Stored:
        """Where it lies in the log."""
        written = plan.append(
            self.key,
            self.view,
            leader=self.leader,
            stamp_time=self.stamp_time,
            in_sync_min=self.in_sync_min,
            membership=self.membership,
        )
        return Stored(written.first_offset, written.timestamp_ms, plan.tails[self.key].start)

    def check(self, plan: CommitPlan, lost: frozenset[int]) -> None:
        """Still on as many stores as the topic asks for?"""
        have = set(plan.stores_of(plan.tails[self.key])) - lost
        if not have:
            raise StorageUnavailable("every replica in sync failed to take the write")
        if len(have) < self.in_sync_min:
            raise NotEnoughReplicasAfterAppend(f"{len(have)} replicas took it, {self.in_sync_min} needed")


@dataclass(frozen=True, slots=True)
class CreateTopic(Write):
    """One new topic."""

    topic: TopicCreated

    def plan(self, plan: CommitPlan) -> TopicCreated:
        """The topic itself."""
        plan.topics.create(self.topic)
        return self.topic


@dataclass(frozen=True, slots=True)
class DeleteTopic(Write):
    """A topic with all that belongs to it."""

    topic_id: UUID

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.topics.delete(self.topic_id)


@dataclass(frozen=True, slots=True)
class AddPartitions(Write):
    """More partitions for a topic that has `first` of them."""

    topic_id: UUID
    first: int
    replicas: list[list[int]]

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.topics.add_partitions(self.topic_id, self.first, self.replicas)


@dataclass(frozen=True, slots=True)
class ConfigureTopic(Write):
    """New configs, made by `update` of those that the topic has when it is planned: no other change is lost."""

    topic_id: UUID
    update: Callable[[Mapping[str, str]], dict[str, str]]

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.topics.configure(self.topic_id, self.update)


@dataclass(frozen=True, slots=True)
class MoveLogStart(Write):
    """Let a log begin at an offset, or at its end; it never moves back."""

    key: PartitionKey
    offset: int | None

    def plan(self, plan: CommitPlan) -> int:
        """Where the log begins."""
        return plan.move_log_start(self.key, self.offset)


@dataclass(frozen=True, slots=True)
class CommitGroupOffsets(Write):
    """Positions of a group, committed together."""

    offsets: Sequence[GroupOffsetCommitted]

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        for offset in self.offsets:
            plan.topics.get(offset.topic_id)
        plan.changes.extend(self.offsets)


@dataclass(frozen=True, slots=True)
class AllotProducerIds(Write):
    """Take producer ids below `next_id`."""

    next_id: int

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.changes.append(ProducerIdsAllotted(self.next_id))


@dataclass(frozen=True, slots=True)
class MoveLeader(Write):
    """Let another replica lead a partition.

    It goes first: behind a batch of its partition it would be refused, and under load one is always there. What
    was sent to the old leader is refused instead, and clients send that again to the new one.
    """

    goes_first = True

    key: PartitionKey
    leader: int

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.move_leader(self.key, self.leader)


@dataclass(frozen=True, slots=True)
class Knock(Write):
    """A frame, be there something to say or not: a store that cannot take it is found out, and leaves."""

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.is_wanted = True


@dataclass(frozen=True, slots=True)
class Upkeep(Write):
    """Something that was done to a store, or is to be said of one; CommitRefused if it does not fit (any more)."""

    change: Change
    plane: ControlPlane

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        self.plane.rehearse([*plan.placements, *plan.upkeep, self.change])
        plan.upkeep.append(self.change)


@dataclass(frozen=True, slots=True)
class UpkeepOfMany(Write):
    """Several of them in one frame; one that does not fit is left out."""

    changes: Sequence[Change]
    plane: ControlPlane

    def plan(self, plan: CommitPlan) -> list[CommitRefused | None]:
        """For each, why it does not fit; None if it does."""
        said = [*plan.placements, *plan.upkeep]
        refused: list[CommitRefused | None] = [None] * len(self.changes)
        try:
            self.plane.rehearse([*said, *self.changes])
        except CommitRefused:
            refused = self._find_refused(said)
        pairs = zip(self.changes, refused, strict=True)
        plan.upkeep += [change for change, refusal in pairs if refusal is None]
        return refused

    def _find_refused(self, said: list[Change]) -> list[CommitRefused | None]:
        """Each with all that fit before it: a rehearsal takes all or nothing."""
        refused: list[CommitRefused | None] = []
        for change in self.changes:
            try:
                self.plane.rehearse([*said, change])
            except CommitRefused as refusal:
                refused.append(refusal)
            else:
                refused.append(None)
                said.append(change)
        return refused

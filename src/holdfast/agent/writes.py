"""What can be committed: each write adds itself to the plan of a group commit."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.agent.plan import CommitPlan, PartitionKey
from holdfast.records.batch import BatchView
from holdfast.rules.producer import WrittenBatch
from holdfast.store.footer import GroupOffsetCommitted, ProducerIdsAllotted, TopicCreated


@dataclass(frozen=True, slots=True)
class AppendBatch:
    """One validated batch for one partition."""

    key: PartitionKey
    view: BatchView
    stamp_time: bool

    @property
    def size_bytes(self) -> int:
        """The batch as it is stored."""
        return self.view.size_bytes

    def plan(self, plan: CommitPlan) -> WrittenBatch:
        """Where it lies in the log."""
        return plan.append(self.key, self.view, stamp_time=self.stamp_time)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """One new topic."""

    topic: TopicCreated

    @property
    def size_bytes(self) -> int:
        """Small."""
        return 0

    def plan(self, plan: CommitPlan) -> TopicCreated:
        """The topic itself."""
        plan.create_topic(self.topic)
        return self.topic


@dataclass(frozen=True, slots=True)
class CommitGroupOffsets:
    """Positions of a group, committed together."""

    offsets: Sequence[GroupOffsetCommitted]

    @property
    def size_bytes(self) -> int:
        """Small."""
        return 0

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.changes.extend(self.offsets)


@dataclass(frozen=True, slots=True)
class AllotProducerIds:
    """Take producer ids below `next_id`."""

    next_id: int

    @property
    def size_bytes(self) -> int:
        """Small."""
        return 0

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.changes.append(ProducerIdsAllotted(self.next_id))

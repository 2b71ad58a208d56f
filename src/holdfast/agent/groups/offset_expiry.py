"""Expiry of committed positions as Kafka has it since KIP-211: which may go, and the write that lets them go."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan
from holdfast.agent.writes import Write
from holdfast.control.plane import GroupOffset
from holdfast.store.footer import (
    GroupDeleted,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupOffsetStaged,
)

Reads = Callable[[str], bool]
"""Whether a group reads a topic, for all that is known."""


def find_expired(offsets: Iterable[GroupOffset], *, before_ms: int, reads: Reads) -> frozenset[PartitionKey]:
    """Positions that were committed at the time or before, in topics that nobody in the group reads."""
    return frozenset(
        PartitionKey(offset.topic_id, offset.partition)
        for offset in offsets
        if offset.committed_ms <= before_ms and not reads(offset.topic)
    )


@dataclass(frozen=True, slots=True)
class ExpireOffsets(Write):
    """Forget these positions of a group, but for those that were committed anew since they were chosen.

    With `forgets_group` the group goes too if no position is left. `find_offsets` and `find_staged` tell what is
    there when the write is planned: whatever was submitted before it counts.
    """

    group: str
    places: frozenset[PartitionKey]
    before_ms: int
    forgets_group: bool
    find_offsets: Callable[[str], Sequence[GroupOffset]]
    find_staged: Callable[[str], set[tuple[UUID, int]]]

    def plan(self, plan: CommitPlan) -> bool:
        """Whether the group is forgotten."""
        held = self._held(plan)
        present = self.find_offsets(self.group)
        old = find_expired(present, before_ms=self.before_ms, reads=lambda topic: False)
        expired = sorted(place for place in old & self.places if place not in held)
        if self.forgets_group and len(expired) == len(present) and not held:
            plan.changes.append(GroupDeleted(self.group))
            return True
        plan.changes.extend(GroupOffsetDeleted(self.group, *place) for place in expired)
        return False

    def _held(self, plan: CommitPlan) -> set[PartitionKey]:
        """What stays whatever its age: positions of this very frame, and those that a transaction has staged."""
        staged = {PartitionKey(*place) for place in self.find_staged(self.group)}
        return staged | {
            PartitionKey(change.topic_id, change.partition)
            for change in plan.changes
            if isinstance(change, GroupOffsetCommitted | GroupOffsetStaged) and change.group == self.group
        }

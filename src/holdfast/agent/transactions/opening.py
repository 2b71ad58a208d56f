"""What a coordinator remembers of a transaction under way, and may forget: nothing here is durable."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.agent.partition_key import PartitionKey
from holdfast.errors import PolicyViolation

GROUPS_MAX = 1000
"""Groups whose positions one transaction may stage by announcing them; a client has one or a few."""


@dataclass(slots=True, kw_only=True)
class Opening:
    """A transaction that a producer has announced or begun, in one turn of its transactional id."""

    turn: int
    timeout_ms: int
    since_ms: int
    """On the coordinator's clock, which the timeout is measured by."""
    started_ms: int
    """On the wall clock, for people to see."""
    session: int = 0
    """The newest connection that announced something for it: an older one cannot end it (TV1)."""
    is_announced: bool = False
    is_begun: bool = False
    """Whether something of it is durable."""
    is_ending: bool = False
    partitions: set[PartitionKey] = field(default_factory=set)
    """No more than there are: only those that exist are taken in."""
    groups: set[str] = field(default_factory=set)

    def announce(self, partitions: Iterable[PartitionKey], groups: Iterable[str]) -> None:
        """Take them in; PolicyViolation, and none of them is, if there are too many groups."""
        all_groups = self.groups.union(groups)
        if len(all_groups) > GROUPS_MAX:
            raise PolicyViolation(f"a transaction stages positions of {GROUPS_MAX} groups at most")
        self.is_announced = True
        self.partitions.update(partitions)
        self.groups = all_groups

"""What a coordinator remembers of a transaction under way, and may forget: nothing here is durable."""

from dataclasses import dataclass, field

from holdfast.agent.partition_key import PartitionKey


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
    groups: set[str] = field(default_factory=set)

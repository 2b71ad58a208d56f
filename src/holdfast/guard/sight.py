"""What a guard sees of a cluster at one look: the views of all brokers that answer, taken together.

Each broker knows the cluster by its own copy of the metadata, and one that is cut off from the controller has an old
one. So a replica is in sync only where every broker says so, and a setting is in effect on a broker when that one says
so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.guard.lever import Lags


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPartition:
    """Who holds a partition and who is in sync."""

    replicas: frozenset[int]
    in_sync: frozenset[int]
    leader: int
    leader_epoch: int
    """The highest that any broker knows, and who leads by it."""

    @property
    def out(self) -> frozenset[int]:
        """Replicas that are assigned and not in sync."""
        return self.replicas - self.in_sync


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTopic:
    """One compacted topic, or one that was when it was paused."""

    name: str
    topic_id: str
    retention_ms: int
    """Its delete.retention.ms: how long a delete or an outcome stays at least."""
    partitions: Mapping[int, SeenPartition]
    lags: Mapping[int, Lags] = field(default_factory=dict)
    """By broker: what is in effect there. Of topics that are held or have a replica out every broker is asked."""
    ends: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """By partition and replica: the end of its log. Asked for when nobody is out any more."""
    size_bytes: int | None = None
    """Of all its replicas, if brokers tell."""

    @property
    def out(self) -> list[tuple[int, int]]:
        """Partition and replica of all that are out of sync."""
        return sorted((number, node) for number, each in self.partitions.items() for node in each.out)

    @property
    def hosts(self) -> frozenset[int]:
        """The brokers that hold some of it."""
        return frozenset(node for each in self.partitions.values() for node in each.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a doctor says of a partition that it was asked to examine."""

    topic: str
    partition: int
    asked_ms: int
    against: str | None
    """None if all replicas were compared and none differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the cluster."""

    began_ms: int
    at_ms: int
    """When it was over: what was seen in sync was so when it began, what was acknowledged was so when it was over."""
    brokers: frozenset[int]
    """Those that anybody takes for alive."""
    topics: Mapping[str, SeenTopic]
    unseen: frozenset[str] = frozenset()
    """Topics that are there, but could not be looked at now."""
    verdicts: tuple[Verdict, ...] = ()

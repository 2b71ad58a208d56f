"""What a watcher sees of a pipeline at one moment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that holds readers of a partition back."""

    producer_id: int
    transactional_id: str | None
    opened_ms: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """How far a group is in a partition that it forwards."""

    group: str
    topic: str
    partition: int
    step: int = 0
    """How many groups have forwarded its messages before."""
    log_start: int
    stable_end: int
    """The last stable offset: more than that no group can have."""
    log_end: int
    committed: int | None
    """None for a group that has no position there, or is gone."""
    oldest_ms: int | None = None
    """The time of the first record that is not forwarded."""
    tenants: tuple[str, ...] = ()
    """Whose messages the first are that are not forwarded."""
    retention_ms: int | None = None
    """None where nothing expires."""
    transaction: OpenTransaction | None = None
    """The oldest, if the partition has an undecided one."""

    @property
    def waiting(self) -> int:
        """Offsets that could be forwarded."""
        return max(0, self.stable_end - max(self.committed or 0, self.log_start))


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A record that was sent to see whether it arrives."""

    topic: str
    partition: int
    offset: int
    sent_ms: int
    seen_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A sealed window whose books do not balance."""

    tenant: str
    window_ms: int
    ingested: int
    ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a tenant's day has cost so far, in messages."""

    tenant: str
    expected: int
    """Messages of a whole day."""
    failed: int
    share_of_waiting: float = 1.0
    """How much of what waits to be forwarded is this tenant's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that was seen."""

    now_ms: int
    forwardings: tuple[Forwarding, ...] = ()
    canaries: tuple[Canary, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    spendings: tuple[Spending, ...] = ()
    silent: str = ""
    """Whoever has told of itself longest ago."""
    progressed_ms: int | None = None
    """When every part of the pipeline had last told of itself; None if that cannot be seen."""

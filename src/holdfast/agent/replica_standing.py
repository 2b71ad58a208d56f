"""How stores, replicas and partitions stand to each other at one moment: the words in which that is told."""

from dataclasses import dataclass

from holdfast.control.replicas import StorePhase
from holdfast.keeper.blockers import Reason
from holdfast.rules.blockers import Track
from holdfast.rules.removal import Unreported


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStanding:
    """A store, and for how long it has been in its phase, as far as this process knows."""

    store: int
    phase: StorePhase
    incarnation: int
    lease: int
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStanding:
    """A replica. None where its store is fenced: then it counts for nothing."""

    store: int
    phase: StorePhase
    held_to: int | None = None
    settled_to: int | None = None
    mxfo: int | Unreported | None = None
    mcco: int | Unreported | None = None
    joined_from: int | None = None
    generation: int | None = None
    segments: int = 0
    unsettled_bytes: int = 0
    """What lies in journals and carried files, above the segments."""
    waiting_tombstone_bytes: int = 0
    """See `keeper.blockers.waiting_tombstone_bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingTransaction:
    """The transaction that the last stable offset waits for; `transactional_id` None: it has just ended."""

    transactional_id: str | None
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why a track stands, and for how long at least."""

    track: Track
    reason: Reason
    store: int | None
    at: int | Unreported
    for_ms: int
    remaining_ms: int | None = None
    dirty_bytes: int | None = None
    clean_bytes: int | None = None
    transaction: BlockingTransaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCoordination:
    """One partition and its replicas."""

    topic: str
    partition: int
    compacted: bool
    lineage: int
    membership: int
    log_start: int
    last_stable: int
    log_end: int
    mtro: int
    mxro: int
    replicas: list[ReplicaStanding]
    waiting: list[Waiting]

    @property
    def waiting_bytes(self) -> dict[Track, int]:
        """By track, on all replicas together: tombstones that others hold back, and what is not settled."""
        return {
            Track.TOMBSTONES: sum(replica.waiting_tombstone_bytes for replica in self.replicas),
            Track.OUTCOMES: sum(replica.unsettled_bytes for replica in self.replicas),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """All that was asked for; `omitted` partitions are left out to keep the answer short."""

    stores: list[StoreStanding]
    partitions: list[PartitionCoordination]
    omitted: int

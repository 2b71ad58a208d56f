"""What is known of stores and of the replicas on them: the words that the control plane speaks of them in."""

from dataclasses import dataclass
from enum import Enum

from holdfast.errors import ReadingRefused
from holdfast.records.batch import NO_TIMESTAMP
from holdfast.rules.grace import Coverage
from holdfast.rules.removal import Cleaned, Removable
from holdfast.store.store import Checkpoint


class StorePhase(Enum):
    """Where a store stands.

    A store that fails is LOST at once and AWAY as soon as a frame says so; nothing but that frame may come between
    the two, so that the frames alone tell the same story.
    """

    IN_SYNC = "in sync"
    LOST = "lost"
    AWAY = "away"
    JOINING = "joining"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """A store: its life, the lease that its keeper publishes under, and the last frame applied that lies on it."""

    store: int
    incarnation: int
    lease: int
    phase: StorePhase
    checkpoint: Checkpoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The permission that a rewrite was made under."""

    lineage: int
    mtro: int
    mxro: int
    tombstones_end: int
    """Tombstones below it were allowed to go: their grace was over when the rewrite was planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A file on one store with what is left of the offsets [first, end) of a partition."""

    first: int
    end: int
    file: str
    """Its path below the store's folder of segments."""
    length_bytes: int
    max_timestamp: int
    records: int
    first_tombstone: int
    """The lowest offset of a tombstone in it; -1 if there is none."""
    crc: int
    """CRC-32C of the file."""
    grant: Grant
    first_timestamp: int = NO_TIMESTAMP
    """The time of its first record; NO_TIMESTAMP if that was not written down, or has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaManifest:
    """One replica of one partition."""

    store: int
    incarnation: int
    generation: int
    settled_to: int
    """Its segments end here; extents in journals and carried files follow."""
    held_to: int
    """It holds every byte below; the log end for one in sync."""
    joined_from: int | None
    """A joining replica has everything from here on too; None for any other."""
    cleaned: Cleaned
    clean_coverage: Coverage
    """Since when MCCO covers what, on the grace clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRemoval:
    """All that coordination knows of one partition."""

    lineage: int
    membership: int
    removable: Removable
    coverage: Coverage
    """Since when MTRO covers what, on the grace clock."""
    trimmed_to: int
    """Extents below may be gone: every replica that was a member then has settled them."""
    replicas: tuple[ReplicaManifest, ...]
    """The members: every replica whose store is not fenced, by store."""


def check_extents_left(extents_left: int) -> None:
    """ReadingRefused if a reading of whole logs has come to more extents than it may have."""
    if extents_left < 0:
        raise ReadingRefused(
            "too much is not settled yet to be read at once: run `holdfast keeper run --once`"
        )

"""What a footer says of stores and their replicas: who is here, what was copied, settled and compacted.

Like all changes they are literal: what they do follows from the frames alone, whichever stores they are read from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from holdfast.records.batch import NO_TIMESTAMP

NOT_LIFTED = -1
"""In place of an offset up to which a replica is clean: it says nothing new."""
NO_TIME = -1
"""In place of a time on the grace clock: the grace begins with the next report."""


@dataclass(frozen=True, slots=True)
class KeeperLeased:
    """From here on only the keeper that holds this lease publishes for the store; one more than before."""

    kind: ClassVar[str] = "keeper-leased"
    store: int
    lease: int


class AddedSegment(NamedTuple):
    """A segment of the offsets [first, end); see `control.replicas.Segment`."""

    first: int
    end: int
    file: str
    length_bytes: int
    max_timestamp: int
    records: int
    first_tombstone: int
    crc: int
    first_timestamp: int = NO_TIMESTAMP


class Granted(NamedTuple):
    """The permission that segments were made under."""

    mtro: int
    mxro: int
    tombstones_end: int


@dataclass(frozen=True, slots=True)
class SegmentsPublished:
    """A replica's manifest of the next generation: files `removed` give way to `added` ones.

    `mcco` and `mxfo` say how far it is clean now (NOT_LIFTED: as before), `at_ms` when that is, on the grace clock.
    """

    kind: ClassVar[str] = "segments"
    topic_id: UUID
    partition: int
    store: int
    incarnation: int
    lease: int
    generation: int
    lineage: int
    removed: tuple[str, ...]
    added: tuple[AddedSegment, ...]
    grant: Granted
    mcco: int
    mxfo: int
    at_ms: int


class CarriedExtent(NamedTuple):
    """The extent that ends at offset `last` lies at `position` of a carried file."""

    topic_id: UUID
    partition: int
    last: int
    position: int


@dataclass(frozen=True, slots=True)
class ExtentsCarried:
    """Extents lie in this carried file of the store from here on, wherever they lay before."""

    kind: ClassVar[str] = "carried"
    store: int
    incarnation: int
    lease: int
    file: int
    extents: tuple[CarriedExtent, ...]


@dataclass(frozen=True, slots=True)
class StoreJoining:
    """A store that was away is back, and is given every frame after this one; what it missed is copied."""

    kind: ClassVar[str] = "store-joining"
    store: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class StoreJoined:
    """A store, and every replica on it, has all of its partitions: it is in sync."""

    kind: ClassVar[str] = "store-joined"
    store: int


class HeldTo(NamedTuple):
    """A store holds every byte of the partition below the offset."""

    topic_id: UUID
    partition: int
    held_to: int


@dataclass(frozen=True, slots=True)
class StoreLeft:
    """A store failed and is no longer in sync: it misses the frame before this one, or later ones.

    `held` names the partitions of which it lacks something, and what it holds; None in footers from before
    there were replicas that come back.
    """

    kind: ClassVar[str] = "store-left"
    store: int
    held: tuple[HeldTo, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoreFenced:
    """A store counts no longer: what it has not done holds nobody back. It can only come back rebuilt."""

    kind: ClassVar[str] = "store-fenced"
    store: int
    at_ms: int = NO_TIME


@dataclass(frozen=True, slots=True)
class StoreRebuilt:
    """A store begins its next life, empty: a member at once, that is given every frame after this one."""

    kind: ClassVar[str] = "store-rebuilt"
    store: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class StoreAdded:
    """A new store, which no partition lies on yet; nothing happens if it is known."""

    kind: ClassVar[str] = "store-added"
    store: int


@dataclass(frozen=True, slots=True)
class ReplicasAssigned:
    """These stores hold a partition from here on, the preferred leader first; new ones join, others go.

    Of a reassignment that is under way, `adding` names those that it brings, `removing` those that go when it ends.
    """

    kind: ClassVar[str] = "replicas"
    topic_id: UUID
    partition: int
    replicas: tuple[int, ...]
    at_ms: int = NO_TIME
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


StoreChange = StoreJoining | StoreJoined | StoreFenced | StoreRebuilt | StoreAdded | ReplicasAssigned
"""Those after which frames go to other stores, or count on others."""

ReplicaChange = (
    KeeperLeased
    | SegmentsPublished
    | ExtentsCarried
    | StoreJoining
    | StoreJoined
    | StoreLeft
    | StoreFenced
    | StoreRebuilt
    | StoreAdded
    | ReplicasAssigned
)


def _carried(row: list[Any]) -> CarriedExtent:
    return CarriedExtent(UUID(str(row[0])), *row[1:])


def _held(rows: list[list[Any]] | None) -> tuple[HeldTo, ...] | None:
    return None if rows is None else tuple(HeldTo(UUID(str(row[0])), *row[1:]) for row in rows)


READERS: dict[tuple[type[Any], str], Callable[[Any], object]] = {
    (SegmentsPublished, "removed"): tuple,
    (SegmentsPublished, "added"): lambda rows: tuple(AddedSegment(*row) for row in rows),
    (SegmentsPublished, "grant"): lambda row: Granted(*row),
    (ExtentsCarried, "extents"): lambda rows: tuple(map(_carried, rows)),
    (StoreLeft, "held"): _held,
    (ReplicasAssigned, "replicas"): tuple,
    (ReplicasAssigned, "adding"): tuple,
    (ReplicasAssigned, "removing"): tuple,
}
"""How fields of a footer are read that are more than JSON has."""

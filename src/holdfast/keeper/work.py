"""Work items and their results: what travels to a task and back. Names of files and numbers, never records."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole batches of offsets [first, end) that lie in one file, one after the other."""

    path: str
    position: int
    length_bytes: int
    first: int
    end: int
    is_clean: bool
    """Whether it lies below the replica's MCCO: then it holds no key twice, and need not be indexed."""
    index: str | None = None
    """The sparse index, if it is a whole segment."""
    file: str | None = None
    """The name of a segment that the rewrite stands for; None for what lies in a journal, or on a peer."""
    crc: int | None = None
    """CRC-32C of a whole segment: it covers what the CRCs of its batches leave out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One rewrite of the offsets [first, end) of one partition on one store."""

    store: int
    topic_id: str
    partition: int
    lease: int
    directory: str
    """The store's own."""
    pieces: tuple[Piece, ...]
    """In the order of offsets; what was aborted is left out."""
    first: int
    end: int
    compacts: bool
    """Whether each key keeps its newest record only; otherwise everything from `first` on is kept."""
    surveys: bool
    """Whether to note where tombstones are: somebody will ask, if the topic is compacted."""
    log_start: int
    """Records below it are gone already."""
    tombstones_end: int
    """Tombstones below it go: see `rules.survival.forgettable`."""
    segment_bytes_max: int
    map_bytes_max: int

    @property
    def size_bytes(self) -> int:
        """What there is to read."""
        return sum(piece.length_bytes for piece in self.pieces)

    def encode(self) -> str:
        """As a task is given it."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> "WorkItem":
        """What `encode` wrote."""
        fields = json.loads(text)
        return cls(**fields | {"pieces": tuple(Piece(**piece) for piece in fields["pieces"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSegment:
    """A segment that a task has written and made durable; nobody sees it before it is published."""

    first: int
    end: int
    file: str
    length_bytes: int
    max_timestamp: int
    records: int
    first_tombstone: int
    crc: int
    first_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """What a task has made of its item."""

    added: tuple[NewSegment, ...]
    removed: tuple[str, ...]
    """Segments that the new ones stand for."""
    counts: Mapping[str, int]
    """What was read, kept and dropped."""

    def encode(self) -> str:
        """As a task returns it."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> "Rewrite":
        """What `encode` wrote."""
        fields: dict[str, Any] = json.loads(text)
        return cls(
            added=tuple(NewSegment(**segment) for segment in fields["added"]),
            removed=tuple(fields["removed"]),
            counts=fields["counts"],
        )

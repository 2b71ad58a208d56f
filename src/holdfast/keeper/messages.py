"""What a keeper and an agent tell each other, as JSON: typed at both ends, the same in process and over HTTP."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec

from holdfast.control.replicas import StorePhase
from holdfast.keeper.catch_up import CarriedPiece
from holdfast.keeper.plan import ReplicaView
from holdfast.keeper.work import NewSegment

Message = TypeVar("Message")

PUBLICATIONS_MAX = 16
"""In one frame: if one is refused, each is tried with all before it."""

Key = tuple[str, int]
"""Topic id in hex, and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """A store as a keeper finds it."""

    store: int
    directory: str
    phase: StorePhase
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """All stores, in order."""

    stores: list[StoreInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesWanted:
    """`holder` asks for stores, goes on holding them, or lets them go."""

    stores: list[int]
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """The right to rewrite each store, in the order asked for: a later lease ends it. None: not now."""

    leases: list[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewsWanted:
    """The replicas of a store that may have something due, after the one named."""

    store: int
    after: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Some of them, and where to go on; None after the last."""

    views: list[ReplicaView]
    next: Key | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A rewrite that is done: see the change `segments` in docs/formats.md."""

    topic_id: str
    partition: int
    store: int
    incarnation: int
    lease: int
    generation: int
    lineage: int
    removed: list[str]
    added: list[NewSegment]
    grant: list[int]
    mcco: int
    mxfo: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publications:
    """Rewrites that are done, of different replicas: they take effect in one frame, or are refused, each on its own."""

    publications: Annotated[list[Publication], msgspec.Meta(max_length=PUBLICATIONS_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllPublished:
    """What became of each, in the order given; None: it was taken."""

    refused: list[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedPublication:
    """Extents that lie in a carried file now: see the change `carried` in docs/formats.md."""

    store: int
    incarnation: int
    lease: int
    file: int
    extents: list[tuple[str, int, int, int]]
    """(topic id, partition, last offset, position) of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesWanted:
    """What there is to collect on a store, under a lease; without one the answer is a hint, and may be a bit old."""

    store: int
    lease: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentsWanted:
    """The extents in use in a store's journals below one, as many as are carried at once."""

    store: int
    below: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """Where they lie, in the order of offsets within each partition."""

    pieces: list[CarriedPiece]


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """Space that was given back."""

    freed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreNamed:
    """A question about one store."""

    store: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What became of a publication; `refused` says why it was not taken."""

    refused: str | None


def plain(message: object) -> Any:
    """As a JSON document."""
    return msgspec.to_builtins(message)


def convert(document: Any, kind: type[Message]) -> Message:
    """What `plain` made a document of; msgspec.ValidationError if it is none of its kind."""
    return msgspec.convert(document, kind, strict=False)

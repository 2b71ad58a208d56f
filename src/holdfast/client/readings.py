"""Readings: what a log is made of at one moment, file by file, and the promise that the files stay.

Whoever runs beside the stores reads them without passing through an agent. It asks the admin service for a reading, and
gets the pieces of every partition on the replicas that it asked for, all as of one moment in the control plane.
Segments, journals and carried files never change, so what is read of them later is the log as of that moment,
whatever producers, transactions and compaction do meanwhile.
"""

import base64
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast.client.admin import post_json
from holdfast.errors import AdminRefused, ReadingOver

PATH = "/readings"
HELD_SECONDS_DEFAULT = 600.0
HELD_SECONDS_MAX = 86_400.0

Message = TypeVar("Message")

_TAIL = struct.Struct(">QQQQQ")


class TailPiece(NamedTuple):
    """Offsets that lie in a journal or a carried file of that number."""

    first: int
    end: int
    journal: int
    position: int
    length_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPiece:
    """A whole segment."""

    first: int
    end: int
    file: str
    length_bytes: int
    records: int
    crc: int
    tombstones_end: int
    """Tombstones below it were allowed to go when it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPieces:
    """One replica of one partition: its segments, then what follows on them."""

    store: int
    incarnation: int
    directory: str
    segments: list[SegmentPiece]
    packed_tail: str
    """See `pack_tail`: there may be hundreds of thousands."""

    @property
    def tail(self) -> Iterator[TailPiece]:
        """In the order of offsets; the first may begin before the last segment ends."""
        return map(TailPiece._make, _TAIL.iter_unpack(base64.b64decode(self.packed_tail)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReading:
    """One partition: where it begins and ends for its reader, and its pieces on each replica that was asked for."""

    topic: str
    partition: int
    start: int
    end: int
    """The last stable offset for who reads what is committed, else the log end."""
    is_compacted: bool
    """Whether each key's newest record counts, and not each record."""
    replicas: list[ReplicaPieces]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExamined:
    """A replica that cannot be read now, and why."""

    topic: str
    partition: int
    store: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that was asked for, as of one moment, and for how long its files stay."""

    name: str
    cluster_id: str
    seconds: float
    partitions: list[PartitionReading]
    not_examined: list[NotExamined] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingWanted:
    """Topics by name; `store` None: any replica, or with `all_replicas` every one that can be read."""

    topics: list[str]
    store: int | None = None
    all_replicas: bool = False
    committed_only: bool = True
    seconds: float = HELD_SECONDS_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingNamed:
    """One that is under way."""

    name: str
    seconds: float = HELD_SECONDS_DEFAULT


def pack_tail(pieces: Iterable[TailPiece]) -> str:
    """Many pieces in few bytes of JSON."""
    return base64.b64encode(b"".join(_TAIL.pack(*piece) for piece in pieces)).decode()


def take_reading(address: str, wanted: ReadingWanted) -> Reading:
    """What there is to read now; AdminRefused with the reason if it cannot be had."""
    return convert(post_json(address, PATH, {"action": "take", **plain(wanted)}), Reading)


def renew_reading(address: str, name: str, seconds: float) -> None:
    """Have its files held for so long from now on; ReadingOver if they are held no longer."""
    try:
        post_json(address, PATH, {"action": "renew", "name": name, "seconds": seconds})
    except AdminRefused as refusal:
        raise ReadingOver(str(refusal)) from None


def release_reading(address: str, name: str) -> None:
    """Its files may go."""
    post_json(address, PATH, {"action": "release", "name": name})


def save_reading(path: Path, reading: Reading) -> None:
    """For other processes of the same machine."""
    path.write_bytes(msgspec.json.encode(reading))


def load_reading(path: Path) -> Reading:
    """What `save_reading` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Reading)


def plain(message: object) -> Any:
    """As a JSON document."""
    return msgspec.to_builtins(message)


def convert(document: Any, kind: type[Message]) -> Message:
    """What `plain` made a document of; msgspec.ValidationError if it is none of its kind."""
    return msgspec.convert(document, kind, strict=False)

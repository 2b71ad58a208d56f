"""What tasks are given to do, and what they answer: a whole item, or one part of a hot one.

A hot item goes through two phases (threads of one task: see `threaded`). In the first each takes some of the *keys*,
looks at all records, and writes down which of its own go: marks. In the second each takes some of the *offsets*, reads
everybody's marks for them, and copies what is left. What travels are names of files and numbers; what tasks write bears
names of their own, so that a task may run twice, also at the same time.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.keeper.work import Rewrite, WorkItem


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteJob:
    """All of an item, by so many threads of one task."""

    item: WorkItem
    threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkJob:
    """Find which records go among those with a key of `part` of `parts`; part 0 also finds what goes anyhow."""

    item: WorkItem
    part: int
    parts: int
    bounds: tuple[int, ...]
    """The pieces with which stretches begin that are copied by different tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionMarks:
    """The marks of one section: so many bits, in so many bytes that have this CRC-32C."""

    records: int
    dead: int
    """How many of the bits are set."""
    crc: int

    @property
    def size_bytes(self) -> int:
        """As they lie in the file."""
        return (self.records + 7) // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a MarkJob has found: a file of marks, and what is in it, section by section, from `position` on."""

    file: str
    position: int
    sections: tuple[SectionMarks, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob:
    """Copy what is left of an item that is a stretch of a hot one."""

    item: WorkItem
    rewritten: tuple[bool, ...]
    """For each piece, whether its bytes are written anew."""
    marks: tuple[Marks, ...]
    """Those of all parts, for the sections of this item; none if it does not compact."""


Job = RewriteJob | MarkJob | CopyJob
Answer = Rewrite | Marks

KINDS: Final[dict[str, Any]] = {
    kind.__name__: kind for kind in (RewriteJob, MarkJob, CopyJob, Rewrite, Marks)
}


def encode(what: Job | Answer) -> bytes:
    """As it travels: lists of pieces, of which each repeats most of the one before, are a tenth as long compressed."""
    return zlib.compress(msgspec.json.encode([type(what).__name__, what]), zlib.Z_BEST_SPEED)


def decode_job(data: bytes) -> Job:
    """What `encode` wrote of a job."""
    found = _decode(data)
    assert isinstance(found, Job), found
    return found


def decode_answer(data: bytes) -> Answer:
    """What `encode` wrote of an answer."""
    found = _decode(data)
    assert isinstance(found, Answer), found
    return found


def _decode(data: bytes) -> Job | Answer:
    kind, body = msgspec.json.decode(zlib.decompress(data), type=tuple[str, msgspec.Raw])
    decoded: Job | Answer = msgspec.json.decode(body, type=KINDS[kind])
    return decoded

"""What a store offers: durable appends of frames, and reads of what was appended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.store.journal import Buffer

CARRIED = 1 << 62
"""Files of carried batches have the numbers from here on: what a place calls a journal may be one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where bytes lie in a store: a journal, named by its first frame, and a position in that file."""

    journal: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Frames up to and including `frame` are applied; the next one begins at `end` or a new journal."""

    frame: int
    end: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFrame:
    """A whole frame as a store holds it."""

    store: int
    number: int
    body: Place
    footer: bytes
    end: Place

    @property
    def checkpoint(self) -> Checkpoint:
        """The state of affairs once this frame is applied."""
        return Checkpoint(frame=self.number, end=self.end)


class Store(Protocol):
    """One replica's bytes. One thread at a time appends or replays; any thread reads."""

    @property
    def number(self) -> int:
        """The store's number in its cluster."""
        ...

    def append(self, number: int, body: Sequence[Buffer], footer: bytes) -> StoredFrame:
        """Write one frame and return when it is durable.

        On StoreFailed the frame may or may not turn up in a later `replay`, unless another append has
        succeeded since: a later frame of the same number makes it void.
        """
        ...

    def replay(self, after: Checkpoint | None) -> Iterator[StoredFrame]:
        """All whole frames after the checkpoint in order, or from the very first.

        Cuts a torn tail off. StoreFailed if the checkpoint's frames, or frames in the middle, are damaged.
        """
        ...

    def read(self, place: Place, length: int) -> bytes:
        """Exactly `length` bytes at `place`; StoreFailed if they are not there."""
        ...

    def begin_anew(self) -> None:
        """Give the tail up after an append of which nobody knows how it ended: the next frame voids it."""
        ...

    def close(self) -> None:
        """Let go of all files."""
        ...

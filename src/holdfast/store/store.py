"""What a store offers: durable appends of frames, and reads of what was appended."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.store.journal import Buffer
from holdfast.store.segment_index import SegmentIndex

CARRIED = 1 << 62
"""Files of carried batches have the numbers from here on: what a place calls a journal may be one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where bytes lie in a store: a journal, named by its first frame, and a position in that file.

    From CARRIED on the number is a carried file's.
    """

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
    """One replica's bytes. One thread at a time appends, replays or truncates; any thread does the rest.

    A read of a file that is not there is StoreFailed with its path. Who reads while a file is deleted may go on.
    Segments and carried files are written by the keeper, with `SegmentWriter` and `CarriedWriter`.
    """

    @property
    def number(self) -> int:
        """The store's number in its cluster."""
        ...

    @property
    def incarnation(self) -> int:
        """Which life of the store this is: one more each time that it was emptied and rebuilt."""
        ...

    def append(self, number: int, body: Sequence[Buffer], footer: bytes) -> StoredFrame:
        """Write one frame and return when it is durable.

        On StoreFailed the frame may or may not turn up in a later `replay`, unless another append has
        succeeded since: a later frame of the same number makes it void. A number that does not follow the last one
        is that of a store that was away: the frames in between are not on it.
        """
        ...

    def replay(self, after: Checkpoint | None, *, first: int | None = None) -> Iterator[StoredFrame]:
        """All whole frames after the checkpoint in order, or from frame 1 on.

        With `first`, only those from that number on, or from the next one on that there is: a store that was away,
        or that is new, has a gap before. Cuts a torn tail off. StoreFailed if the checkpoint's frames, or
        frames in the middle, are damaged or missing.
        """
        ...

    def read(self, place: Place, length: int) -> bytes:
        """Exactly `length` bytes at `place`; StoreFailed if they are not there."""
        ...

    def begin_anew(self) -> None:
        """Give the tail up after an append of which nobody knows how it ended: the next frame voids it."""
        ...

    def roll(self) -> None:
        """Have the next frame begin a new journal, so that the present one can go some day. Any thread may ask."""
        ...

    def truncate_to(self, checkpoint: Checkpoint | None) -> None:
        """Cut off every frame after the checkpoint, or all of them; the next append begins a new journal.

        For a store that comes back: it may hold frames that nobody recorded, and what the control plane says is the
        truth. StoreFailed if it lacks what the checkpoint says that it has. Interrupted, it can be done again.
        """
        ...

    def list_journals(self) -> list[int]:
        """The journals on disk by their first frames, in order."""
        ...

    def delete_journals(self, below: int) -> int:
        """Delete whole journals whose every frame has a number below this one, and return the bytes freed.

        The caller answers for the extents in them, the store for the footers: what the control plane would be made
        anew from stays (`Snapshots.needed_from`), and so does the last journal. For a store that is in sync.
        """
        ...

    def list_carried(self) -> list[int]:
        """The carried files on disk by their numbers, in order, also those that were never finished."""
        ...

    def delete_carried(self, numbers: Iterable[int]) -> int:
        """Delete carried files, those that are there, and return the bytes freed."""
        ...

    def list_files(self) -> set[str]:
        """The segments on disk, also those that were never finished or only deleted by half."""
        ...

    def read_segment(self, file: str, position: int, length: int) -> bytes:
        """Exactly `length` bytes of a segment from `position` on; StoreFailed if they are not there."""
        ...

    def segment_index(self, file: str) -> SegmentIndex:
        """The index of a segment; made anew from the segment if it is damaged or not there."""
        ...

    def check_segment(self, file: str, length_bytes: int) -> None:
        """StoreFailed unless the segment is there and has so many bytes."""
        ...

    def delete_segment(self, file: str) -> int:
        """Delete a segment and its index, if they are there, and return the bytes freed."""
        ...

    def snapshot_path(self, frame: int) -> Path:
        """Where the snapshot of the control plane as of `frame` lies."""
        ...

    def save_snapshot(self, write: Callable[[Path], int]) -> int:
        """Keep a snapshot of the control plane: `write` is `ControlPlane.snapshot`. Returns the frame it is as of.

        It counts once it is durable and sealed with its CRC.
        """
        ...

    def list_snapshots(self) -> list[int]:
        """The frames that there are snapshots of, newest first."""
        ...

    def keep_snapshots(self, count: int) -> int:
        """Delete all snapshots but the newest, and drafts of others; return the bytes freed.

        For who writes snapshots: no other process may be writing one now.
        """
        ...

    def forget_deleted(self) -> None:
        """Let go of files that somebody else has deleted, such as the keeper: before, their space is not free."""
        ...

    def check_in_place(self) -> None:
        """StoreFailed if what lies in the store's place is not what was opened: moved away, or put there instead.

        Files that are open would be written to all the same, where nobody will look for them.
        """
        ...

    def probe(self) -> None:
        """StoreFailed unless the store takes writes at this moment."""
        ...

    def close(self) -> None:
        """Let go of all files."""
        ...

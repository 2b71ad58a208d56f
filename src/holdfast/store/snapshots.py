"""The snapshots of the control plane that a store keeps, each named by the last frame that it contains."""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.errors import StoreFailed
from holdfast.records.crc import crc32c
from holdfast.store.durable import make_directory, sync_directory, write_file

FORMAT = 1
_PIECE_BYTES = 1 << 20


def covered_to(frames: Sequence[int]) -> int:
    """The frame of the second newest of snapshots that are listed newest first: see `Snapshots.needed_from`."""
    return frames[1] if len(frames) > 1 else 0


class Snapshots:
    """Files `snapshot/<frame, 20 digits>.db` of a store, each with its length and CRC in a `.json` beside it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "snapshot"
        # One draft at a time, and nobody clears it away meanwhile.
        self._writing = threading.Lock()

    def path_of(self, frame: int) -> Path:
        """Where the snapshot as of `frame` lies, or is to be written; the folder is there on return."""
        try:
            make_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot make {self._directory}: {failure.strerror}") from failure
        return self._directory / f"{frame:020d}.db"

    def save(self, write: Callable[[Path], int]) -> int:
        """Keep what `write` puts at the path that it is given, as a snapshot of the frame that it returns."""
        with self._writing:
            return self._save(write)

    def _save(self, write: Callable[[Path], int]) -> int:
        draft = self.path_of(0).with_name("draft.db")
        frame = write(draft)
        path = self.path_of(frame)
        try:
            if path.exists():
                # Nothing has happened since. A seal for other bytes of the same meaning would make it look damaged.
                draft.unlink()
                return frame
            length_bytes, checksum = _measure(_pieces(draft))
            seal = {"format": FORMAT, "length_bytes": length_bytes, "crc": checksum}
            write_file(path.with_suffix(".json"), json.dumps(seal) + "\n")
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.rename(path)
            sync_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot save {path}: {failure.strerror}") from failure
        return frame

    def copy(self, frame: int, target: Path) -> None:
        """Copy a snapshot to `target`, whose bytes, not its name, are durable on return; StoreFailed if it is damaged.

        One whose seal is not there is taken as it is: it was put back by hand.
        """
        path = self._directory / f"{frame:020d}.db"
        try:
            found = _measure(_copied(path, target))
            seal_file = path.with_suffix(".json")
            if not seal_file.exists():
                return
            seal = json.loads(seal_file.read_text())
            if seal["format"] > FORMAT:
                raise StoreFailed(f"{seal_file} has format {seal['format']}: use a newer Holdfast")
            expected = (int(seal["length_bytes"]), int(seal["crc"]))
        except OSError as failure:
            raise StoreFailed(f"cannot copy {path}: {failure.strerror}") from failure
        except (ValueError, KeyError, TypeError) as failure:
            raise StoreFailed(f"{seal_file} is not readable: {failure!r}") from failure
        if found != expected:
            said, is_now = (
                f"{length_bytes} bytes with CRC {crc:#010x}" for length_bytes, crc in (expected, found)
            )
            raise StoreFailed(f"{path} is damaged: {is_now}, where there were {said}")

    def frames(self) -> list[int]:
        """The frames that there are snapshots of, newest first."""
        names = (path.stem for path in self._directory.glob("*.db"))
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def keep(self, count: int) -> int:
        """Delete all but the newest `count`, and what a crash has left of others; return the bytes freed.

        For who writes snapshots: nobody else may be writing one through another object now.
        """
        with self._writing:
            return self._keep(count)

    def _keep(self, count: int) -> int:
        kept = {f"{frame:020d}" for frame in self.frames()[:count]}
        freed_bytes = 0
        try:
            for path in list(self._directory.glob("*")):
                if path.stem not in kept or path.suffix not in (".db", ".json"):
                    freed_bytes += path.stat().st_size
                    path.unlink()
            if freed_bytes:
                sync_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot delete old snapshots: {failure}") from failure
        return freed_bytes

    @property
    def needed_from(self) -> int:
        """Journals whose frames all have lower numbers are not needed to make the control plane anew.

        It is the frame of the second newest snapshot, and 0 as long as there are not two. The control plane is made
        anew from the newest snapshot and the frames after it. If that snapshot turns out to be damaged, which nobody
        sees before it is needed, the one before must do: its frames are kept, so that there are two ways at any time
        (before the second snapshot the other way is to begin with frame 1). The journal that holds the snapshot's
        last frame is kept too, since that is where a replay after it begins.
        """
        return covered_to(self.frames())


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _measure(pieces: Iterable[bytes]) -> tuple[int, int]:
    """(length, CRC) of all pieces together."""
    length_bytes = checksum = 0
    for piece in pieces:
        length_bytes += len(piece)
        checksum = crc32c(piece, checksum)
    return length_bytes, checksum


def _copied(source: Path, target: Path) -> Iterator[bytes]:
    """The pieces of a file, as they are written to another, which is synced at the end."""
    with target.open("wb") as copy:
        for piece in _pieces(source):
            copy.write(piece)
            yield piece
        copy.flush()
        os.fsync(copy.fileno())

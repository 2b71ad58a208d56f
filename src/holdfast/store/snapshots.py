"""The snapshots of the control plane that a store keeps, each named by the last frame that it contains."""

from pathlib import Path

from holdfast.errors import StoreFailed
from holdfast.store.durable import make_directory, sync_directory


class Snapshots:
    """Files `snapshot/<frame, 20 digits>.db` of a store; who writes one gives it its name when it is durable."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "snapshot"

    def path_of(self, frame: int) -> Path:
        """Where the snapshot as of `frame` lies, or is to be written; the folder is there on return."""
        try:
            make_directory(self._directory)
        except OSError as failure:
            raise StoreFailed(f"cannot make {self._directory}: {failure.strerror}") from failure
        return self._directory / f"{frame:020d}.db"

    def frames(self) -> list[int]:
        """The frames that there are snapshots of, newest first."""
        names = (path.stem for path in self._directory.glob("*.db"))
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def keep(self, count: int) -> int:
        """Delete all but the newest `count`, and what a crash has left of others; return the bytes freed.

        For who writes snapshots: nobody else may be writing one now.
        """
        kept = {f"{frame:020d}.db" for frame in self.frames()[:count]}
        freed_bytes = 0
        try:
            for path in list(self._directory.glob("*")):
                if path.name not in kept:
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
        newest_two = self.frames()[:2]
        return newest_two[1] if len(newest_two) == 2 else 0

"""The data directory: made once, served by one process at a time, refused if a newer Holdfast wrote it."""

import fcntl
import json
import os
from pathlib import Path
from uuid import UUID, uuid4

from holdfast.errors import DataDirectoryRefused, UsageError
from holdfast.store.durable import make_directory, write_file

FORMAT = 1


class DataDirectory:
    """Holds the lock from opening to closing; layout in `docs/formats.md`."""

    def __init__(self, path: Path, *, nodes: int | None = None) -> None:
        self.path = path
        try:
            make_directory(path)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as failure:
            raise UsageError(f"cannot use {path} as --data: {failure.strerror}") from failure
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise DataDirectoryRefused(
                f"{path} is in use by another process: stop that one, or choose another with --data"
            ) from None
        try:
            self.cluster_id, count = self._identify(nodes)
            self.nodes = range(1, count + 1)
        except BaseException:
            self.close()
            raise

    @property
    def control_db(self) -> Path:
        """The control plane's file."""
        return self.path / "control.db"

    def store(self, number: int) -> Path:
        """A store's directory."""
        return self.path / "stores" / str(number)

    def close(self) -> None:
        """Let the next process have it."""
        os.close(self._lock)

    def _identify(self, nodes: int | None) -> tuple[UUID, int]:
        """Who this is and how many nodes it has; written down on the first start."""
        file = self.path / "holdfast.json"
        if not file.exists():
            if self.control_db.exists() or (self.path / "stores").exists():
                raise DataDirectoryRefused(f"{file} is missing beside data: put it back from a copy")
            identity = {"format": FORMAT, "cluster_id": str(uuid4()), "nodes": nodes or 1}
            write_file(file, json.dumps(identity) + "\n")
        try:
            identity = json.loads(file.read_text())
            if identity["format"] > FORMAT:
                raise DataDirectoryRefused(
                    f"{self.path} has format {identity['format']}, this Holdfast knows up to {FORMAT}:"
                    " use a newer one"
                )
            cluster_id, count = UUID(identity["cluster_id"]), int(identity["nodes"])
        except (OSError, ValueError, KeyError, TypeError) as failure:
            raise DataDirectoryRefused(f"{file} is not readable: {failure}") from failure
        if nodes not in (None, count):
            raise DataDirectoryRefused(
                f"{self.path} was made with {count} nodes: start it with --nodes {count}"
            )
        return cluster_id, count

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

    def add_node(self) -> int:
        """One more node, with a store of its own, from the next opening on; its number."""
        count = len(self.nodes) + 1
        self._write_identity(self.cluster_id, count)
        self.nodes = range(1, count + 1)
        return count

    def store(self, number: int) -> Path:
        """A store's directory."""
        return self.path / "stores" / str(number)

    def close(self) -> None:
        """Let the next process have it."""
        os.close(self._lock)

    def _write_identity(self, cluster_id: UUID, nodes: int) -> None:
        identity = {"format": FORMAT, "cluster_id": str(cluster_id), "nodes": nodes}
        write_file(self.path / "holdfast.json", json.dumps(identity) + "\n")

    def _identify(self, nodes: int | None) -> tuple[UUID, int]:
        """Who this is and how many nodes it has; written down on the first start."""
        file = self.path / "holdfast.json"
        if not file.exists():
            if self.control_db.exists() or (self.path / "stores").exists():
                raise DataDirectoryRefused(f"{file} is missing beside data: put it back from a copy")
            self._write_identity(uuid4(), nodes or 1)
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
                f"{self.path} has {count} nodes: start it with --nodes {count}, or add one with `holdfast store add`"
            )
        return cluster_id, count

"""The real store and control plane with faults that a test switches on."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import StoreFailed
from holdfast.store.footer import Change
from holdfast.store.journal import Buffer
from holdfast.store.local import LocalStore
from holdfast.store.store import StoredFrame

CLUSTER = UUID(int=7)


class FaultyStore(LocalStore):
    """Fails as many appends as it is told, and counts those that became durable.

    While `gate` is not set, appends wait in front of it.
    """

    def __init__(self, directory: Path, **settings: Any) -> None:
        settings.setdefault("store", 1)
        settings.setdefault("cluster_id", CLUSTER)
        super().__init__(directory, **settings)
        self.fail_appends = 0
        self.durable: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.waits = threading.Event()

    def append(self, number: int, body: Sequence[Buffer], footer: bytes) -> StoredFrame:
        """Append, unless the test says otherwise."""
        if not self.gate.is_set():
            self.waits.set()
            assert self.gate.wait(30), "the test never opened the gate"
        if self.fail_appends:
            self.fail_appends -= 1
            raise StoreFailed("no space left on device")
        frame = super().append(number, body, footer)
        self.durable.append(number)
        return frame


class FaultyPlane(SqliteControlPlane):
    """Fails as many `apply` calls as it is told, after the frame is durable; a full disk would do that."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.fail_applies = 0

    def apply(
        self, frames: Sequence[StoredFrame], changes: Sequence[Change], *, lost: Sequence[int] = ()
    ) -> None:
        """Apply, unless the test says otherwise."""
        if self.fail_applies:
            self.fail_applies -= 1
            raise StoreFailed("the control plane cannot record the frame")
        super().apply(frames, changes, lost=lost)

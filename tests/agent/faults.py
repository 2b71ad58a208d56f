"""The real store and control plane with faults that a test switches on."""

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import StoreFailed
from holdfast.store.faulty import FaultyStore
from holdfast.store.footer import Change
from holdfast.store.local import LocalStore
from holdfast.store.store import StoredFrame

CLUSTER = UUID(int=7)


def faulty_store(directory: Path, *, store: int = 1, cluster_id: UUID = CLUSTER) -> FaultyStore:
    """A store in a directory, with faults to switch on."""
    return FaultyStore(LocalStore(directory, store=store, cluster_id=cluster_id))


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

"""The real store and control plane with faults that a test switches on."""

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import StoreFailed
from holdfast.store.faulty import FaultyStore
from holdfast.store.footer import Change
from holdfast.store.local import LocalStore
from holdfast.store.reopened import ReopenedStore
from holdfast.store.store import Store, StoredFrame

CLUSTER = UUID(int=7)


def faulty_store(
    directory: Path, *, store: int = 1, cluster_id: UUID = CLUSTER, incarnation: int | None = None
) -> FaultyStore:
    """A store in a directory, with faults to switch on."""
    opened = LocalStore(directory, store=store, cluster_id=cluster_id, incarnation=incarnation)
    return FaultyStore(opened)


def find_faulty(store: Store) -> FaultyStore | None:
    """The faulty store below an agent's, if that is one."""
    opened = store.opened if isinstance(store, ReopenedStore) else store
    return opened if isinstance(opened, FaultyStore) else None


def faulty(store: Store) -> FaultyStore:
    """The same, where the test has seen to it."""
    found = find_faulty(store)
    assert found is not None
    return found


class FaultyPlane(SqliteControlPlane):
    """Fails as many `apply` calls as it is told, after the frame is durable; a full disk would do that."""

    def __init__(self, path: Path, coordination: Coordination = COORDINATED) -> None:
        super().__init__(path, coordination)
        self.fail_applies = 0

    def apply(
        self, frames: Sequence[StoredFrame], changes: Sequence[Change], *, lost: Sequence[int] = ()
    ) -> None:
        """Apply, unless the test says otherwise."""
        if self.fail_applies:
            self.fail_applies -= 1
            raise StoreFailed("the control plane cannot record the frame")
        super().apply(frames, changes, lost=lost)

"""The stores that the contract suite is run over; a new one is one more entry."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.store.faulty import FaultyStore, Tear
from holdfast.store.local import LocalStore
from holdfast.store.store import Store, StoredFrame
from tests.store.frames import CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """How to open a store, again and again, on what lies below a path, and how to tear its last frame."""

    open: Callable[[Path], Store]
    tear: Callable[[Path], Tear] | None = None
    """None where a frame is written whole or not at all."""


class StorePlace:
    """Where one store lies: it can be opened anew, as a restart does."""

    def __init__(self, implementation: Implementation, path: Path) -> None:
        self._implementation = implementation
        self.path = path
        """Where the keeper writes segments and carried files."""
        self._opened: list[Store] = []

    def open(self) -> Store:
        """The store as a process finds it that has just started."""
        store = self._implementation.open(self.path)
        self._opened.append(store)
        return store

    def open_faulty(self) -> FaultyStore:
        """The same, with faults to switch on."""
        tear = self._implementation.tear
        return FaultyStore(self.open(), tear=tear and tear(self.path))

    @property
    def tear(self) -> Tear:
        """Tears the last frame; the test is skipped where that cannot happen."""
        if self._implementation.tear is None:
            pytest.skip("frames are written whole or not at all")
        return self._implementation.tear(self.path)

    def need_tearing(self) -> None:
        """Skip the test where frames cannot be torn."""
        assert callable(self.tear)

    def close(self) -> None:
        """Close all that was opened; a second close is none of the store's worries."""
        for store in self._opened:
            store.close()


def open_local(path: Path) -> LocalStore:
    return LocalStore(path, store=1, cluster_id=CLUSTER, incarnation=1)


def tear_journal(path: Path) -> Tear:
    """Cuts the end off a local store's journal."""

    def tear(frame: StoredFrame, cut_bytes: int) -> None:
        file = path / "journal" / f"{frame.end.journal:020d}.journal"
        assert file.stat().st_size == frame.end.position, "only the last frame can be torn"
        os.truncate(file, frame.end.position - cut_bytes)

    return tear


IMPLEMENTATIONS = {
    "local": Implementation(open=open_local, tear=tear_journal),
    "faulty": Implementation(open=lambda path: FaultyStore(open_local(path)), tear=tear_journal),
}

"""A store that may be gone for a while: its directory cannot be opened now, and can be later, or anew."""

from collections.abc import Callable
from typing import Any, cast

from holdfast.errors import StoreFailed
from holdfast.store.store import Store

OpenStore = Callable[[int | None], Store]
"""Opens the store in the life that is expected, None: in whichever it is; StoreFailed."""


class ReopenedStore:
    """Stands for the store `number` through all its openings; without one, everything is StoreFailed.

    `as_store` is the same object in the eyes of a type checker: what it does not do itself, the open store does.
    """

    def __init__(self, number: int, open_store: OpenStore) -> None:
        self.number = number
        self._open_store = open_store
        self._store: Store | None = None
        self._failure = StoreFailed(f"store {number} is not open")

    @property
    def as_store(self) -> Store:
        """For those who want a `Store`."""
        return cast(Store, self)

    @property
    def opened(self) -> Store | None:
        """The store as it is open now."""
        return self._store

    def reopen(self, incarnation: int | None) -> None:
        """Open the store once more, from what is on disk; StoreFailed if that is not possible."""
        self.close()
        try:
            self._store = self._open_store(incarnation)
        except StoreFailed as failure:
            self._failure = failure
            raise

    def close(self) -> None:
        """Let go of all files."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def give_up(self, failure: StoreFailed) -> None:
        """What is open is not the store any more: from now on everything is that failure."""
        self.close()
        self._failure = failure

    def __getattr__(self, name: str) -> Any:
        if self._store is None:
            raise StoreFailed(str(self._failure))
        return getattr(self._store, name)

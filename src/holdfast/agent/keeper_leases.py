"""Who may rewrite which store: the keepers' leases, as this process gives them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.writes import UpkeepOfMany
from holdfast.control.plane import ControlPlane
from holdfast.store.replica_changes import KeeperLeased

LEASE_SECONDS = 30.0
"""How long a lease is good for without a word from its holder."""


@dataclass(slots=True)
class _Held:
    holder: str
    lease: int
    until: float


class KeeperLeases:
    """Numbers of leases are in the control plane; who holds them, and until when, only this process knows."""

    def __init__(self, plane: ControlPlane, commits: GroupCommit) -> None:
        self._plane = plane
        self._commits = commits
        self._held: dict[int, _Held] = {}

    def is_held(self, store: int) -> bool:
        """Whether some keeper has the store."""
        held = self._held.get(store)
        return held is not None and held.until > time.monotonic()

    async def take(self, stores: Sequence[int], holder: str) -> list[int | None]:
        """The lease of each store; None while somebody else has it, or if it is not to be had.

        Whoever holds a store goes on holding it; it takes a frame, one for all, to give it to somebody else.
        """
        until = time.monotonic() + LEASE_SECONDS
        before = {state.store: state.lease for state in self._plane.list_stores()}
        leases: dict[int, int | None] = {}
        given: dict[int, KeeperLeased] = {}
        for store in filter(before.__contains__, stores):
            if not self.is_held(store):
                # Held before it is durable, so that two who ask at the same time do not both get it.
                self._held[store] = _Held(holder, before[store] + 1, until)
                given[store] = KeeperLeased(store, before[store] + 1)
            held = self._held[store]
            if held.holder == holder:
                held.until = until
            leases[store] = held.lease if held.holder == holder else None
        if given:
            leases |= dict.fromkeys(await self._give(given))
        return [leases.get(store) for store in stores]

    async def _give(self, given: dict[int, KeeperLeased]) -> list[int]:
        """Make leases durable; the stores that are not to be had."""
        refused = list(given)
        try:
            answers = await self._commits.submit(UpkeepOfMany(list(given.values()), self._plane))
            assert isinstance(answers, list)
            refused = [store for store, why in zip(given, answers, strict=True) if why is not None]
        finally:
            for store in refused:
                self.drop(store)
        return refused

    def release(self, stores: Sequence[int], holder: str) -> bool:
        """Let others have the stores; whether the holder had any of them."""
        held = [store for store in stores if store in self._held and self._held[store].holder == holder]
        for store in held:
            self.drop(store)
        return bool(held)

    def release_all(self, holder: str) -> None:
        """The same for all that it has."""
        self.release(list(self._held), holder)

    def drop(self, store: int) -> None:
        """Whoever holds the store has it no longer."""
        self._held.pop(store, None)

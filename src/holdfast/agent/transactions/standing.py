"""Where transactional ids stand, as people see it; any thread may ask.

The control plane knows what is durable, the coordinator's openings what is not: a transaction that was only
announced is under way, too.
"""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.transactions.opening import Opening
from holdfast.agent.transactions.plan import find_partitions
from holdfast.control.plane import ControlPlane
from holdfast.errors import TransactionalIdNotFound
from holdfast.rules.transactional_id import Phase, TransactionalId


class Standing(NamedTuple):
    """A transactional id with the transaction that it has under way, or had last."""

    state: TransactionalId
    phase: Phase
    started_ms: int
    """The wall clock when that transaction began; -1 if there was none."""


class OpenTransaction(NamedTuple):
    """A transaction under way."""

    transactional_id: str
    producer_id: int
    epoch: int
    started_ms: int


class Standings:
    """Questions about all transactional ids. Nothing here changes anything."""

    def __init__(self, plane: ControlPlane, openings: Mapping[str, Opening]) -> None:
        self._plane = plane
        self._openings = openings

    def describe(self, transactional_id: str) -> tuple[Standing, frozenset[PartitionKey]]:
        """One id, and the partitions of the transaction that it has under way; TransactionalIdNotFound."""
        state = self._plane.find_transactional_id(transactional_id)
        if state is None:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id!r}")
        standing = self._standing(transactional_id, state)
        if standing.phase is not Phase.ONGOING:
            return standing, frozenset()
        opening = self._openings.get(transactional_id)
        announced = opening.partitions if opening is not None and opening.turn == state.turn else set()
        return standing, frozenset(announced | find_partitions(self._plane, state.instance))

    def list_all(self) -> dict[str, Standing]:
        """All ids by name: a look at every row, so not for the event loop."""
        return {
            name: self._standing(name, state) for name, state in self._plane.list_transactional_ids().items()
        }

    def list_open(self) -> list[OpenTransaction]:
        """What is under way, the oldest first."""
        found = []
        for name, opening in list(self._openings.items()):
            state = self._plane.find_transactional_id(name)
            # A refused batch leaves an opening behind that has neither announced nor written anything.
            if (
                state is not None
                and opening.turn == state.turn
                and (opening.is_announced or opening.is_begun)
            ):
                found.append(OpenTransaction(name, state.producer_id, state.epoch, opening.started_ms))
        return sorted(found, key=lambda each: each.started_ms)

    def _standing(self, transactional_id: str, state: TransactionalId) -> Standing:
        opening = self._openings.get(transactional_id)
        is_announced = opening is not None and opening.is_announced and opening.turn == state.turn
        if opening is None or state.phase is Phase.ONGOING or not is_announced:
            # The same time before and after a restart, as soon as something is durable.
            return Standing(state, state.phase, state.started_ms)
        return Standing(state, Phase.ONGOING, opening.started_ms)

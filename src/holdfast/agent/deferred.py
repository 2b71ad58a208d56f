"""An answer that is to come: what a future is, at a tenth of its price."""

from collections.abc import Callable

from holdfast.agent.registry import Payload
from holdfast.errors import HoldfastError

Outcome = Payload | HoldfastError
"""The answer, or why the connection must end."""


class Deferred:
    """Settled once and heard by one listener, in either order; lives on the event loop's thread alone.

    It is the answer's place in the row as well: `outcome` is None until it is settled.

    A future schedules its callbacks; this one calls its listener on the spot, so that all answers of a group
    commit are there before the first of them is sent.
    """

    __slots__ = ("_listener", "outcome")

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self._listener: Callable[[Outcome], None] | None = None

    def settle(self, outcome: Outcome) -> None:
        """Say how it ended."""
        self.outcome = outcome
        if self._listener is not None:
            self._listener(outcome)

    def listen(self, listener: Callable[[Outcome], None]) -> None:
        """Be told how it ends, at once if it has."""
        if self.outcome is not None:
            listener(self.outcome)
        else:
            self._listener = listener

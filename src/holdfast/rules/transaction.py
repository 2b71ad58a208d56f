"""Transaction instances of one partition: where each began and how it ended.

An instance is one begin-end of one transactional id. A batch belongs to exactly one instance, and an outcome
decides exactly one: no later outcome of the same producer can reach back. Absence never decides: an instance
that nobody knows is an error, not an open, committed or aborted one.
"""

from enum import Enum

from holdfast.errors import InvalidTxnState, OutcomeMissing

NO_INSTANCE = -1


class Outcome(Enum):
    """How a transaction instance stands."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Instances:
    """The instances that have data in one partition; forgotten ones are gone without a trace."""

    __slots__ = ("_first_offsets", "_outcomes")

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}
        self._outcomes: dict[int, Outcome] = {}

    def __contains__(self, instance: int) -> bool:
        return instance in self._outcomes

    def join(self, instance: int, offset: int) -> bool:
        """Take a batch into an open instance; True if it is the first. A decided one takes no more."""
        outcome = self._outcomes.get(instance)
        if outcome is None:
            self._first_offsets[instance] = offset
            self._outcomes[instance] = Outcome.OPEN
            return True
        if outcome is not Outcome.OPEN:
            raise InvalidTxnState(
                f"instance {instance} is {outcome.value} and takes no batch at offset {offset}"
            )
        return False

    def decide(self, instance: int, outcome: Outcome) -> int:
        """Record the outcome and return the instance's first offset. To decide it twice alike is harmless."""
        known = self.outcome(instance)
        if known not in (Outcome.OPEN, outcome):
            raise InvalidTxnState(
                f"instance {instance} is {known.value} already, and cannot be {outcome.value}"
            )
        self._outcomes[instance] = outcome
        return self._first_offsets[instance]

    def outcome(self, instance: int) -> Outcome:
        """The positive answer, or OutcomeMissing."""
        try:
            return self._outcomes[instance]
        except KeyError:
            raise OutcomeMissing(f"no outcome is known of transaction instance {instance}") from None

    def forget(self, instance: int) -> None:
        """Let go of a decided instance, which only a pass below MXRO may do."""
        if self._outcomes.get(instance) is Outcome.OPEN:
            raise InvalidTxnState(f"instance {instance} is open and cannot be forgotten")
        self._outcomes.pop(instance, None)
        self._first_offsets.pop(instance, None)

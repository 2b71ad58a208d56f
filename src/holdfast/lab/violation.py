"""What a check of a random schedule says when something is wrong."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An invariant that does not hold: which, in which of Kafka's four variants if any, and what was seen."""

    invariant: str
    what: str
    variant: str | None = None

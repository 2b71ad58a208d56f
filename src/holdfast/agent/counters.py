"""What the agent counts: plain integers that cost nanoseconds to raise and are read only when somebody asks."""

from bisect import bisect_left
from typing import Final

API_KEYS_MAX: Final = 128

COMMIT_SECONDS_BOUNDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class Histogram:
    """How often a value fell at or below each bound; one thread observes, any thread reads."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Counters:
    """One agent's counts since its start. Lists are by API key."""

    __slots__ = (
        "answer_bytes",
        "commit_failures",
        "commit_seconds",
        "commit_writes",
        "connections_accepted",
        "connections_refused",
        "request_bytes",
        "requests",
        "transactions_aborted",
        "transactions_begun",
        "transactions_committed",
    )

    def __init__(self) -> None:
        self.requests = [0] * API_KEYS_MAX
        self.request_bytes = [0] * API_KEYS_MAX
        self.answer_bytes = [0] * API_KEYS_MAX
        self.connections_accepted = 0
        self.connections_refused = 0
        self.commit_seconds = Histogram(COMMIT_SECONDS_BOUNDS)
        self.commit_writes = 0
        self.commit_failures = 0
        self.transactions_begun = 0
        self.transactions_committed = 0
        self.transactions_aborted = 0

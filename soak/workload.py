"""What a workload is to the harness: something that runs, can be told to end, and judges its own history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from soak.history import LogRecord, Violation

TOPIC = "soak"
PATIENCE_SECONDS = 60.0
"""How long anybody waits for a log that is back; the machine may be busy."""
LAST_WORDS_SECONDS = 0.5
"""How long anybody waits for a log that has failed."""

Logs = Mapping[int, Sequence[LogRecord]]
"""Each partition of TOPIC from its first record to its last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all workloads of a round share."""

    nodes: int
    partitions: int


class Workload(Protocol):
    """Clients under way. Errors of the log's making are kept for `check`, whatever thread they occur in."""

    @property
    def acknowledged(self) -> int:
        """How much was acknowledged so far: the harness waits for it to grow."""
        ...

    def start(self) -> None:
        """Begin; the log is up."""
        ...

    def finish(self, seconds_max: float) -> None:
        """Begin nothing more, and wait until everything begun is answered or has failed.

        The log is up, or has failed for good: then `seconds_max` is short, and nothing is checked.
        """
        ...

    def check(self, logs: Logs) -> list[Violation]:
        """What the history and the log say against each other; after `finish`."""
        ...


class Spec(Protocol):
    """What was drawn for one workload; its repr is part of what a failure prints."""

    @property
    def from_start(self) -> int:
        """It joins after so many kills; 0: from the beginning."""
        ...

    def build(self, bootstrap: str) -> Workload:
        """The workload against a log at these addresses."""
        ...

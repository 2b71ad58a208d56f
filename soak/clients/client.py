"""What a worker needs of a Kafka client.

Whatever a client raises ends the worker, and another takes its place; but for `Abortable`: it stands for what the
client itself says may be aborted and tried again.
"""

from typing import Protocol

from soak.history import LogRecord
from soak.txn_history import Place, Write

PATIENCE_SECONDS = 60.0
"""How long a client waits for a log that is down; then its worker gives up."""
POLL_SECONDS = 0.1
BATCH_MAX = 50
TIMEOUT_MS = 60_000
"""Of a transaction. Nobody may have to wait for it: whoever comes back for an id aborts what was left open."""


class Abortable(Exception):
    """The transaction has failed and nothing else has: `abort` comes next."""


class TransactionalClient(Protocol):
    """A transactional producer, and a read_committed consumer of one partition that somebody else assigned to it."""

    def init(self) -> None:
        """Take the transactional id over."""
        ...

    def follow(self, place: Place, group: str) -> int:
        """Read from the group's position on, or from 0; that offset."""
        ...

    def poll(self) -> list[LogRecord]:
        """The next records, or none."""
        ...

    def rewind(self, offset: int) -> None:
        """Read on from here."""
        ...

    def begin(self) -> None:
        """Open a transaction."""
        ...

    def send(self, writes: list[Write]) -> None:
        """Send records, at least as far as the client's buffer."""
        ...

    def send_offset(self, offset: int) -> None:
        """The group's next position, as part of the transaction."""
        ...

    def commit(self) -> None:
        """Everything since `begin`; returns when the log said yes."""
        ...

    def abort(self) -> None:
        """Nothing since `begin`; returns when the log said yes."""
        ...

"""Which cluster, and how its brokers and its clients come to trust each other: for whoever opens a connection."""

from dataclasses import dataclass

from holdfast.client.security import PLAINTEXT, Security


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A cluster as its clients are told of it; other processes can be sent it."""

    bootstrap: str
    security: Security = PLAINTEXT

    def __str__(self) -> str:
        return self.bootstrap

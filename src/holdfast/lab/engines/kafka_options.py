"""What can be chosen for the engine `kafka`; apart from it, so that the command line need not load it to check."""

from dataclasses import dataclass

CLIENTS = ("holdfast", "librdkafka", "java")
"""Who writes; the first unless another is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """A release of Apache Kafka, how long the story's time may take, who writes, and whether a guard runs beside."""

    version: str
    within_ms: int | None = None
    client: str = CLIENTS[0]
    guard: bool = False

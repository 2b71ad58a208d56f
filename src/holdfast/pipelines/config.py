"""A pipeline as its file describes it. `loading` reads the file; `docs/pipelines.md` tells what may stand there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from holdfast.client.endpoint import Endpoint
from holdfast.pipelines.identity import Identity

FILE: Final = Path("pipeline.yaml")
"""What commands take for a pipeline's file if none is named."""
DAY_MS: Final = 86_400_000
WINDOW_MS: Final = 600_000
AUDIT: Final = "audit"
"""In place of a topic's name: this end state goes to the audit topic alone."""

OWN_COLUMNS: Final = (
    *("id", "source", "tenant", "time", "origin", "reason", "holdfast_state", "holdfast_reason"),
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "keyHash"),
)
"""What has a meaning in the rows of a transform already, so that no end state can stand there."""


class EndState(Enum):
    """Where a message's way ends. Every ingested message reaches exactly one."""

    QUALIFIED = "qualified"
    NOT_QUALIFIED = "not_qualified"
    FAILED = "failed"


class Mode(Enum):
    """How what is published and what is audited are kept together."""

    ADAPTER = "adapter"
    TRANSACTION = "transaction"
    DUAL = "dual"


class Reader(Enum):
    """Through which of Spark's data sources topics are read; they are written by Holdfast's in any case."""

    HOLDFAST = "holdfast"
    KAFKA = "kafka"
    """Spark's own connector, whose jar has to be on the class path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Forwards everything from a topic of the service to the audit topic, in a group of its own."""

    name: str
    topic: str
    group: str
    starting: str = "earliest"
    """Where a new checkpoint begins: `latest` where audit knows everything up to now from another delivery mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a micro-batch begins, and how much it takes."""

    interval_ms: int = 1000
    """The next one begins so long after the last one began, or when that has ended."""
    records_max: int = 100_000
    """More than these wait for the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Where the books of delivery mode `transaction` go."""

    topic: str
    window_ms: int = WINDOW_MS
    """Messages are counted by their time in windows of this length; a day has a whole number of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a tenant's day may lose before it counts as broken. Read by reconciliation."""

    failed: float = 0.01
    """Share of messages that may end as failed."""
    missing: float = 0.0
    """Share that may have no end state."""
    duplicate: float = 0.0
    """Share that may have one twice."""
    late: float = 0.0
    """Share that may come after its window was sealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """When somebody is to be told. Read by reconciliation."""

    stall_ms: int = 60_000
    """A partition gets messages, and a group does not move in it."""
    age_warn_ms: int = 120_000
    """The oldest message that is not forwarded is this old."""
    age_page_ms: int = 300_000
    canary_ms: int = 30_000
    """A marked message is sent so often."""
    runway_warn_ms: int = 86_400_000
    """Retention deletes the first message that is not forwarded in so long."""
    runway_page_ms: int = 14_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One whole file."""

    path: Path
    name: str
    endpoint: Endpoint
    client_config: Path | None
    """The file that told of its security, if the pipeline's own does."""
    identity: Identity
    ingest: str
    starting: str
    transform: str
    column: str
    topics: Mapping[EndState, str]
    """The topics of the end states that have one of their own; the others are told to the audit topic."""
    audit: str
    adapters: tuple[Adapter, ...]
    mode: Mode
    reader: Reader
    trigger: Trigger
    tally: Tally | None
    checkpoint: Path
    recovery_window_ms: int
    budget: Budget
    alarms: Alarms
    lines: Mapping[str, int] = field(repr=False)
    """By key from the top, as `ingest.topic`: the line that it stands in."""

    @property
    def service_group(self) -> str:
        """The group whose offsets tell how far the service is."""
        return f"{self.name}.service"

    @property
    def outputs(self) -> tuple[str, ...]:
        """Every topic that the service writes to."""
        tally = (self.tally.topic,) if self.tally is not None and self.mode is Mode.TRANSACTION else ()
        return (*dict.fromkeys(self.topics.values()), self.audit, *tally)

    def at(self, key: str) -> str:
        """`pipeline.yaml:12`, for messages about what stands there."""
        line = self.lines.get(key)
        return f"{self.path}:{line}" if line is not None else str(self.path)

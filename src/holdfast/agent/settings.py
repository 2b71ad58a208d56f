"""What an agent can be told. Every bound has a name and a unit."""

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.agent.groups.messages import GroupLimits
from holdfast.keeper.limits import KeeperLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one `holdfast up`."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 9092
    nodes: int | None = None
    """How many nodes with a store each; by default as many as the directory has, or one."""
    default_partitions: int = 1
    """Partitions of a topic that a client creates by asking for it."""
    message_bytes_max: int = 1_048_588
    """Largest batch that is taken, where the topic does not say otherwise; Kafka's default."""
    commit_queue_bytes_max: int = 64 * 1024 * 1024
    """Produced bytes that may wait for a commit before clients are held back."""
    store_seconds_max: float = 10.0
    """How long a store may take for a frame while others wait; one that takes longer is in sync no longer."""
    fetch_bytes_max: int = 55 * 1024 * 1024
    """Largest answer to a fetch, whatever the client asks for; Kafka's default."""
    offset_metadata_bytes_max: int = 4096
    """What a consumer may note beside a position; Kafka's default."""
    transaction_timeout_ms_max: int = 900_000
    """The longest transaction timeout that a producer may ask for; Kafka's default."""
    groups: GroupLimits = field(default_factory=GroupLimits)
    """Bounds on consumer groups and their members."""
    expire_seconds: float = 300.0
    """How often records that are past their topic's retention are looked for; Kafka's default."""
    offsets_retention_seconds: float = 7 * 24 * 3600.0
    """How long positions of a consumer group are kept after its last member has left, and those of topics that a
    group no longer reads, or of consumers without a group, after they were committed; Kafka's default."""
    return_seconds: float = 5.0
    """How often stores that are away are looked at; one that is well again comes back by itself."""
    keeper: KeeperLimits = field(default_factory=KeeperLimits)
    """When stores are settled and compacted."""
    stop_seconds_max: float = 5.0
    """How long a stop waits for requests under way."""

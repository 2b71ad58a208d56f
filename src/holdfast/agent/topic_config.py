"""Topic configs: one table says which there are, what they take and what they do; anything else is refused by name.

`docs/configs.md` is written from the table: `python -m holdfast.agent.config_reference > docs/configs.md`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from holdfast.control.plane import Partition, Topic
from holdfast.errors import InvalidConfig
from holdfast.rules.policy import CompactionConfig

MAX_MESSAGE_BYTES = "max.message.bytes"
TIMESTAMP_TYPE = "message.timestamp.type"
COMPRESSION_TYPE = "compression.type"
CLEANUP_POLICY = "cleanup.policy"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
RETENTION_MS = "retention.ms"
RETENTION_BYTES = "retention.bytes"
MIN_COMPACTION_LAG_MS = "min.compaction.lag.ms"
MAX_COMPACTION_LAG_MS = "max.compaction.lag.ms"
DELETE_RETENTION_MS = "delete.retention.ms"
MIN_DIRTY_RATIO = "min.cleanable.dirty.ratio"
SEGMENT_BYTES = "segment.bytes"
SEGMENT_MS = "segment.ms"

DELETE, COMPACT = "delete", "compact"
"""The cleanup policies; a topic has none, one or both."""

DAY_MS = 24 * 60 * 60 * 1000
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_NUMBER = re.compile(r"[+-]?[0-9]+")


class ConfigType(IntEnum):
    """The type of a value by its number on the wire."""

    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One config: `parse` gives the value as it is kept, and raises ValueError for one that is not taken."""

    name: str
    type: ConfigType
    default: str
    parse: Callable[[str], str]
    takes: str
    doc: str
    broker_name: str | None = None
    """What a broker calls its default for it."""
    acts: bool = True
    """Whether the log behaves otherwise for it; if not, it is kept all the same, for tools that set it."""


def _whole(first: int, last: int) -> Callable[[str], str]:
    def parse(text: str) -> str:
        number = int(text) if _NUMBER.fullmatch(text) else None
        if number is None or not first <= number <= last:
            raise ValueError(text)
        return str(number)

    return parse


def _ratio(text: str) -> str:
    number = float(text)
    if math.isnan(number) or not 0 <= number <= 1:
        raise ValueError(text)
    return str(number)


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(text)
        return text

    return parse


def _policy(text: str) -> str:
    policies = dict.fromkeys(part.strip() for part in text.split(",")) if text else {}
    if not policies.keys() <= {DELETE, COMPACT}:
        raise ValueError(text)
    return ",".join(policies)


def _long(name: str, default: int, first: int, doc: str, *, broker: str | None, acts: bool) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=ConfigType.LONG,
        default=str(default),
        parse=_whole(first, LONG_MAX),
        takes="a number" if first < -1 else f"a number from {first} on",
        doc=doc,
        broker_name=broker,
        acts=acts,
    )


def _int(name: str, default: int, first: int, doc: str, *, broker: str, acts: bool) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=ConfigType.INT,
        default=str(default),
        parse=_whole(first, INT_MAX),
        takes=f"a number from {first} on",
        doc=doc,
        broker_name=broker,
        acts=acts,
    )


_ALL = (
    TopicConfig(
        name=CLEANUP_POLICY,
        type=ConfigType.LIST,
        default=DELETE,
        parse=_policy,
        takes="delete, compact, both or nothing",
        doc=(
            "delete: old records go by retention.ms and retention.bytes. compact: a keeper leaves the newest record of"
            " each key, and records without a key are refused. Nothing: all are kept."
        ),
        broker_name="log.cleanup.policy",
    ),
    TopicConfig(
        name=COMPRESSION_TYPE,
        type=ConfigType.STRING,
        default="producer",
        parse=_one_of("producer"),
        takes="producer: nothing is transcoded",
        doc="Batches are stored as the producer compressed them.",
        broker_name="compression.type",
    ),
    _long(
        DELETE_RETENTION_MS, DAY_MS, 0,
        "How long a compacted topic still shows a tombstone from when every replica is compacted past it.",
        broker="log.cleaner.delete.retention.ms", acts=True,
    ),
    _long(
        MAX_COMPACTION_LAG_MS, LONG_MAX, 1,
        "The age at which an uncompacted record makes a compaction due, whatever the dirty ratio is.",
        broker="log.cleaner.max.compaction.lag.ms", acts=True,
    ),
    _int(
        MAX_MESSAGE_BYTES, 1_048_588, 0, "The largest record batch that is taken, as it is compressed.",
        broker="message.max.bytes", acts=True,
    ),
    TopicConfig(
        name=TIMESTAMP_TYPE,
        type=ConfigType.STRING,
        default="CreateTime",
        parse=_one_of("CreateTime", "LogAppendTime"),
        takes="CreateTime or LogAppendTime",
        doc="Whether records have the producer's time, or that of their commit.",
        broker_name="log.message.timestamp.type",
    ),
    TopicConfig(
        name=MIN_DIRTY_RATIO,
        type=ConfigType.DOUBLE,
        default="0.5",
        parse=_ratio,
        takes="a number from 0 to 1",
        doc="A compaction is due when more than this share of what it would read, in bytes, is uncompacted.",
        broker_name="log.cleaner.min.cleanable.ratio",
    ),
    _long(
        MIN_COMPACTION_LAG_MS, 0, 0, "The age, by its own timestamp, below which a record is left uncompacted.",
        broker="log.cleaner.min.compaction.lag.ms", acts=True,
    ),
    _int(
        MIN_INSYNC_REPLICAS, 1, 1,
        "How many replicas must have a batch that is sent with acks=all. By default 2 where there are three or more.",
        broker="min.insync.replicas", acts=True,
    ),
    _long(
        RETENTION_BYTES, -1, -(2**63), "Bytes that a partition keeps when old records go; negative: no limit.",
        broker="log.retention.bytes", acts=True,
    ),
    _long(
        RETENTION_MS, 7 * DAY_MS, -1, "The age, by their own timestamps, at which records go; -1: no limit.",
        broker=None, acts=True,
    ),
    _int(
        SEGMENT_BYTES, 1024**3, 1024**2,
        "The most that a keeper puts into one segment file, unless a single batch is larger.",
        broker="log.segment.bytes", acts=True,
    ),
    _int(
        "segment.index.bytes", 10 * 1024**2, 4, "In Kafka the size of a segment's index.",
        broker="log.index.size.max.bytes", acts=False,
    ),
    _long("segment.jitter.ms", 0, 0, "In Kafka it spreads the ends of segments in time.", broker=None, acts=False),
    _long(
        SEGMENT_MS, 7 * DAY_MS, 1,
        "In Kafka the age at which a segment ends and may be compacted; a keeper need not wait for that.",
        broker=None, acts=False,
    ),
)  # fmt: skip

TOPIC_CONFIGS: Mapping[str, TopicConfig] = {config.name: config for config in _ALL}
"""By name."""


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configs as they are kept; InvalidConfig names the first one that does not fit."""
    checked: dict[str, str] = {}
    for name, value in configs.items():
        config = find_config(name)
        try:
            if value is None:
                raise ValueError("null")
            checked[name] = config.parse(value.strip())
        except ValueError:
            raise InvalidConfig(f"{name} takes {config.takes}, not {value!r}") from None
    lag_min, lag_max = (
        int(checked.get(name, TOPIC_CONFIGS[name].default))
        for name in (MIN_COMPACTION_LAG_MS, MAX_COMPACTION_LAG_MS)
    )
    if lag_min > lag_max:
        raise InvalidConfig(f"{MIN_COMPACTION_LAG_MS} {lag_min} is over {MAX_COMPACTION_LAG_MS} {lag_max}")
    return checked


def find_config(name: str) -> TopicConfig:
    """The config of that name; InvalidConfig."""
    try:
        return TOPIC_CONFIGS[name]
    except KeyError:
        known = ", ".join(TOPIC_CONFIGS)
        raise InvalidConfig(f"unknown topic config name: {name}; known are {known}") from None


def min_insync_replicas(topic: Topic, partition: Partition) -> int:
    """How many replicas must have a write with acks=all."""
    configured = topic.configs.get(MIN_INSYNC_REPLICAS)
    return int(configured) if configured else default_min_insync(len(partition.replicas))


def default_min_insync(replicas: int) -> int:
    """With three or more, two."""
    return 2 if replicas > 2 else 1


def cleanup_policies(topic: Topic) -> list[str]:
    """DELETE, COMPACT, both or none."""
    return [policy for policy in _value(topic, CLEANUP_POLICY).split(",") if policy]


def find_retention(topic: Topic) -> tuple[int | None, int | None]:
    """(milliseconds, bytes) after which records of the topic go; None: no limit."""
    if DELETE not in cleanup_policies(topic):
        return None, None
    limits = (int(_value(topic, name)) for name in (RETENTION_MS, RETENTION_BYTES))
    age_ms, size_bytes = (limit if limit >= 0 else None for limit in limits)
    return age_ms, size_bytes


def is_compacted(topic: Topic) -> bool:
    """Whether only the newest record of each key is kept, so that each needs a key."""
    # Every batch asks. A text that was taken names only what there is, so nothing else has this in it.
    return COMPACT in topic.configs.get(CLEANUP_POLICY, DELETE)


def compaction_config(topic: Topic) -> CompactionConfig:
    """When the topic is compacted, and what may go, if it is a compacted one."""
    return CompactionConfig(
        delete_retention_ms=int(_value(topic, DELETE_RETENTION_MS)),
        min_compaction_lag_ms=int(_value(topic, MIN_COMPACTION_LAG_MS)),
        max_compaction_lag_ms=int(_value(topic, MAX_COMPACTION_LAG_MS)),
        min_cleanable_dirty_ratio=float(_value(topic, MIN_DIRTY_RATIO)),
        segment_ms=int(_value(topic, SEGMENT_MS)),
    )


def segment_bytes(topic: Topic) -> int:
    """The most that one segment of the topic holds."""
    return int(_value(topic, SEGMENT_BYTES))


def _value(topic: Topic, name: str) -> str:
    return topic.configs.get(name, TOPIC_CONFIGS[name].default)

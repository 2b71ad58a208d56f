"""Configs as DescribeConfigs shows them: each with its value, where that comes from, and what else it is called."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from holdfast.agent.settings import Settings
from holdfast.agent.topic_config import (
    MAX_MESSAGE_BYTES,
    MIN_INSYNC_REPLICAS,
    RETENTION_MS,
    TOPIC_CONFIGS,
    ConfigType,
    TopicConfig,
    default_min_insync,
)
from holdfast.control.plane import Topic


class Source(IntEnum):
    """Where a value comes from, by its number on the wire."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    """Another name under which a value may be found, in the order in which they count."""

    name: str
    value: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config."""

    name: str
    value: str
    source: Source
    type: ConfigType
    doc: str
    read_only: bool
    synonyms: tuple[Synonym, ...]


def describe_topic(topic: Topic, settings: Settings) -> Iterator[ConfigEntry]:
    """All configs of a topic, those included that were never set."""
    for config in TOPIC_CONFIGS.values():
        default = _default(config, settings, replicas=len(topic.partitions[0].replicas))
        synonyms = [Synonym(config.broker_name, *default)] if config.broker_name else []
        value, source = default
        if config.name in topic.configs:
            value, source = topic.configs[config.name], Source.TOPIC
            synonyms.insert(0, Synonym(config.name, value, source))
        yield ConfigEntry(
            name=config.name,
            value=value,
            source=source,
            type=config.type,
            doc=config.doc,
            read_only=False,
            synonyms=tuple(synonyms),
        )


def describe_broker(node_id: int, settings: Settings) -> Iterator[ConfigEntry]:
    """A node's settings under Kafka's names; they are given at its start and stay."""
    groups = settings.groups
    own = {
        "node.id": (node_id, "The number of the node and of its home store."),
        "num.partitions": (settings.default_partitions, "Partitions of a topic that does not say how many."),
        "fetch.max.bytes": (settings.fetch_bytes_max, "The largest answer to a fetch."),
        "offset.metadata.max.bytes": (
            settings.offset_metadata_bytes_max,
            "What a consumer may note beside a position.",
        ),
        "group.min.session.timeout.ms": (groups.session_timeout_ms_min, "The shortest session of a member."),
        "group.max.session.timeout.ms": (groups.session_timeout_ms_max, "The longest session of a member."),
        "group.initial.rebalance.delay.ms": (
            groups.initial_rebalance_delay_ms,
            "How long the first members of a group wait for more.",
        ),
        "group.max.size": (groups.members_max, "Members of a group."),
        "log.retention.check.interval.ms": (
            int(settings.expire_seconds * 1000),
            "How often old records are looked for.",
        ),
        "offsets.retention.minutes": (
            int(settings.offsets_retention_seconds / 60),
            "How long positions are kept that nobody uses.",
        ),
    }
    for name, (number, doc) in own.items():
        yield _of_broker(name, str(number), Source.STATIC_BROKER, ConfigType.LONG, doc)
    for config in TOPIC_CONFIGS.values():
        broker_name = config.broker_name or ("log.retention.ms" if config.name == RETENTION_MS else None)
        if broker_name is not None:
            yield _of_broker(broker_name, *_default(config, settings, replicas=1), config.type, config.doc)


def _of_broker(name: str, value: str, source: Source, type_: ConfigType, doc: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=value,
        source=source,
        type=type_,
        doc=doc,
        read_only=True,
        synonyms=(Synonym(name, value, source),),
    )


def _default(config: TopicConfig, settings: Settings, *, replicas: int) -> tuple[str, Source]:
    if config.name == MIN_INSYNC_REPLICAS:
        return str(default_min_insync(replicas)), Source.DEFAULT
    if config.name == MAX_MESSAGE_BYTES and str(settings.message_bytes_max) != config.default:
        return str(settings.message_bytes_max), Source.STATIC_BROKER
    return config.default, Source.DEFAULT

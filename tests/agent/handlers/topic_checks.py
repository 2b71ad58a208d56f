"""What the requests that change topics must answer in every version; run by `test_versions`."""

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from holdfast.records.build import Record, build_batch
from tests.agent import requests
from tests.agent.batches import batch

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


class Exchange(Protocol):
    """A client of an agent."""

    call: Callable[[Any], Any]


def check_delete_topics(exchange: Exchange, version: int) -> None:
    name = f"deleted-by-v{version}"
    topic_id: UUID = exchange.call(requests.create_topic(name, version=7)).topics[0].topic_id
    deleted, unknown = exchange.call(requests.delete_topics(name, "nowhere", version=version)).responses
    assert (deleted.name, deleted.error_code, unknown.name, unknown.error_code) == (name, 0, "nowhere", 3)
    gone = exchange.call(requests.metadata(name, version=9, create=False)).topics[0]
    assert gone.error_code == 3
    if version >= 5:
        assert deleted.error_message is None
        assert "nowhere" in unknown.error_message
    if version >= 6:
        assert deleted.topic_id == topic_id
        by_id = exchange.call(requests.create_topic(name, version=7)).topics[0].topic_id
        old, new = exchange.call(requests.delete_topics(topic_id, by_id, version=version)).responses
        assert (old.name, old.error_code, new.name, new.error_code) == (None, 100, name, 0)


def check_delete_records(exchange: Exchange, version: int) -> None:
    name = f"emptied-by-v{version}"
    exchange.call(requests.create_topic(name))
    exchange.call(requests.produce(name, {0: batch(b"a", b"b", b"c")}))
    answer = exchange.call(requests.delete_records(name, {0: 2, 9: 0}, version=version))
    moved, unknown = answer.topics[0].partitions
    assert (moved.partition_index, moved.error_code, moved.low_watermark) == (0, 0, 2)
    assert (unknown.partition_index, unknown.error_code, unknown.low_watermark) == (9, 3, -1)
    beyond = exchange.call(requests.delete_records(name, {0: 4}, version=version)).topics[0].partitions[0]
    assert (beyond.error_code, beyond.low_watermark) == (1, -1)
    for policy, code, start in (("compact", 44, -1), ("compact,delete", 0, 1), ("", 0, 1)):
        name = f"kept-by-v{version}-{policy.replace(',', '-')}"
        exchange.call(requests.create_topic(name, configs={"cleanup.policy": policy}))
        exchange.call(requests.produce(name, {0: build_batch([Record(key=b"k", timestamp_ms=1)])}))
        part = exchange.call(requests.delete_records(name, {0: 1}, version=version)).topics[0].partitions[0]
        assert (part.error_code, part.low_watermark) == (code, start), policy


def check_describe_configs(exchange: Exchange, version: int) -> None:
    keys = ["max.message.bytes", "no.such.config"]
    request = requests.describe_configs(
        (TOPIC, "t", keys),
        (TOPIC, "nowhere", None),
        synonyms=True,
        documentation=version >= 3,
        version=version,
    )
    known, unknown = exchange.call(request).results
    assert (known.error_code, unknown.error_code, unknown.configs) == (0, 3, [])
    (config,) = known.configs
    assert (config.name, config.value, config.config_source) == ("max.message.bytes", "1048588", 5)
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [
        ("message.max.bytes", "1048588", 5)
    ]
    assert not config.read_only
    assert not config.is_sensitive
    if version >= 3:
        assert config.config_type == 3
        assert "batch" in config.documentation


def check_create_partitions(exchange: Exchange, version: int) -> None:
    name = f"grown-by-v{version}"
    exchange.call(requests.create_topic(name))
    request = requests.create_partitions((name, 3, None), ("nowhere", 2, None), version=version)
    grown, unknown = exchange.call(request).results
    assert (grown.name, grown.error_code, grown.error_message) == (name, 0, None)
    assert (unknown.name, unknown.error_code) == ("nowhere", 3)
    assert len(exchange.call(requests.metadata(name)).topics[0].partitions) == 3


def check_alter_configs(exchange: Exchange, version: int) -> None:
    name = f"altered-by-v{version}"
    exchange.call(requests.create_topic(name, configs={"segment.ms": "9"}))
    request = requests.alter_configs(
        (TOPIC, name, [("retention.ms", "5")]), (BROKER, "1", [("num.partitions", "5")]), version=version
    )
    changed, refused = exchange.call(request).responses
    assert (changed.error_code, changed.resource_type, changed.resource_name) == (0, TOPIC, name)
    assert (refused.error_code, refused.resource_type, refused.resource_name) == (42, BROKER, "1")
    assert find_set(exchange, name) == {"retention.ms": "5"}


def check_incremental_alter_configs(exchange: Exchange, version: int) -> None:
    name = f"changed-by-v{version}"
    exchange.call(requests.create_topic(name, configs={"segment.ms": "9"}))
    request = requests.change_configs(
        (TOPIC, name, [("retention.ms", SET, "5"), ("cleanup.policy", SUBTRACT, "delete")]),
        (TOPIC, "nowhere", [("retention.ms", SET, "5")]),
        version=version,
    )
    changed, unknown = exchange.call(request).responses
    assert (changed.error_code, changed.error_message, unknown.error_code) == (0, None, 3)
    assert find_set(exchange, name) == {"retention.ms": "5", "cleanup.policy": "", "segment.ms": "9"}


def find_set(exchange: Exchange, topic: str) -> dict[str, str]:
    """Configs of a topic that are not defaults."""
    (result,) = exchange.call(requests.describe_configs((TOPIC, topic, None))).results
    return {config.name: config.value for config in result.configs if config.config_source == 1}


TOPIC_CHECKS: dict[int, Callable[[Any, int], None]] = {
    20: check_delete_topics,
    21: check_delete_records,
    32: check_describe_configs,
    33: check_alter_configs,
    37: check_create_partitions,
    44: check_incremental_alter_configs,
}

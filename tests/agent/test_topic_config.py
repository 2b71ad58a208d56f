"""Topic configs: what is known is kept as it is parsed, what is not is refused by name."""

from pathlib import Path
from uuid import UUID

import pytest

from holdfast.agent.config_changes import ConfigChange, Operation, changing, replacing
from holdfast.agent.config_reference import page
from holdfast.agent.config_view import Source, Synonym, describe_broker, describe_topic
from holdfast.agent.settings import Settings
from holdfast.agent.topic_config import (
    COMPACT,
    TOPIC_CONFIGS,
    check_configs,
    cleanup_policies,
    compaction_config,
    find_retention,
    is_compacted,
    min_insync_replicas,
    segment_bytes,
)
from holdfast.agent.topic_config import DELETE as DELETE_POLICY
from holdfast.control.plane import Partition, Topic
from holdfast.errors import InvalidConfig, InvalidRequest
from holdfast.rules.policy import CompactionConfig

PAGE = Path(__file__).parents[2] / "docs" / "configs.md"
SETTINGS = Settings(data=Path("unused"))
SET, DELETE, APPEND, SUBTRACT = Operation


def topic(replicas: int = 1, **configs: str) -> Topic:
    """A topic of one partition, its configs written with underscores."""
    nodes = tuple(range(1, replicas + 1))
    named = {name.replace("_", "."): value for name, value in configs.items()}
    partition = Partition(replicas=nodes, leader=1, leader_epoch=0)
    return Topic(topic_id=UUID(int=1), name="t", partitions=(partition,), configs=named)


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"max.message.bytes": "1000"},
        {"message.timestamp.type": "LogAppendTime", "compression.type": "producer"},
        {"cleanup.policy": "delete"},
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact,delete"},
        {"retention.ms": "-1", "retention.bytes": "-5"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
        {config.name: config.default for config in TOPIC_CONFIGS.values()},
    ],
)
def test_known_configs_are_kept(configs: dict[str, str | None]) -> None:
    """They come back as they were; every default is itself allowed."""
    assert check_configs(configs) == configs


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("retention.ms", " +5 ", "5"),
        ("segment.ms", "007", "7"),
        ("cleanup.policy", "delete, delete", "delete"),
        ("cleanup.policy", "delete , compact", "delete,compact"),
    ],
)
def test_values_are_kept_as_they_are_parsed(name: str, value: str, kept: str) -> None:
    """Whoever reads a config later meets one form of it."""
    assert check_configs({name: value}) == {name: kept}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.message.bytes", None),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "many"),
        ("max.message.bytes", ""),
        ("max.message.bytes", "1_000"),
        ("max.message.bytes", "\N{ARABIC-INDIC DIGIT ONE}"),
        ("max.message.bytes", str(2**31)),
        ("retention.ms", "-2"),
        ("retention.ms", str(2**63)),
        ("segment.bytes", "1048575"),
        ("min.insync.replicas", "0"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.compaction.lag.ms", str(2**63 - 1) + "0"),
        ("message.timestamp.type", "createtime"),
        ("compression.type", "zstd"),
        ("cleanup.policy", "burn"),
        ("cleanup.policy", "compacted"),
        ("cleanup.policy", "Compact"),
        ("cleanup.policy", "compact,"),
        ("no.such.config", "1"),
        ("no.such.config", None),
    ],
)
def test_what_would_not_be_obeyed_is_refused_by_name(name: str, value: str | None) -> None:
    """A config that is silently ignored would be worse than an error."""
    with pytest.raises(InvalidConfig, match=name):
        check_configs({name: value})


def test_lags_that_contradict_each_other_are_refused() -> None:
    """A record could neither wait nor be compacted."""
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms 6 is over"):
        check_configs({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


def test_changes_leave_the_rest_alone() -> None:
    """Set, delete, append and subtract, on top of what is there or of the default."""
    present = {"retention.ms": "5", "segment.ms": "6"}
    changes = [
        ConfigChange("segment.ms", DELETE, None),
        ConfigChange("max.message.bytes", SET, "7"),
        ConfigChange("cleanup.policy", SUBTRACT, "delete"),
    ]
    changed = changing(changes)(present)
    assert changed == {"retention.ms": "5", "max.message.bytes": "7", "cleanup.policy": ""}
    again = changing([ConfigChange("cleanup.policy", APPEND, "delete")])
    assert again(changed)["cleanup.policy"] == again({})["cleanup.policy"] == "delete"
    assert replacing([("segment.ms", "9")])(changed) == {"segment.ms": "9"}


def test_changes_that_make_no_sense_are_refused() -> None:
    """Nulls and names that come twice are the request's fault, lists that are none the config's."""
    for changes in (
        [ConfigChange("retention.ms", SET, None)],
        [ConfigChange("retention.ms", SET, "5"), ConfigChange("retention.ms", DELETE, None)],
    ):
        with pytest.raises(InvalidRequest):
            changing(changes)
    with pytest.raises(InvalidRequest):
        replacing([("retention.ms", None)])
    with pytest.raises(InvalidConfig, match="no list"):
        changing([ConfigChange("retention.ms", APPEND, "5")])({})


def test_retention_of_a_topic() -> None:
    """Kafka's seven days unless told otherwise; no policy, no limit."""
    assert find_retention(topic()) == (604_800_000, None)
    assert find_retention(topic(retention_ms="0", retention_bytes="9")) == (0, 9)
    assert find_retention(topic(retention_ms="-1", retention_bytes="-9")) == (None, None)
    assert find_retention(topic(retention_ms="5", cleanup_policy="")) == (None, None)
    assert find_retention(topic(retention_ms="5", cleanup_policy="compact")) == (None, None)
    for both in ("compact,delete", "delete,compact"):
        assert find_retention(topic(retention_ms="5", cleanup_policy=both)) == (5, None)


@pytest.mark.parametrize(
    ("policy", "policies"),
    [(None, [DELETE_POLICY]), ("", []), ("compact", [COMPACT]), ("delete,compact", [DELETE_POLICY, COMPACT])],
)
def test_policies_of_a_topic(policy: str | None, policies: list[str]) -> None:
    """None, one or both; the default is to delete."""
    found = topic() if policy is None else topic(cleanup_policy=policy)
    assert cleanup_policies(found) == policies
    assert is_compacted(found) == (COMPACT in policies)


def test_compaction_of_a_topic() -> None:
    """Kafka's defaults, which the rules have too, unless told otherwise."""
    assert compaction_config(topic()) == CompactionConfig()
    assert segment_bytes(topic()) == 1 << 30
    chosen = topic(
        delete_retention_ms="1",
        min_compaction_lag_ms="2",
        max_compaction_lag_ms="3",
        min_cleanable_dirty_ratio="0.25",
        segment_ms="4",
        segment_bytes="2000000",
    )
    assert compaction_config(chosen) == CompactionConfig(
        delete_retention_ms=1,
        min_compaction_lag_ms=2,
        max_compaction_lag_ms=3,
        min_cleanable_dirty_ratio=0.25,
        segment_ms=4,
    )
    assert segment_bytes(chosen) == 2_000_000


def test_description_tells_values_from_defaults() -> None:
    """What the topic says comes first, then the node's setting, then the default."""
    described = {
        entry.name: entry for entry in describe_topic(topic(replicas=3, segment_bytes="2000000"), SETTINGS)
    }
    assert described.keys() == TOPIC_CONFIGS.keys()
    chosen = described["segment.bytes"]
    assert (chosen.value, chosen.source) == ("2000000", Source.TOPIC)
    assert chosen.synonyms == (
        Synonym("segment.bytes", "2000000", Source.TOPIC),
        Synonym("log.segment.bytes", "1073741824", Source.DEFAULT),
    )
    three = topic(replicas=3)
    assert (
        described["min.insync.replicas"].value == str(min_insync_replicas(three, three.partitions[0])) == "2"
    )
    larger = Settings(data=Path("unused"), message_bytes_max=5_000_000)
    (limit,) = (entry for entry in describe_topic(topic(), larger) if entry.name == "max.message.bytes")
    assert (limit.value, limit.source) == ("5000000", Source.STATIC_BROKER)


def test_settings_of_a_node_are_read_only() -> None:
    """Each under one of Kafka's names."""
    entries = list(describe_broker(2, SETTINGS))
    assert all(entry.read_only for entry in entries)
    values = {entry.name: entry.value for entry in entries}
    assert len(values) == len(entries)
    assert (values["node.id"], values["log.retention.check.interval.ms"]) == ("2", "300000")


def test_page_is_current() -> None:
    """docs/configs.md is what the table says; its first lines say how to write it anew."""
    assert PAGE.read_text() == "".join(f"{line}\n" for line in page())

"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: values, sources, changes and refusals."""

from typing import Any

import pytest

from holdfast.agent.topic_config import MIN_INSYNC_REPLICAS, TOPIC_CONFIGS
from tests.agent import requests
from tests.agent.raw import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tests.kafka.peers import Peer, Peers

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)

# Kafka keeps a default for all brokers of this one, which is a source that we do not have.
COMPARED = sorted(TOPIC_CONFIGS.keys() - {MIN_INSYNC_REPLICAS})


def test_description(peers: Peers) -> None:
    """Values, types, sources and synonyms of a topic's configs, set or not, in every version."""
    name = peers.create(
        "described.configs", retention_ms="1000", cleanup_policy="delete", segment_bytes="2000000"
    )
    for keys in (COMPARED, ["retention.ms", "no.such"], ["no.such"]):
        for synonyms in (False, True):
            peers.agree_in_all_versions(
                DescribeConfigsRequest,
                lambda peer, version, keys, synonyms: requests.describe_configs(
                    (TOPIC, name, keys), synonyms=synonyms, version=version
                ),
                keys,
                synonyms,
            )


@pytest.mark.parametrize(
    ("kind", "name"),
    [(TOPIC, "absent"), (TOPIC, "bad name"), (TOPIC, ""), (BROKER, "9"), (BROKER, "x"), (0, "t"), (7, "t")],
)
def test_unknown_resources(peers: Peers, kind: int, name: str) -> None:
    """What does not exist has Kafka's code, in every request."""
    peers.agree_in_all_versions(
        DescribeConfigsRequest,
        lambda peer, version: requests.describe_configs((kind, name, None), version=version),
    )
    for validate_only in (True, False):
        peers.agree_in_all_versions(
            IncrementalAlterConfigsRequest,
            lambda peer, version, only: requests.change_configs(
                (kind, name, [("retention.ms", SET, "5")]), validate_only=only, version=version
            ),
            validate_only,
        )


def test_settings_of_a_node_stay(peers: Peers) -> None:
    """A setting that Kafka cannot change while it runs either; the defaults of all nodes are none."""
    peers.agree(lambda peer: requests.change_configs((BROKER, "1", [("num.partitions", SET, "5")])))
    peers.agree(lambda peer: requests.change_configs((BROKER, "", [("num.partitions", SET, "5")])))
    peers.agree(lambda peer: requests.describe_configs((BROKER, "", ["num.partitions"])))


CHANGES: dict[str, list[tuple[str, int, str | None]]] = {
    "set": [("retention.ms", SET, "5")],
    "null": [("retention.ms", SET, None)],
    "unknown": [("no.such", SET, "5")],
    "delete unknown": [("no.such", DELETE, None)],
    "delete": [("retention.ms", DELETE, None)],
    "delete with a value": [("retention.ms", DELETE, "5")],
    "twice": [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)],
    "append to a number": [("retention.ms", APPEND, "5")],
    "append what is there": [("cleanup.policy", APPEND, "delete")],
    "append nonsense": [("cleanup.policy", APPEND, "burn")],
    "subtract": [("cleanup.policy", SUBTRACT, "delete")],
    "append again": [("cleanup.policy", APPEND, "delete")],
    "subtract what is not there": [("cleanup.policy", SUBTRACT, "compact")],
    "empty policy": [("cleanup.policy", SET, "")],
    "the same policy twice": [("cleanup.policy", SET, "delete,delete")],
    "spaces": [("retention.ms", SET, " 5 ")],
    "plus": [("retention.ms", SET, "+5")],
    "empty number": [("retention.ms", SET, "")],
    "fraction": [("retention.ms", SET, "1.5")],
    "over a long": [("retention.ms", SET, str(2**63))],
    "retention below none": [("retention.ms", SET, "-2")],
    "negative bytes": [("retention.bytes", SET, "-5")],
    "small segment": [("segment.bytes", SET, "1000")],
    "least segment": [("segment.bytes", SET, "1048576")],
    "segment of no time": [("segment.ms", SET, "0")],
    "negative jitter": [("segment.jitter.ms", SET, "-1")],
    "small index": [("segment.index.bytes", SET, "3")],
    "lags the wrong way round": [("max.compaction.lag.ms", SET, "5"), ("min.compaction.lag.ms", SET, "6")],
    "ratio over 1": [("min.cleanable.dirty.ratio", SET, "1.5")],
    "ratio": [("min.cleanable.dirty.ratio", SET, "1")],
    "no replica": [("min.insync.replicas", SET, "0")],
    "more replicas than there are": [("min.insync.replicas", SET, "9")],
    "good and bad": [("segment.ms", SET, "77"), ("retention.ms", SET, "x")],
    "nothing": [],
}


@pytest.mark.parametrize("version", range(2))
def test_changes(peers: Peers, version: int) -> None:
    """Each change, only validated and then made; and what the topic has after it."""
    assert version in peers.versions(IncrementalAlterConfigsRequest)
    name = peers.create(f"changed.{version}", retention_ms="9")

    def change(peer: Peer, validate_only: bool, changes: list[tuple[str, int, str | None]]) -> Any:
        return requests.change_configs((TOPIC, name, changes), validate_only=validate_only, version=version)

    for changes in CHANGES.values():
        for validate_only in (True, False):
            peers.agree(change, validate_only, changes)
            peers.come_to_agree(lambda peer: requests.describe_configs((TOPIC, name, COMPARED)))


REPLACEMENTS: dict[str, list[tuple[str, str | None]]] = {
    "one": [("retention.ms", "7")],
    "another": [("segment.ms", "8")],
    "null": [("retention.ms", None)],
    "twice": [("retention.ms", "1"), ("retention.ms", "2")],
    "unknown": [("no.such", "7")],
    "good and bad": [("segment.ms", "77"), ("retention.ms", "x")],
    "none": [],
}


@pytest.mark.parametrize("version", range(3))
def test_replacements(peers: Peers, version: int) -> None:
    """AlterConfigs leaves only what it names."""
    assert version in peers.versions(AlterConfigsRequest)
    name = peers.create(f"replaced.{version}", retention_ms="9")

    def replace(peer: Peer, validate_only: bool, configs: list[tuple[str, str | None]]) -> Any:
        return requests.alter_configs((TOPIC, name, configs), validate_only=validate_only, version=version)

    for configs in REPLACEMENTS.values():
        for validate_only in (True, False):
            peers.agree(replace, validate_only, configs)
            peers.come_to_agree(lambda peer: requests.describe_configs((TOPIC, name, COMPARED)))


def test_several_resources(peers: Peers) -> None:
    """Each is changed or refused on its own; a resource that is named twice is refused."""
    first, second = peers.create("several.1"), peers.create("several.2")
    change: Any = [("retention.ms", SET, "5")]
    peers.agree(
        lambda peer: requests.change_configs(
            (TOPIC, first, change), (TOPIC, "absent", change), (TOPIC, second, change)
        )
    )
    peers.agree(lambda peer: requests.change_configs((TOPIC, first, change), (TOPIC, first, change)))

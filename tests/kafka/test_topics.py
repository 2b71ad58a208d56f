"""Metadata and CreateTopics: what there is, what comes into being, what is refused."""

from typing import Any
from uuid import UUID

import pytest

from tests.agent import requests
from tests.agent.raw import CreateTopicsRequest, MetadataRequest
from tests.kafka.peers import UNKNOWN_ID, Peer, Peers

CREATABLE: Any = CreateTopicsRequest.CreatableTopic
ASSIGNMENT: Any = CREATABLE.CreatableReplicaAssignment


def creation(version: int, *topics: dict[str, Any], validate_only: bool = False) -> Any:
    """CreateTopics for topics given by what differs from a plain one."""
    plain = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    made = [CREATABLE(**(plain | topic), version=version) for topic in topics]
    return CreateTopicsRequest(topics=made, timeout_ms=5000, validate_only=validate_only, version=version)


def config(version: int, **configs: str | None) -> list[Any]:
    """Topic configs, with underscores for dots."""
    return [
        CREATABLE.CreatableTopicConfig(name=name.replace("_", "."), value=value, version=version)
        for name, value in configs.items()
    ]


def assignments(version: int, *nodes: list[int], first: int = 0) -> dict[str, Any]:
    """Partitions by hand, each on the nodes named."""
    return {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            ASSIGNMENT(partition_index=index, broker_ids=ids, version=version)
            for index, ids in enumerate(nodes, first)
        ],
    }


REFUSED: dict[str, Any] = {
    "bad character": lambda version: {"name": "no spaces"},
    "empty name": lambda version: {"name": ""},
    "dot": lambda version: {"name": "."},
    "two dots": lambda version: {"name": ".."},
    "name of 250": lambda version: {"name": "x" * 250},
    "no partitions": lambda version: {"num_partitions": 0},
    "fewer than none": lambda version: {"num_partitions": -2},
    "three replicas": lambda version: {"replication_factor": 3},
    "no replicas": lambda version: {"replication_factor": 0},
    "fewer replicas than none": lambda version: {"replication_factor": -2},
    "unknown config": lambda version: {"configs": config(version, no_such_config="1")},
    "bad number": lambda version: {"configs": config(version, max_message_bytes="many")},
    "negative size": lambda version: {"configs": config(version, max_message_bytes="-1")},
    "bad choice": lambda version: {"configs": config(version, message_timestamp_type="Never")},
    "bad policy": lambda version: {"configs": config(version, cleanup_policy="burn")},
    "null config": lambda version: {"configs": config(version, cleanup_policy=None)},
    "unknown node": lambda version: assignments(version, [9]),
    "node named twice": lambda version: assignments(version, [1, 1]),
    "assignment without nodes": lambda version: assignments(version, []),
    "assignment begins at 1": lambda version: assignments(version, [1], first=1),
    "assignment and count": lambda version: assignments(version, [1]) | {"num_partitions": 1},
    "assignment and factor": lambda version: assignments(version, [1]) | {"replication_factor": 1},
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_refusals(peers: Peers, case: str, validate_only: bool) -> None:
    """CreateTopics refuses with Kafka's code and fields."""
    peers.agree_in_all_versions(
        CreateTopicsRequest,
        lambda peer, version: creation(
            version,
            {"name": f"refused.{version}.{validate_only}." + case.replace(" ", "-")} | REFUSED[case](version),
            validate_only=validate_only,
        ),
    )


def test_creation(peers: Peers) -> None:
    """A good topic is created once; again, it exists. By hand, by default and twice in one request."""
    for version in peers.versions(CreateTopicsRequest):
        plain = {"name": f"plain.{version}", "num_partitions": 2}
        default = {"name": f"default.{version}", "num_partitions": -1, "replication_factor": -1}
        by_hand = {"name": f"by-hand.{version}"} | assignments(version, [1], [1])
        for topics in ([plain], [plain], [default, by_hand], [plain | {"name": "twice"}] * 2):
            for validate_only in (True, False):
                # Our topics have fewer configs than Kafka's.
                peers.agree(
                    lambda peer, *arguments: creation(*arguments[1:], validate_only=arguments[0]),
                    validate_only,
                    version,
                    *topics,
                    ignoring="configs",
                )


def test_validation_changes_nothing(peers: Peers) -> None:
    """After validate_only the topic is not there."""
    peers.agree(lambda peer: creation(7, {"name": "imagined"}, validate_only=True), ignoring="configs")
    peers.agree(lambda peer: requests.metadata("imagined", version=9, create=False))


def test_metadata_of_topics(peers: Peers) -> None:
    """Known topics in the order asked, unknown ones with their code, none twice."""
    peers.create("described", partitions=3)
    for names in (["described"], ["absent", "described"], ["described", "described"], ["bad name"], [""]):
        peers.agree_in_all_versions(
            MetadataRequest,
            # Before v4 every question creates.
            lambda peer, version, *names: requests.metadata(
                *(names if version >= 4 else ["described"]), version=version, create=False
            ),
            *names,
        )


def test_metadata_of_nothing(peers: Peers) -> None:
    """An empty list asks for no topic from v1 on."""
    peers.agree_in_all_versions(
        MetadataRequest, lambda peer, version: requests.metadata(version=max(version, 1))
    )


def test_metadata_by_id(peers: Peers) -> None:
    """From v12 on a topic can be asked for by its id; an unknown one has its own code."""
    topic = peers.create("by-id", partitions=2)

    def ask(peer: Peer, version: int, topic_id: UUID) -> Any:
        wanted = MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None, version=version)
        return MetadataRequest(topics=[wanted], allow_auto_topic_creation=False, version=version)

    for version in set(peers.versions(MetadataRequest)) & {12, 13}:
        peers.agree(lambda peer, version: ask(peer, version, peer.topic_ids[topic]), version)
        peers.agree(ask, version, UNKNOWN_ID)


def test_bad_names_are_not_created(peers: Peers) -> None:
    """Auto-creation refuses what CreateTopics would."""
    for name in ("bad name", "", ".", "x" * 250):
        peers.agree_in_all_versions(
            MetadataRequest, lambda peer, version, name: requests.metadata(name, version=version), name
        )

"""Topics and their configs, changed and described through Kafka's admin requests."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

from holdfast.client.cluster import NO_NODE, Cluster
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed, HoldfastError, TransientRefusal

CREATE_TOPICS_VERSIONS: Final = (2, 7)
DELETE_TOPICS_VERSIONS: Final = (1, 5)
"""From 6 on topics are named by id as well."""
DESCRIBE_CONFIGS_VERSIONS: Final = (1, 4)
ALTER_CONFIGS_VERSIONS: Final = (0, 1)

BROKERS_CHOICE: Final = -1
"""As a number of partitions or replicas: what the broker holds for right (KIP-464)."""

REQUEST_MS_MAX: Final = 10_000
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_SET: Final = 0
_DELETE: Final = 1


class ConfigSource(IntEnum):
    """Where a config's value comes from, by its number on the wire."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    BROKER_DEFAULT = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config of a topic; the value of a sensitive one is not told."""

    name: str
    value: str | None
    source: ConfigSource


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = BROKERS_CHOICE,
    replication_factor: int = BROKERS_CHOICE,
    configs: Mapping[str, str] | None = None,
    assignments: Mapping[int, Iterable[int]] | None = None,
) -> None:
    """Creates the topic and returns when each of its partitions has a leader: it can be used at once.

    With `assignments`, the brokers of each partition, the numbers of partitions and replicas follow from those.
    """
    topic_part = CreateTopicsRequest.CreatableTopic
    topic = topic_part(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            topic_part.CreatableReplicaAssignment(partition_index=number, broker_ids=list(nodes))
            for number, nodes in (assignments or {}).items()
        ],
        configs=[
            topic_part.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_MS_MAX, validate_only=False)
    answer = cluster.controller().send(request, versions=CREATE_TOPICS_VERSIONS)
    for each in answer.topics:
        _check(each, f"topic {each.name!r}")
    _await_leaders(cluster, name)


def delete_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, HoldfastError | None]:
    """Deletes each topic that can be; what stood against it, or None, by name."""
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=REQUEST_MS_MAX)
    answer = cluster.controller().send(request, versions=DELETE_TOPICS_VERSIONS)
    return {
        each.name: refusal(each.error_code, f"topic {each.name!r}", each.error_message)
        if each.error_code
        else None
        for each in answer.responses
    }


def describe_configs(cluster: Cluster, topic: str) -> list[ConfigEntry]:
    """Every config of the topic, defaults among them, by name."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=False, include_documentation=False
    )
    answer = cluster.any_broker().send(request, versions=DESCRIBE_CONFIGS_VERSIONS)
    found = _only(answer.results, f"configs of topic {topic!r}")
    entries = [
        ConfigEntry(name=each.name, value=each.value, source=_source(each.config_source))
        for each in found.configs
    ]
    return sorted(entries, key=lambda entry: entry.name)


def describe_configs_on(
    cluster: Cluster, node: int, topics: Iterable[str], names: Iterable[str]
) -> dict[str, dict[str, ConfigEntry] | HoldfastError]:
    """Some configs of some topics as one broker applies them; by topic, or what stands against telling them."""
    resource_part, wanted = DescribeConfigsRequest.DescribeConfigsResource, list(names)
    request = DescribeConfigsRequest(
        resources=[
            resource_part(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=wanted)
            for topic in topics
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    answer = cluster.broker(node).send(request, versions=DESCRIBE_CONFIGS_VERSIONS)
    return {
        each.resource_name: refusal(
            each.error_code, f"configs of topic {each.resource_name!r}", each.error_message
        )
        if each.error_code
        else {
            entry.name: ConfigEntry(name=entry.name, value=entry.value, source=_source(entry.config_source))
            for entry in each.configs
        }
        for each in answer.results
    }


def find_broker_config(cluster: Cluster, node: int, name: str) -> str | None:
    """The value of one config of a broker; None where it knows none of that name, or does not tell."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=[name]
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=False, include_documentation=False
    )
    answer = cluster.broker(node).send(request, versions=DESCRIBE_CONFIGS_VERSIONS)
    found = _only(answer.results, f"configs of broker {node}")
    return next((each.value for each in found.configs if each.name == name), None)


def alter_configs(cluster: Cluster, topic: str, *, put: Mapping[str, str], unset: Collection[str]) -> None:
    """Sets some configs and lets others fall back to their defaults, all or nothing; the rest stays."""
    resource_part = IncrementalAlterConfigsRequest.AlterConfigsResource
    config_part = resource_part.AlterableConfig
    changes = [config_part(name=key, config_operation=_SET, value=value) for key, value in put.items()]
    changes += [config_part(name=key, config_operation=_DELETE, value=None) for key in unset]
    resource = resource_part(resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = cluster.controller().send(request, versions=ALTER_CONFIGS_VERSIONS)
    _only(answer.responses, f"configs of topic {topic!r}")


def try_configs(
    cluster: Cluster, topics: Iterable[str], put: Mapping[str, str]
) -> dict[str, HoldfastError | None]:
    """What would stand against setting these configs, or None, by topic; nothing is changed."""
    resource_part = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [
        resource_part.AlterableConfig(name=key, config_operation=_SET, value=value)
        for key, value in put.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource_part(resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=changes)
            for topic in topics
        ],
        validate_only=True,
    )
    answer = cluster.controller().send(request, versions=ALTER_CONFIGS_VERSIONS)
    return {
        each.resource_name: refusal(
            each.error_code, f"configs of topic {each.resource_name!r}", each.error_message
        )
        if each.error_code
        else None
        for each in answer.responses
    }


def _await_leaders(cluster: Cluster, name: str) -> None:
    """Brokers learn of a new topic one after the other, the one that is asked next perhaps last."""
    patience = cluster.patience()
    while True:
        topic = cluster.metadata([name]).topics.get(name)
        if topic and topic.partitions and all(each.leader != NO_NODE for each in topic.partitions.values()):
            return
        patience.wait(
            TransientRefusal(f"topic {name!r} is created, but not all of its partitions have a leader")
        )


def _only(results: list[Any], where: str) -> Any:
    if len(results) != 1:
        raise ConnectionFailed(f"{where}: the broker gave {len(results)} answers to one question")
    _check(results[0], where)
    return results[0]


def _check(result: Any, where: str) -> None:
    if result.error_code:
        raise refusal(result.error_code, where, result.error_message)


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource.__members__.values() else ConfigSource.UNKNOWN

"""Requests in kafka-python's classes, with the fields that tests care about."""

from typing import Any
from uuid import UUID

from tests.agent.raw import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
)

Parts = dict[int, bytes | None]


def produce(
    topic: str | UUID, parts: Parts, *, version: int = 9, acks: int = -1, timeout_ms: int = 1000
) -> Any:
    """Batches for partitions of one topic."""
    data: Any = ProduceRequest.TopicProduceData
    partitions = [
        data.PartitionProduceData(index=index, records=records, version=version)
        for index, records in parts.items()
    ]
    topics = [data(**named(topic, "name"), partition_data=partitions, version=version)]
    return ProduceRequest(
        transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=topics, version=version
    )


def fetch(
    topic: str | UUID,
    offsets: dict[int, int],
    *,
    version: int = 11,
    wait_ms: int = 0,
    bytes_min: int = 1,
    bytes_max: int = 1 << 26,
    partition_bytes_max: int = 1 << 20,
    committed: bool = False,
) -> Any:
    """Offsets of partitions of one topic, in the order given."""
    wanted: Any = FetchRequest.FetchTopic
    partitions = [
        wanted.FetchPartition(
            partition=partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_bytes_max,
            version=version,
        )
        for partition, offset in offsets.items()
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        isolation_level=int(committed),
        session_id=0,
        session_epoch=-1,
        topics=[wanted(**named(topic, "topic"), partitions=partitions, version=version)],
        forgotten_topics_data=[],
        rack_id="",
        version=version,
    )


def metadata(*names: str, version: int = 9, create: bool = True) -> Any:
    """Topics by name, created unless told otherwise."""
    topics = [MetadataRequest.MetadataRequestTopic(name=name, version=version) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create, version=version)


def create_topic(
    name: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    configs: dict[str, str] | None = None,
    assignments: dict[int, list[int]] | None = None,
    version: int = 5,
) -> Any:
    """One topic; `assignments` name the nodes of each partition, instead of the two numbers."""
    topic: Any = CreateTopicsRequest.CreatableTopic
    places = [
        topic.CreatableReplicaAssignment(partition_index=partition, broker_ids=nodes, version=version)
        for partition, nodes in (assignments or {}).items()
    ]
    items = [
        topic.CreatableTopicConfig(name=key, value=value, version=version)
        for key, value in (configs or {}).items()
    ]
    created = topic(
        name=name,
        num_partitions=-1 if places else partitions,
        replication_factor=-1 if places else replicas,
        assignments=places,
        configs=items,
        version=version,
    )
    return CreateTopicsRequest(topics=[created], timeout_ms=1000, validate_only=False, version=version)


def delete_topics(*topics: str | UUID, version: int = 6) -> Any:
    """Topics by name, or from v6 on by id."""
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(topics), timeout_ms=1000, version=version)
    wanted = [
        DeleteTopicsRequest.DeleteTopicState(**{"name": None, **named(topic, "name")}, version=version)
        for topic in topics
    ]
    return DeleteTopicsRequest(topics=wanted, timeout_ms=1000, version=version)


def create_partitions(
    *topics: tuple[str, int, list[list[int]] | None], validate_only: bool = False, version: int = 3
) -> Any:
    """Topics with the count that they shall have and, perhaps, nodes for the new partitions."""
    wanted: Any = CreatePartitionsRequest.CreatePartitionsTopic

    def assigned(nodes: list[int]) -> Any:
        return wanted.CreatePartitionsAssignment(broker_ids=nodes, version=version)

    growing = [
        wanted(
            name=name,
            count=count,
            assignments=None if chosen is None else [assigned(nodes) for nodes in chosen],
            version=version,
        )
        for name, count, chosen in topics
    ]
    return CreatePartitionsRequest(
        topics=growing, timeout_ms=1000, validate_only=validate_only, version=version
    )


def delete_records(topic: str, offsets: dict[int, int], *, version: int = 2) -> Any:
    """New log starts of partitions of one topic."""
    wanted: Any = DeleteRecordsRequest.DeleteRecordsTopic
    partitions = [
        wanted.DeleteRecordsPartition(partition_index=partition, offset=offset, version=version)
        for partition, offset in offsets.items()
    ]
    topics = [wanted(name=topic, partitions=partitions, version=version)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=1000, version=version)


def describe_configs(
    *resources: tuple[int, str, list[str] | None],
    synonyms: bool = False,
    documentation: bool = False,
    version: int = 4,
) -> Any:
    """Resources by type and name, with the configs wanted of each."""
    wanted: Any = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            wanted(resource_type=kind, resource_name=name, configuration_keys=keys, version=version)
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
        version=version,
    )


def alter_configs(
    *resources: tuple[int, str, list[tuple[str, str | None]]], validate_only: bool = False, version: int = 2
) -> Any:
    """Resources by type and name, with all configs that each shall have."""
    wanted: Any = AlterConfigsRequest.AlterConfigsResource
    changed = [
        wanted(
            resource_type=kind,
            resource_name=name,
            configs=[
                wanted.AlterableConfig(name=key, value=value, version=version) for key, value in configs
            ],
            version=version,
        )
        for kind, name, configs in resources
    ]
    return AlterConfigsRequest(resources=changed, validate_only=validate_only, version=version)


def change_configs(
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    validate_only: bool = False,
    version: int = 1,
) -> Any:
    """Resources by type and name, with config, operation and value of each change."""
    wanted: Any = IncrementalAlterConfigsRequest.AlterConfigsResource
    changed = [
        wanted(
            resource_type=kind,
            resource_name=name,
            configs=[
                wanted.AlterableConfig(name=key, config_operation=operation, value=value, version=version)
                for key, operation, value in changes
            ],
            version=version,
        )
        for kind, name, changes in resources
    ]
    return IncrementalAlterConfigsRequest(resources=changed, validate_only=validate_only, version=version)


def list_offsets(topic: str, times: dict[int, int], *, version: int = 7, committed: bool = False) -> Any:
    """A time, or one of the special values, for each partition."""
    wanted: Any = ListOffsetsRequest.ListOffsetsTopic
    partitions = [
        wanted.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=-1, timestamp=time, version=version
        )
        for partition, time in times.items()
    ]
    topics = [wanted(name=topic, partitions=partitions, version=version)]
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=int(committed), topics=topics, timeout_ms=1000, version=version
    )


def commit_offset(
    group: str,
    topic: str | UUID,
    offset: int,
    *,
    metadata: str | None = "",
    version: int = 8,
    partition: int = 0,
    generation: int = -1,
    member_id: str = "",
) -> Any:
    """One position of a group."""
    wanted: Any = OffsetCommitRequest.OffsetCommitRequestTopic
    part = wanted.OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=-1,
        committed_metadata=metadata,
        version=version,
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[wanted(**named(topic, "name"), partitions=[part], version=version)],
        version=version,
    )


def fetch_offset(
    group: str, topic: str | UUID, *, version: int = 8, partition: int = 0, stable: bool = False
) -> Any:
    """One position of a group, in the form that the version has."""
    if version >= 8:
        wanted: Any = OffsetFetchRequest.OffsetFetchRequestGroup
        topics = [
            wanted.OffsetFetchRequestTopics(
                **named(topic, "name"), partition_indexes=[partition], version=version
            )
        ]
        groups = [wanted(group_id=group, member_id=None, member_epoch=-1, topics=topics, version=version)]
        return OffsetFetchRequest(groups=groups, require_stable=stable, version=version)
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[partition], version=version)
    ]
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable, version=version)


def named(topic: str | UUID, field: str) -> dict[str, Any]:
    """A topic by name or by id, as new versions want it."""
    return {"topic_id": topic} if isinstance(topic, UUID) else {field: topic}

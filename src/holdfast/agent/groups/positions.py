"""Positions of a group as OffsetCommit and TxnOffsetCommit bring them: read alike, answered alike."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from holdfast.agent.catalog import Catalog, check_partition
from holdfast.errors import HoldfastError, OffsetMetadataTooLarge
from holdfast.store.footer import GroupOffsetCommitted

Codes = dict[tuple[int, int], int]
"""Error codes by place of the topic in the request and partition."""


class PlannedPositions(NamedTuple):
    """The positions of a request that may be stored, and a code for each one that it names."""

    offsets: list[GroupOffsetCommitted]
    codes: Codes

    def all_refused(self, code: int) -> Codes:
        """The codes if none is stored after all: each keeps the refusal that it has met."""
        return {key: known or code for key, known in self.codes.items()}


def plan_positions(
    catalog: Catalog, request: Any, *, metadata_bytes_max: int, now_ms: int, by_topic_id: bool = False
) -> PlannedPositions:
    """Each position as it would be stored, or why it cannot be."""
    planned = PlannedPositions([], {})
    for place, topic in enumerate(request.topics):
        named = topic.topic_id if by_topic_id else topic.name
        for part in topic.partitions:
            code = 0
            try:
                topic_id = _check(catalog, named, part, metadata_bytes_max)
                planned.offsets.append(_position(request.group_id, topic_id, part, now_ms))
            except HoldfastError as refusal:
                code = refusal.kafka_code
            planned.codes[place, part.partition_index] = code
    return planned


def answer_positions(
    request: Any,
    codes: Codes,
    *,
    response_class: Any,
    topic_class: Any,
    partition_class: Any,
    topic_fields: Sequence[str] = ("name",),
) -> Any:
    """A response with a code for each position of the request, in its order."""
    version: int = request.API_VERSION
    topics = [
        topic_class(
            **{field: getattr(topic, field) for field in topic_fields},
            partitions=[
                partition_class(
                    partition_index=part.partition_index,
                    error_code=codes[place, part.partition_index],
                    version=version,
                )
                for part in topic.partitions
            ],
            version=version,
        )
        for place, topic in enumerate(request.topics)
    ]
    return response_class(throttle_time_ms=0, topics=topics, version=version)


def _check(catalog: Catalog, named: str | UUID, part: Any, metadata_bytes_max: int) -> UUID:
    topic = catalog.get(named)
    check_partition(topic, part.partition_index)
    if len((part.committed_metadata or "").encode()) > metadata_bytes_max:
        raise OffsetMetadataTooLarge(f"metadata of an offset may take {metadata_bytes_max} bytes")
    return topic.topic_id


def _position(group: str, topic_id: UUID, part: Any, now_ms: int) -> GroupOffsetCommitted:
    leader_epoch = part.committed_leader_epoch
    return GroupOffsetCommitted(
        group,
        topic_id,
        part.partition_index,
        part.committed_offset,
        -1 if leader_epoch is None else leader_epoch,
        # Null comes back as the empty string, as in Kafka.
        part.committed_metadata or "",
        now_ms,
    )

"""ListOffsets (key 2), v1-11.

Behaviour: earliest (-2), latest (-1), a time (the first record at or after it), the greatest timestamp (-3,
KIP-734). Nothing is tiered: earliest local (-4, KIP-405) is the earliest, and there is no latest tiered (-5,
KIP-1005) nor earliest pending upload (-6, KIP-1023). Times are exact per record. No record: offset -1. A reader of
committed records gets the last stable offset as the latest, and nothing beyond it.

Versions: v4 the leader epoch that the client knows (KIP-320); v6 flexible; v7 greatest timestamp; v8 earliest
local; v9 latest tiered; v11 pending upload. A name that the version does not have is UNSUPPORTED_VERSION.
"""

from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_leader_epoch
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.registry import serves
from holdfast.control.plane import Extent
from holdfast.control.replicas import Segment
from holdfast.errors import HoldfastError, StoreFailed, UnsupportedVersion
from holdfast.records.batch import BatchView
from holdfast.records.build import read_records
from holdfast.records.walk import walk

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

NAMES_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version from which on each name may be asked for."""

DEBUGGING_REPLICA = -2
"""A reader that asks any replica, not only the leader."""

READ_COMMITTED = 1

NOT_FOUND = (-1, -1)


@serves(ListOffsetsRequest, first=1, last=11)
async def list_offsets(agent: Agent, request: Any) -> Any:
    """An offset and a time for each partition asked for."""
    version: int = request.API_VERSION
    topics = [
        ListOffsetsResponse.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[_answer(agent, request, topic.name, part) for part in topic.partitions],
            version=version,
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(throttle_time_ms=0, topics=topics, version=version)


def _answer(agent: Agent, request: Any, name: str, part: Any) -> Any:
    version: int = request.API_VERSION
    code, timestamp, offset, leader_epoch = 0, -1, -1, -1
    try:
        if part.timestamp < 0 and version < NAMES_SINCE.get(part.timestamp, version + 1):
            raise UnsupportedVersion(f"no offset is known by the name of {part.timestamp} in v{version}")
        topic = agent.catalog.get(name)
        serves = agent.check_holds if request.replica_id == DEBUGGING_REPLICA else agent.check_leads
        check_leader_epoch(serves(topic, part.partition_index), part.current_leader_epoch)
        bounds = agent.plane.find_bounds(topic.topic_id, part.partition_index)
        end = bounds.last_stable if request.isolation_level == READ_COMMITTED else bounds.end
        if part.timestamp == LATEST:
            offset = end
        elif part.timestamp in (EARLIEST, EARLIEST_LOCAL):
            offset = bounds.start
        else:
            key = PartitionKey(topic.topic_id, part.partition_index)
            try:
                timestamp, offset = _find_by_time(agent, key, bounds.start, part.timestamp)
            except StoreFailed:
                # A keeper may have put other files in the place of those that were found: look again.
                timestamp, offset = _find_by_time(agent, key, bounds.start, part.timestamp)
            if offset >= end:
                timestamp, offset = NOT_FOUND
        leader_epoch = bounds.leader_epoch if offset >= 0 else -1
    except HoldfastError as refusal:
        code = refusal.kafka_code
    return ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse(
        partition_index=part.partition_index,
        error_code=code,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
        version=request.API_VERSION,
    )


def _find_by_time(agent: Agent, key: PartitionKey, start: int, timestamp: int) -> tuple[int, int]:
    """(time, offset) of the record that is asked for, at or after the log start."""
    if timestamp >= 0:
        return _first_since(agent, key, start, timestamp)
    if timestamp == MAX_TIMESTAMP:
        return _latest(agent, key, start)
    return NOT_FOUND


def _first_since(agent: Agent, key: PartitionKey, start: int, timestamp: int) -> tuple[int, int]:
    """The first record at or after a time."""
    offset = start
    while piece := agent.plane.find_extent_by_time(*key, agent.node_id, offset, timestamp):
        found = _first_in(agent, piece, start, timestamp)
        if found != NOT_FOUND:
            return found
        # What the piece has of that time lies below the log start.
        offset = piece.end
    return NOT_FOUND


def _latest(agent: Agent, key: PartitionKey, start: int) -> tuple[int, int]:
    """The first record of the greatest timestamp."""
    piece = agent.plane.find_extent_of_max_time(*key, agent.node_id, start)
    if piece is None:
        return NOT_FOUND
    found = _first_in(agent, piece, start, piece.max_timestamp)
    if found != NOT_FOUND:
        return found
    # The log start cuts this piece, and its greatest timestamp off: what is left competes with the others.
    left = [
        (time, -offset)
        for batches in agent.reader.read_piece(piece)
        for batch in walk(batches)
        for time, offset in _times(batch, start)
    ]
    time, offset = _latest(agent, key, piece.end)
    best = max([*left, (time, -offset)])
    return best[0], -best[1]


def _first_in(agent: Agent, piece: Extent | Segment, start: int, timestamp: int) -> tuple[int, int]:
    for batches in agent.reader.read_piece(piece, since_ms=timestamp):
        for batch in walk(batches):
            if batch.max_timestamp >= timestamp:
                for record_time, offset in _times(batch, start):
                    if record_time >= timestamp:
                        return record_time, offset
    return NOT_FOUND


def _times(batch: BatchView, start: int) -> list[tuple[int, int]]:
    """(time, offset) of the batch's records from the log start on; the first will do where all have one time.

    Compaction may have left gaps in a batch: what is gone is not named.
    """
    if batch.last_offset < start:
        return []
    if batch.is_log_append_time and batch.record_count == batch.last_offset_delta + 1:
        return [(batch.max_timestamp, max(batch.base_offset, start))]
    times = [(record.timestamp_ms, record.offset or 0) for record in read_records(batch)]
    return [(time, offset) for time, offset in times if offset >= start]

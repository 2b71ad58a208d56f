"""Fetch (key 1), v4-18.

Behaviour: stored bytes, whole batches; the batch that holds the offset comes whole. Waits until `min_bytes`
are there or `max_wait_ms` has passed. The first batch of an answer is sent however large it is, once per
request. Partitions stay in the order of the request; those without data carry their high watermark too. From
v11 on every node that holds a partition in sync answers from its own store, as Kafka's followers do (KIP-392).

A reader of committed records never passes the last stable offset and is not sent batches of aborted transactions, so
that the list of them stays empty. A stretch of which nothing is left is answered with a filler batch that takes every
client past it.

Versions: v7 sessions (KIP-227): never granted, the session id is 0, and who names another is told that there is
no such session; v9 the leader epoch that the client knows (KIP-320); v12 flexible; v13 names topics by id (KIP-516).
"""

import asyncio
import struct
from collections.abc import Awaitable
from dataclasses import dataclass
from uuid import UUID

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_leader_epoch
from holdfast.agent.fetch_plan import PartitionData
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.registry import Payload, Request, frame_head, serves_bytes
from holdfast.agent.wire import Reader, Writer
from holdfast.errors import FetchSessionIdNotFound, HoldfastError, InvalidRequest

FLEXIBLE_SINCE = 12
TOPIC_IDS_SINCE = 13
FOLLOWERS_SINCE = 11

_INT32 = struct.Struct(">i")
_SESSION = struct.Struct(">hi")
_PARTITION_HEAD = struct.Struct(">ihqq")
_INT64 = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    """What a client wants of one partition."""

    partition: int
    leader_epoch: int
    offset: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A decoded fetch."""

    from_follower: bool
    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    read_committed: bool
    in_session: bool
    """Whether it continues a session, of which there are none."""
    topics: list[tuple[str | UUID, list[PartitionFetch]]]


Answer = PartitionData | HoldfastError


@serves_bytes(1, first=4, last=18, flexible_since=FLEXIBLE_SINCE)
def fetch(agent: Agent, request: Request) -> Payload | Awaitable[Payload]:
    """Answer at once if there is enough, else wait for more."""
    wanted = _read(request, bytes_max=agent.settings.fetch_bytes_max)
    if wanted.in_session:
        return _refuse_session(request)
    answers = _gather(agent, wanted)
    if wanted.wait_ms_max <= 0 or _is_enough(wanted, answers):
        return _write(request, wanted, answers)
    return _wait(agent, request, wanted)


async def _wait(agent: Agent, request: Request, wanted: FetchRequest) -> Payload:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wanted.wait_ms_max / 1000
    while True:
        # No await between looking and waiting: what grows in between is not missed.
        answers = _gather(agent, wanted)
        left = deadline - loop.time()
        if left <= 0 or _is_enough(wanted, answers) or agent.waiters.is_closed:
            return _write(request, wanted, answers)
        await agent.waiters.wait(_keys(agent, wanted), left)


def _keys(agent: Agent, wanted: FetchRequest) -> list[PartitionKey]:
    return [
        PartitionKey(agent.catalog.get(topic).topic_id, part.partition)
        for topic, parts in wanted.topics
        for part in parts
    ]


def _is_enough(wanted: FetchRequest, answers: list[Answer]) -> bool:
    found_bytes = 0
    for answer in answers:
        if isinstance(answer, HoldfastError):
            return True
        found_bytes += answer.size_bytes
    return found_bytes >= wanted.bytes_min or not answers


def _gather(agent: Agent, wanted: FetchRequest) -> list[Answer]:
    left = wanted.bytes_max
    found = False
    answers: list[Answer] = []
    for name, parts in wanted.topics:
        for part in parts:
            try:
                topic = agent.catalog.get(name)
                serves = agent.check_holds if wanted.from_follower else agent.check_leads
                check_leader_epoch(serves(topic, part.partition), part.leader_epoch)
                data = agent.reader.read(
                    PartitionKey(topic.topic_id, part.partition),
                    part.offset,
                    bytes_max=max(min(left, part.bytes_max), 0),
                    at_least_one=not found,
                    committed_only=wanted.read_committed,
                )
            except HoldfastError as refusal:
                answers.append(refusal)
                continue
            answers.append(data)
            left -= data.size_bytes
            found = found or bool(data.chunks)
    return answers


def _read(request: Request, *, bytes_max: int) -> FetchRequest:
    version = request.version
    reader = Reader(request.body, flexible=version >= FLEXIBLE_SINCE)
    if version <= 14:
        reader.int32()  # replica id: any reader is served alike
    wait_ms_max, bytes_min = reader.int32(), reader.int32()
    bytes_max = min(bytes_max, reader.int32())
    read_committed = reader.int8() == 1
    session_epoch = 0
    if version >= 7:
        reader.int32()  # session id
        session_epoch = reader.int32()
    topics: list[tuple[str | UUID, list[PartitionFetch]]] = []
    for _ in range(reader.count()):
        topic = reader.uuid() if version >= TOPIC_IDS_SINCE else reader.string()
        if topic is None:
            raise InvalidRequest("a topic without a name")
        topics.append((topic, [_read_partition(reader, version) for _ in range(reader.count())]))
        reader.tags()
    # Forgotten topics and the rack follow; neither matters without sessions and follower selection.
    # More than fits into an answer is not worth waiting for.
    bytes_min = min(bytes_min, bytes_max)
    followers = version >= FOLLOWERS_SINCE
    return FetchRequest(
        followers, wait_ms_max, bytes_min, bytes_max, read_committed, session_epoch > 0, topics
    )


def _read_partition(reader: Reader, version: int) -> PartitionFetch:
    partition = reader.int32()
    leader_epoch = reader.int32() if version >= 9 else -1
    offset = reader.int64()
    if version >= 12:
        reader.int32()  # last fetched epoch
    if version >= 5:
        reader.int64()  # log start of a follower
    bytes_max = reader.int32()
    reader.tags()
    return PartitionFetch(partition, leader_epoch, offset, bytes_max)


def _refuse_session(request: Request) -> Payload:
    """The client opens a new session then, and learns that it gets none."""
    flexible = request.version >= FLEXIBLE_SINCE
    writer = Writer(flexible=flexible)
    writer.pack(_INT32, 0)
    writer.pack(_SESSION, FetchSessionIdNotFound.kafka_code, 0)
    writer.count(0)
    writer.tags()
    return _framed(request, writer, flexible=flexible)


def _write(request: Request, wanted: FetchRequest, answers: list[Answer]) -> Payload:
    version = request.version
    flexible = version >= FLEXIBLE_SINCE
    writer = Writer(flexible=flexible)
    writer.pack(_INT32, 0)
    if version >= 7:
        writer.pack(_SESSION, 0, 0)
    writer.count(len(wanted.topics))
    remaining = iter(answers)
    for topic, parts in wanted.topics:
        if isinstance(topic, UUID):
            writer.raw(topic.bytes)
        else:
            writer.string(topic)
        writer.count(len(parts))
        for part in parts:
            _write_partition(writer, version, part.partition, next(remaining), wanted.read_committed)
        writer.tags()
    writer.tags()
    return _framed(request, writer, flexible=flexible)


def _framed(request: Request, writer: Writer, *, flexible: bool) -> Payload:
    buffers = writer.finish()
    return [frame_head(request, flexible=flexible, body_bytes=sum(map(len, buffers))), *buffers]


def _write_partition(
    writer: Writer, version: int, partition: int, answer: Answer, read_committed: bool
) -> None:
    if isinstance(answer, HoldfastError):
        code, start, stable, end, chunks = answer.kafka_code, -1, -1, -1, []
    else:
        bounds = answer.bounds
        code, start, stable, end, chunks = 0, bounds.start, bounds.last_stable, bounds.end, answer.chunks
    writer.pack(_PARTITION_HEAD, partition, code, end, stable)
    if version >= 5:
        writer.pack(_INT64, start)
    # Aborted transactions: the agent leaves their records out itself. read_uncommitted has no list, as in Kafka.
    writer.count(0 if read_committed else -1)
    if version >= 11:
        writer.pack(_INT32, -1)
    writer.blob(chunks)
    writer.tags()

"""Produce (key 0), v3-13.

Behaviour: every batch is checked here, queued for the next group commit, and answered when that is durable.
Each partition of a request is accepted or refused on its own. acks=1 and -1 mean the same: durable. acks=0
gets no answer; if it fails, the connection is closed, as Kafka does: there is no other way to tell. A
transactional batch joins the open transaction of its producer; it is refused when it is committed if that has ended
by then, so a late one can neither hold readers back nor slip into the next transaction. On a compacted topic a batch is
refused as a whole if one of its records has no key.

Versions: v8 names the records for which a batch is refused (KIP-467); v9 flexible; v11 TRANSACTION_ABORTABLE where
it was INVALID_TXN_STATE; v12 the partition need not have been announced (TV2, KIP-890); v13 names topics by id
(KIP-516). v0 is advertised although v3 is the first that is served: older librdkafka stops compressing otherwise
(librdkafka #4956).
"""

import struct
from functools import lru_cache, partial
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from holdfast.agent.agent import Agent
from holdfast.agent.batch_check import check_batch
from holdfast.agent.deferred import Deferred, Outcome
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.registry import Payload, Request, frame_head, serves_bytes
from holdfast.agent.topic_config import TIMESTAMP_TYPE, min_insync_replicas
from holdfast.agent.transactions.codes import code_of
from holdfast.agent.transactions.names import check_transactional_id
from holdfast.agent.transactions.plan import Membership
from holdfast.agent.wire import Reader, Writer
from holdfast.agent.writes import AppendBatch, Stored
from holdfast.errors import (
    HoldfastError,
    InvalidRecord,
    InvalidRequest,
    InvalidRequiredAcks,
    TransactionalIdAuthorizationFailed,
)

FIRST, LAST = 3, 13
FLEXIBLE_SINCE = 9
TOPIC_IDS_SINCE = 13
ABORTABLE_SINCE = 11
IMPLICIT_SINCE = 12
RECORD_ERRORS_SINCE = 8

TOPICS_REMEMBERED_MAX = 1024

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_BEFORE_NAME = struct.Struct(">hiBB")
"""Flexible versions: acks, timeout, number of topics, length of the name."""
_AFTER_NAME = struct.Struct(">Bi")
"""Number of partitions, the first one's number."""
_ONE, _NO_TAGS = 2, b"\0"
"""Flexible versions: a count or a length of one; no tagged fields."""
_PARTITION_ANSWER = struct.Struct(">ihqq")
_PARTITION_STORED = struct.Struct(">ihqqq")
_NO_RECORD_ERRORS, _NO_MESSAGE, _NO_THROTTLING = b"\1", b"\0", bytes(4)
_AFTER_STORED = _NO_RECORD_ERRORS + _NO_MESSAGE + 2 * _NO_TAGS + _NO_THROTTLING + _NO_TAGS
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")


class PartitionProduce(NamedTuple):
    """The batch for one partition, as it came."""

    topic: str | UUID
    partition: int
    records: memoryview | None


class ProduceAnswer(Deferred):
    """Gathers what became of each batch, and is settled when the last one is known."""

    __slots__ = ("_acks", "_due", "_outcomes", "_parts", "_request")

    def __init__(self, request: Request, acks: int, parts: list[PartitionProduce]) -> None:
        super().__init__()
        self._request = request
        self._acks = acks
        self._parts = parts
        self._outcomes: list[object] = [None] * len(parts)
        self._due = len(parts)
        if not parts:
            self.settle(self._outcome_of_all())

    def note(self, index: int, outcome: object) -> None:
        """The batch of the request's `index`-th partition is stored or refused."""
        self._outcomes[index] = outcome
        self._due -= 1
        if self._due == 0:
            self.settle(self._outcome_of_all())

    def _outcome_of_all(self) -> Outcome:
        if self._acks != 0:
            return _answer(self._request, self._parts, self._outcomes)
        return next((each for each in self._outcomes if isinstance(each, HoldfastError)), ())


@serves_bytes(0, first=FIRST, last=LAST, flexible_since=FLEXIBLE_SINCE, advertised_first=0, may_overlap=True)
def produce(agent: Agent, request: Request) -> Deferred:
    """Queue all batches now, in order; the answer follows when they are durable."""
    transactional_id, acks, parts = _read(request)
    answer = ProduceAnswer(request, acks, parts)
    for index, part in enumerate(parts):
        try:
            write = _checked_write(agent, acks, part)
            if write.view.is_transactional:
                write.membership = _join(agent, request, transactional_id, write)
        except HoldfastError as refusal:
            answer.note(index, refusal)
        else:
            agent.commits.submit_to(write, partial(answer.note, index))
    return answer


def _join(agent: Agent, request: Request, transactional_id: str | None, write: AppendBatch) -> Membership:
    """The transaction that a transactional batch belongs to."""
    if transactional_id is None:
        raise TransactionalIdAuthorizationFailed(
            "a transactional batch in a request without a transactional id"
        )
    return agent.transactions.join(
        check_transactional_id(transactional_id),
        write.view.producer_id,
        write.view.producer_epoch,
        implicit=request.version >= IMPLICIT_SINCE,
        place=write.key,
    )


def _read(request: Request) -> tuple[str | None, int, list[PartitionProduce]]:
    if FLEXIBLE_SINCE <= request.version < TOPIC_IDS_SINCE:
        common = _read_common(request.body)
        if common is not None:
            return common
    reader = Reader(request.body, flexible=request.version >= FLEXIBLE_SINCE)
    transactional_id = reader.string()
    acks, _ = reader.fields(_ACKS_AND_TIMEOUT)  # a commit has its own deadline
    parts: list[PartitionProduce] = []
    for _ in range(reader.count()):
        topic = reader.uuid() if request.version >= TOPIC_IDS_SINCE else reader.string()
        if topic is None:
            raise InvalidRequest("a topic without a name")
        for _ in range(reader.count()):
            partition = reader.int32()
            parts.append(PartitionProduce(topic, partition, reader.blob()))
            reader.tags()
        reader.tags()
    reader.tags()
    return transactional_id, acks, parts


def _read_common(body: memoryview) -> tuple[str | None, int, list[PartitionProduce]] | None:
    """What nearly all clients send, in a third of the time: one partition of one topic, and no tagged fields.

    None: it is something else, or not in order, and is to be read field by field.
    """
    try:
        id_size = body[0]
        id_end = id_size or 1
        transactional_id = str(body[1:id_end], "utf-8") if id_size else None
        acks, _, topics, name_size = _BEFORE_NAME.unpack_from(body, id_end)
        name_start = id_end + _BEFORE_NAME.size
        name_end = name_start + name_size - 1
        partitions, partition = _AFTER_NAME.unpack_from(body, name_end)
        topic = str(body[name_start:name_end], "utf-8")
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    if id_size >= 0x80 or topics != _ONE or partitions != _ONE or not 0 < name_size < 0x80:
        return None
    reader = Reader(body, flexible=True, position=name_end + _AFTER_NAME.size)
    records = reader.blob()
    if reader.rest() != 3 * _NO_TAGS:
        return None
    return transactional_id, acks, [PartitionProduce(topic, partition, records)]


def _checked_write(agent: Agent, acks: int, part: PartitionProduce) -> AppendBatch:
    if acks not in (-1, 0, 1):
        raise InvalidRequiredAcks(f"acks {acks}: -1, 0 and 1 are possible")
    topic = agent.catalog.get(part.topic)
    partition = agent.check_leads(topic, part.partition)
    view = check_batch(topic, part.records, bytes_max=agent.settings.message_bytes_max)
    key = PartitionKey(topic.topic_id, part.partition)
    stamp_time = topic.configs.get(TIMESTAMP_TYPE) == "LogAppendTime"
    in_sync_min = min_insync_replicas(topic, partition) if acks == -1 else 0
    return AppendBatch(key, view, agent.node_id, stamp_time, in_sync_min)


def _answer(request: Request, parts: list[PartitionProduce], outcomes: list[object]) -> Payload:
    version = request.version
    flexible = version >= FLEXIBLE_SINCE
    if flexible and len(parts) == 1 and isinstance(stored := outcomes[0], Stored):
        return [_answer_common(request, parts[0], stored)]
    writer = Writer(flexible=flexible)
    topics = [
        (topic, list(indexes)) for topic, indexes in groupby(range(len(parts)), lambda n: parts[n].topic)
    ]
    writer.count(len(topics))
    for topic, indexes in topics:
        _write_topic(writer, topic)
        writer.count(len(indexes))
        for index in indexes:
            _write_partition(writer, version, parts[index].partition, outcomes[index])
        writer.tags()
    writer.pack(_INT32, 0)
    writer.tags()
    buffers = writer.finish()
    return [frame_head(request, flexible=flexible, body_bytes=sum(map(len, buffers))), *buffers]


def _answer_common(request: Request, part: PartitionProduce, stored: Stored) -> bytes:
    """The answer to one batch that was stored, of a flexible version."""
    topic = _only_topic(part.topic)
    partition = _PARTITION_STORED.pack(
        part.partition, 0, stored.first_offset, stored.timestamp_ms, stored.log_start
    )
    body_bytes = len(topic) + len(partition) + len(_AFTER_STORED)
    return b"".join(
        (frame_head(request, flexible=True, body_bytes=body_bytes), topic, partition, _AFTER_STORED)
    )


@lru_cache(TOPICS_REMEMBERED_MAX)
def _only_topic(topic: str | UUID) -> bytes:
    """What stands before the partition in an answer of a flexible version with one of them."""
    writer = Writer(flexible=True)
    writer.count(1)
    _write_topic(writer, topic)
    writer.count(1)
    return b"".join(writer.finish())


def _write_topic(writer: Writer, topic: str | UUID) -> None:
    if isinstance(topic, UUID):
        writer.raw(topic.bytes)
    else:
        writer.string(topic)


def _write_partition(writer: Writer, version: int, partition: int, outcome: object) -> None:
    if isinstance(outcome, Stored):
        writer.pack(_PARTITION_ANSWER, partition, 0, outcome.first_offset, outcome.timestamp_ms)
        if outcome.log_start == 0:
            writer.raw(_TAIL_OF_STORED[version])
        else:
            writer.raw(_tail(version, log_start=outcome.log_start))
        return
    assert isinstance(outcome, HoldfastError), outcome
    code = code_of(outcome, abortable=version >= ABORTABLE_SINCE, of_coordinator=False)
    writer.pack(_PARTITION_ANSWER, partition, code, -1, -1)
    writer.raw(_tail(version, log_start=-1, refusal=outcome))


def _tail(version: int, *, log_start: int, refusal: HoldfastError | None = None) -> bytes:
    """What follows a partition's offset and time."""
    writer = Writer(flexible=version >= FLEXIBLE_SINCE)
    if version >= 5:
        writer.pack(_INT64, log_start)
    if version >= RECORD_ERRORS_SINCE:
        at_fault = refusal.records if isinstance(refusal, InvalidRecord) else ()
        writer.count(len(at_fault))
        for index in at_fault:
            writer.pack(_INT32, index)
            writer.string(str(refusal))
            writer.tags()
        writer.string(None if refusal is None else str(refusal))
    writer.tags()
    return b"".join(writer.finish())


_TAIL_OF_STORED = {version: _tail(version, log_start=0) for version in range(FIRST, LAST + 1)}

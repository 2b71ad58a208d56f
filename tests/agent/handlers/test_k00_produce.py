"""Produce by hand-written code, against kafka-python's and aiokafka's classes, and its refusals."""

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from aiokafka.protocol.produce import ProduceResponse_v8
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.catalog import check_partition
from holdfast.agent.deferred import Deferred, Outcome
from holdfast.agent.handlers import k00_produce
from holdfast.agent.handlers.k00_produce import PartitionProduce, produce
from holdfast.agent.registry import Request
from holdfast.agent.settings import Settings
from holdfast.agent.writes import AppendBatch, Stored
from holdfast.control.plane import Partition, Topic
from holdfast.errors import (
    HoldfastError,
    InvalidRequest,
    StorageUnavailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from holdfast.records.batch import seal
from holdfast.records.build import Record, build_batch
from tests.agent import raw, requests
from tests.agent.batches import batch

VERSIONS = st.integers(3, 13)
TOPIC_ID = UUID(int=5)
PARTITION = Partition(replicas=(1,), leader=1, leader_epoch=0)


class Desk:
    """An agent that accepts writes and answers them as the test says."""

    def __init__(self, answers: list[Stored | HoldfastError], **configs: str) -> None:
        self.writes: list[AppendBatch] = []
        self.settings = Settings(data=None)  # type: ignore[arg-type]
        self.node_id = 1
        self.commits = SimpleNamespace(submit_to=self._submit_to)
        self.catalog = SimpleNamespace(get=self._get)
        self._answers = iter(answers)
        self._topic = Topic(
            topic_id=TOPIC_ID,
            name="t",
            partitions=(PARTITION,) * 100,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )

    def _get(self, name: str | UUID) -> Topic:
        if name in ("t", TOPIC_ID):
            return self._topic
        if isinstance(name, UUID):
            raise UnknownTopicId(f"no topic has id {name}")
        raise UnknownTopicOrPartition(f"no topic {name!r}")

    def _submit_to(self, write: AppendBatch, deliver: Callable[[object], None]) -> None:
        self.writes.append(write)
        deliver(next(self._answers))

    def check_leads(self, topic: Topic, partition: int) -> Partition:
        """It leads and holds all of them."""
        return check_partition(topic, partition)

    check_holds = check_leads


def exchange(desk: Any, message: Any) -> bytes:
    """Hand a request over as a connection would; the answer's frame, without its length."""
    encoded = bytearray(raw.encode(message, 42))
    header_bytes = 4 + 8 + 2 + len("raw") + (1 if message.API_VERSION >= 9 else 0)
    request = Request(
        key=0,
        version=message.API_VERSION,
        correlation_id=42,
        client_id="raw",
        body=memoryview(encoded)[header_bytes:],
    )

    outcomes: list[Outcome] = []
    deferred = produce(desk, request)
    assert isinstance(deferred, Deferred)
    deferred.listen(outcomes.append)
    (payload,) = outcomes
    assert not isinstance(payload, HoldfastError)
    answer = b"".join(payload)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    return answer[4:]


def answer_to(desk: Any, message: Any) -> Any:
    (topic,) = raw.decode(message, exchange(desk, message)).responses
    return topic.partition_responses


written = st.builds(
    Stored,
    first_offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.integers(-1, 2**63 - 1),
    log_start=st.integers(0, 2**63 - 1),
)
failed = st.builds(StorageUnavailable, st.text(st.characters(codec="utf-8"), max_size=40))


@settings(max_examples=150)
@given(VERSIONS, st.dictionaries(st.integers(0, 99), written | failed, min_size=1, max_size=6))
def test_every_partition_has_its_own_answer(
    version: int, answers: dict[int, Stored | StorageUnavailable]
) -> None:
    """Batches are submitted in the order of the request, and each answer stands with its partition."""
    desk = Desk(list(answers.values()))
    batches: dict[int, bytes | None] = {index: batch(bytes([index])) for index in answers}
    topic = TOPIC_ID if version >= 13 else "t"
    parts = answer_to(desk, requests.produce(topic, batches, version=version))
    assert [write.key.partition for write in desk.writes] == list(answers)
    assert [write.view.size_bytes for write in desk.writes] == [len(one or b"") for one in batches.values()]
    for part, (index, expected) in zip(parts, answers.items(), strict=True):
        assert part.index == index
        if isinstance(expected, StorageUnavailable):
            assert (part.error_code, part.base_offset) == (56, -1)
            assert version < 8 or part.error_message == str(expected)
        else:
            assert (part.error_code, part.base_offset, part.log_append_time_ms) == (
                0,
                expected.first_offset,
                expected.timestamp_ms,
            )
            assert version < 5 or part.log_start_offset == expected.log_start


@settings(max_examples=50)
@given(st.lists(written, min_size=1, max_size=4))
def test_aiokafka_reads_the_answer_too(answers: list[Stored]) -> None:
    """A second, independent reader of v8, the newest version that aiokafka speaks."""
    batches: dict[int, bytes | None] = {index: batch(b"x") for index in range(len(answers))}
    frame = exchange(Desk(list(answers)), requests.produce("t", batches, version=8))
    topics = ProduceResponse_v8.decode(frame[4:]).topics
    assert [(name, [part[:4] for part in parts]) for name, parts in topics] == [
        (
            "t",
            [(index, 0, one.first_offset, one.timestamp_ms) for index, one in enumerate(answers)],
        )
    ]


def patched(data: bytes, position: int, value: bytes) -> bytes:
    """The batch with bytes exchanged, and a CRC that fits them."""
    changed = bytearray(data)
    changed[position : position + len(value)] = value
    seal(changed)
    return bytes(changed)


ONE = batch(b"value")
UNFIT: dict[str, tuple[bytes | None, int]] = {
    "nothing": (None, 87),
    "no bytes": (b"", 87),
    "bad crc": (ONE[:-1] + bytes([ONE[-1] ^ 1]), 2),
    "cut off": (ONE[:-1], 87),
    "a header alone": (ONE[:61], 87),
    "less than a header": (ONE[:30], 87),
    "old format": (patched(ONE, 16, b"\x01"), 87),
    "two batches": (ONE + ONE, 87),
    "trailing bytes": (ONE + b"x", 87),
    "unknown codec": (patched(ONE, 21, b"\0\x07"), 2),
    "control batch": (patched(ONE, 21, b"\0\x20"), 87),
    "transactional without a transactional id": (patched(batch(b"v", producer_id=1), 21, b"\0\x10"), 53),
    "transactional without a producer": (patched(batch(b"v"), 21, b"\0\x10"), 87),
    "records that are not counted": (patched(ONE, 57, (0).to_bytes(4, "big")), 2),
    "more records than bytes": (patched(patched(ONE, 57, b"\x7f\xff\xff\xff"), 23, b"\x7f\xff\xff\xfe"), 2),
    "future format": (patched(ONE, 16, b"\x03"), 2),
    "base offset of its own": (patched(ONE, 0, (7).to_bytes(8, "big")), 87),
    "offsets beyond its records": (patched(ONE, 23, (9).to_bytes(4, "big")), 87),
    "negative offset delta": (patched(ONE, 23, b"\xff\xff\xff\xff"), 2),
    "producer without a sequence": (patched(batch(b"v", producer_id=1), 53, b"\xff\xff\xff\xff"), 87),
    "producer without an epoch": (patched(batch(b"v", producer_id=1), 51, b"\xff\xff"), 87),
    "too large": (batch(bytes(1_048_588)), 10),
}


@pytest.mark.parametrize("what", UNFIT)
def test_unfit_batch_is_refused_alone(what: str) -> None:
    """It never reaches the commit, and its neighbour is stored."""
    records, code = UNFIT[what]
    good = Stored(7, -1, 0)
    desk = Desk([good])
    refused, stored = answer_to(desk, requests.produce("t", {0: records, 1: ONE}))
    assert (refused.error_code, stored.error_code, stored.base_offset) == (code, 0, 7)
    assert [write.key.partition for write in desk.writes] == [1]


@pytest.mark.parametrize("version", range(3, 14))
def test_records_at_fault_are_named(version: int) -> None:
    """From v8 on each by its place in the batch and with a reason; other partitions are stored."""
    keyed, keyless = Record(key=b"k", timestamp_ms=1), Record(value=b"v", timestamp_ms=1)
    bad, good = build_batch([keyless, keyed, keyless]), build_batch([keyed])
    topic = TOPIC_ID if version >= 13 else "t"
    desk = Desk([Stored(7, -1, 0), Stored(8, -1, 0)], cleanup_policy="compact")
    message = requests.produce(topic, {0: good, 1: bad, 2: good}, version=version)
    first, refused, last = answer_to(desk, message)
    assert [write.key.partition for write in desk.writes] == [0, 2]
    assert (first.error_code, first.base_offset, last.error_code, last.base_offset) == (0, 7, 0, 8)
    assert (refused.index, refused.error_code, refused.base_offset) == (1, 87, -1)
    if version >= 8:
        assert [each.batch_index for each in refused.record_errors] == [0, 2]
        assert {each.batch_index_error_message for each in refused.record_errors} == {refused.error_message}
        assert "without a key" in refused.error_message
        assert first.record_errors == last.record_errors == []


def test_aiokafka_reads_records_at_fault() -> None:
    """A second reader of v8."""
    bad = build_batch([Record(key=b"k", timestamp_ms=1), Record(timestamp_ms=1)])
    frame = exchange(Desk([], cleanup_policy="compact"), requests.produce("t", {0: bad}, version=8))
    ((_, (part,)),) = ProduceResponse_v8.decode(frame[4:]).topics
    assert part[1] == 87
    ((place, why),) = part[5]
    assert (place, why) == (1, part[6])


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused(acks: int) -> None:
    """INVALID_REQUIRED_ACKS, and nothing is stored."""
    desk = Desk([])
    (part,) = answer_to(desk, requests.produce("t", {0: ONE}, acks=acks))
    assert part.error_code == 21
    assert not desk.writes


@pytest.mark.parametrize(("topic", "version", "code"), [("other", 9, 3), (UUID(int=6), 13, 100)])
def test_unknown_topic_has_the_code_of_its_version(topic: str | UUID, version: int, code: int) -> None:
    """By name UNKNOWN_TOPIC_OR_PARTITION, by id UNKNOWN_TOPIC_ID."""
    (part,) = answer_to(Desk([]), requests.produce(topic, {0: ONE}, version=version))
    assert part.error_code == code


def test_topic_config_limits_the_batch() -> None:
    """max.message.bytes counts the batch as it came: one byte over is too large, exactly it is not."""
    good = Stored(0, -1, 0)
    exact = Desk([good], max_message_bytes=str(len(ONE)))
    over = Desk([], max_message_bytes=str(len(ONE) - 1))
    message = requests.produce("t", {0: ONE})
    assert answer_to(exact, message)[0].error_code == 0
    assert answer_to(over, message)[0].error_code == 10


def test_empty_request_is_answered_empty() -> None:
    """No topic, no wait."""
    message = requests.produce("t", {})
    message.topic_data = []
    assert raw.decode(message, exchange(Desk([]), message)).responses == []


def test_compressed_batches_stay_opaque() -> None:
    """What a producer compressed is submitted byte for byte."""
    good = Stored(0, -1, 0)
    desk = Desk([good])
    data = patched(build_batch([Record(value=b"x")]), 21, b"\0\x04")
    assert answer_to(desk, requests.produce("t", {0: data}))[0].error_code == 0
    view = desk.writes[0].view
    assert bytes(memoryview(view.buffer)[view.position : view.position + view.size_bytes]) == data


def read(body: bytes, version: int) -> object:
    """What a request says; the error's class if it is not in order."""
    request = Request(key=0, version=version, correlation_id=1, client_id=None, body=memoryview(body))
    try:
        return k00_produce._read(request)
    except InvalidRequest as failure:
        return type(failure)


COMMON = raw.encode(requests.produce("t", {3: ONE}), 1)[4 + 8 + 2 + len("raw") + 1 :]
TRANSACTIONAL = b"\3id" + COMMON[1:]
PLACES = st.integers(0, 24) | st.integers(len(COMMON) - 6, len(COMMON) - 1)


@settings(max_examples=500)
@given(
    st.integers(9, 12),
    st.sampled_from([COMMON, TRANSACTIONAL]),
    st.dictionaries(PLACES, st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]), max_size=3),
    st.integers(0, len(COMMON)) | st.just(len(TRANSACTIONAL)),
    st.binary(max_size=2),
)
def test_common_shape_is_read_as_any_other(
    version: int, common: bytes, patches: dict[int, int], length: int, more: bytes
) -> None:
    """The short cut never comes to another result than reading field by field, whatever the bytes are."""
    body = bytearray(common)
    for place, value in patches.items():
        body[place] = value
    data = bytes(body[:length]) + more
    found = read(data, version)
    with patch.object(k00_produce, "_read_common", return_value=None):
        assert found == read(data, version)


def test_common_shape_takes_the_short_cut() -> None:
    """Otherwise the test above would compare the long way with itself."""
    parts = [PartitionProduce("t", 3, memoryview(ONE))]
    assert k00_produce._read_common(memoryview(COMMON)) == (None, -1, parts)
    assert k00_produce._read_common(memoryview(TRANSACTIONAL)) == ("id", -1, parts)


def test_long_name_is_not_taken_for_a_short_one() -> None:
    """Its length has two bytes; read as one byte, this name would still leave a request that is in order."""
    name = b"x" * 199 + b"\2"
    topic = b"\2" + b"\xc9\x01" + name + b"\2" + struct.pack(">i", 2) + b"\0"
    body = b"\0" + struct.pack(">hi", -1, 1000) + topic + bytes(3)
    assert read(body, 9) == (None, -1, [(name.decode(), 2, None)])


def test_long_id_is_not_taken_for_a_short_one() -> None:
    """Likewise an id: one byte off, the rest of this request would be in order, too, and say something else."""
    name = "y" * 199
    no_partitions = b"\2" + b"\6" + b"\2\0\0\0\3" + b"\0" + bytes(3)
    body = b"\xc8\x01" + name.encode() + struct.pack(">hi", -1, 2) + no_partitions
    assert read(body, 9) == (name, -1, [])

"""Answers to Fetch that are decoded by hand, beside those that kafka-python decodes."""

import random
import struct
from contextlib import suppress
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from holdfast.client.connection import Allocate, Connection, Taker, allocate
from holdfast.client.fetching import FETCH_VERSIONS, Fetched, FetchedPartition, decode_fetched, fetch
from holdfast.client.offsets import Isolation
from holdfast.client.reader import OffsetRange, fetch_request
from holdfast.errors import ConnectionFailed
from holdfast.spark.rows import pooled
from tests.client.fake_broker import FakeBroker
from tests.client.fake_cluster import fetched

VERSIONS = range(FETCH_VERSIONS[0], FETCH_VERSIONS[1] + 1)
TOPIC = FetchResponse.FetchableTopicResponse
PARTITION = TOPIC.PartitionData
NOT_AN_ANSWER = (EOFError, ValueError, struct.error)


def random_answer(chance: random.Random) -> dict[str, Any]:
    """Topics and partitions, some without records, some with lists of aborted transactions, some with neither."""

    def partition() -> Any:
        aborted = [
            PARTITION.AbortedTransaction(
                producer_id=chance.randrange(2**63), first_offset=chance.randrange(2**63)
            )
            for _ in range(chance.randrange(3))
        ]
        return PARTITION(
            partition_index=chance.randrange(2**31),
            error_code=chance.randrange(-1, 100),
            high_watermark=chance.randrange(-1, 2**63),
            last_stable_offset=chance.randrange(-1, 2**63),
            log_start_offset=chance.randrange(2**63),
            aborted_transactions=chance.choice([None, aborted]),
            preferred_read_replica=chance.randrange(-1, 9),
            records=chance.choice([None, b"", chance.randbytes(chance.randrange(200))]),
        )

    return {
        "throttle_time_ms": chance.randrange(2**31),
        "error_code": chance.randrange(-1, 100),
        "session_id": chance.randrange(2**31),
        "responses": [
            TOPIC(topic=f"täglich-{number}", partitions=[partition() for _ in range(chance.randrange(3))])
            for number in range(chance.randrange(3))
        ],
    }


def described(answer: Any) -> dict[str, Any]:
    """What kafka-python reads, in our words."""
    return {
        "error_code": answer.error_code or 0,
        "partitions": [
            (
                topic.topic,
                part.partition_index,
                part.error_code,
                part.high_watermark,
                part.last_stable_offset,
                [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()],
                part.records or b"",
            )
            for topic in answer.responses
            for part in topic.partitions
        ],
    }


def ours(answer: Fetched) -> dict[str, Any]:
    """The same of our reading."""

    def of(part: FetchedPartition) -> tuple[Any, ...]:
        return (
            part.topic,
            part.partition,
            part.error_code,
            part.high_watermark,
            part.last_stable_offset,
            [(each.producer_id, each.first_offset) for each in part.aborted],
            bytes(part.records),
        )

    return {"error_code": answer.error_code, "partitions": [of(part) for part in answer.partitions]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(20))
def test_answers_are_read_as_kafka_python_reads_them(version: int, seed: int) -> None:
    """Every version, every field that we take; and no prefix of an answer passes for one."""
    sent = FetchResponse(version=version, **random_answer(random.Random(seed)))
    encoded = bytes(sent.encode(version=version))
    assert ours(decode_fetched(memoryview(encoded), version)) == described(
        FetchResponse.decode(encoded, version=version)
    )
    for other in (encoded + b"\0", *(encoded[:length] for length in range(len(encoded)))):
        with pytest.raises(NOT_AN_ANSWER):
            decode_fetched(memoryview(other), version)


@pytest.mark.parametrize("seed", range(300))
def test_garbage_is_an_error_or_an_answer(seed: int) -> None:
    """A byte that flips on the way may change what an answer says; nothing else is raised, and nothing is endless."""
    chance = random.Random(seed)
    encoded = bytearray(FetchResponse(version=11, **random_answer(chance)).encode(version=11))
    encoded[chance.randrange(len(encoded))] ^= 1 << chance.randrange(8)
    with suppress(*NOT_AN_ANSWER):
        decode_fetched(memoryview(bytes(encoded)), 11)


@pytest.mark.parametrize("memory", [allocate, pooled])
@pytest.mark.parametrize("length", [0, 1_000, 1 << 20])
def test_records_of_any_size_arrive_untouched(length: int, memory: Allocate) -> None:
    """Over a socket, into memory of either kind; bytes above 127 too, which Arrow's own view calls negative."""
    records = random.Random(length).randbytes(length)
    wanted = OffsetRange(topic="orders", partition=0, start=0, end=1)
    with (
        FakeBroker({FetchRequest: lambda _: fetched(records=records, high_watermark=200)}) as broker,
        Connection("127.0.0.1", broker.port) as connection,
    ):
        for _ in range(3):
            request = fetch_request(wanted, 0, Isolation.READ_COMMITTED, 1 << 20)
            (found,) = fetch(connection, request, allocate=memory).partitions
            assert (found.high_watermark, found.records.tolist()) == (200, list(records))


def test_an_answer_that_has_no_room_closes_the_connection() -> None:
    """Its bytes would be taken for the length of the next one."""

    def full(size: int) -> memoryview:
        raise MemoryError

    wanted = OffsetRange(topic="orders", partition=0, start=0, end=1)
    with (
        FakeBroker({FetchRequest: lambda _: fetched(records=b"x" * 100)}) as broker,
        Connection("127.0.0.1", broker.port) as connection,
    ):
        request = fetch_request(wanted, 0, Isolation.READ_COMMITTED, 1 << 20)
        with pytest.raises(MemoryError):
            fetch(connection, request, allocate=full)
        assert connection.closed


def test_who_is_interrupted_while_asking_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the request may be out."""

    def leave(*_: object, **__: object) -> bytes:
        raise SystemExit

    wanted = OffsetRange(topic="orders", partition=0, start=0, end=1)
    request = fetch_request(wanted, 0, Isolation.READ_COMMITTED, 1 << 20)
    with FakeBroker({}) as broker, Connection("127.0.0.1", broker.port) as connection:
        monkeypatch.setattr(FetchRequest, "encode", leave)
        with pytest.raises(SystemExit):
            connection.post(request, versions=FETCH_VERSIONS)
        assert connection.closed


def test_an_answer_that_is_none_closes_the_connection() -> None:
    """The place in the byte stream may be lost: the next request needs a new connection."""
    wanted = OffsetRange(topic="orders", partition=0, start=0, end=1)
    with (
        FakeBroker({FetchRequest: lambda _: fetched(records=b"x" * 100)}) as broker,
        Connection("127.0.0.1", broker.port) as connection,
    ):
        request = fetch_request(wanted, 0, Isolation.READ_COMMITTED, 1 << 20)
        taker = Taker(decode=lambda body, _: decode_fetched(body[:-1], 11), allocate=allocate)
        with pytest.raises(ConnectionFailed, match="answer to FetchRequest that cannot be read"):
            connection.send(request, versions=FETCH_VERSIONS, taker=taker)
        assert connection.closed

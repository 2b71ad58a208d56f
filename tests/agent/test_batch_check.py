"""What a compacted topic takes: batches whose records all have keys, can be read, and cost nobody else much."""

from collections.abc import Sequence
from unittest.mock import patch
from uuid import UUID

import pytest

from holdfast.agent import batch_check
from holdfast.agent.batch_check import INFLATED_BYTES_MAX, KEYLESS_MAX, RECORDS_MAX, check_batch
from holdfast.control.plane import Partition, Topic
from holdfast.errors import CorruptMessage, HoldfastError, InvalidRecord, MessageTooLarge
from holdfast.records.batch import HEADER_BYTES, Codec, seal
from holdfast.records.build import Record, build_batch

MIB = 1 << 20
KEYED = Record(key=b"k", value=b"v")
KEYLESS = Record(value=b"v")
TOMBSTONE = Record(key=b"k")


def topic(policy: str | None, **configs: str) -> Topic:
    """A topic of one partition with this policy, or with none of its own."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    if policy is not None:
        named["cleanup.policy"] = policy
    partition = Partition(replicas=(1,), leader=1, leader_epoch=0)
    return Topic(topic_id=UUID(int=1), name="t", partitions=(partition,), configs=named)


def refusal(policy: str | None, data: bytes) -> HoldfastError | None:
    """What a topic with this policy says to a batch; None if it takes it."""
    try:
        view = check_batch(topic(policy), memoryview(data), bytes_max=2 * MIB)
    except HoldfastError as refused:
        return refused
    assert view.size_bytes == len(data)
    return None


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete,compact"])
@pytest.mark.parametrize(
    ("records", "keyless"),
    [
        ([KEYED], []),
        ([TOMBSTONE], []),
        ([Record(key=b"")], []),
        ([KEYED, KEYLESS, TOMBSTONE, Record()], [1, 3]),
        ([KEYLESS] * 100, list(range(100))),
    ],
)
def test_records_without_a_key_are_named(
    policy: str, codec: Codec, records: Sequence[Record], keyless: list[int]
) -> None:
    """However the producer compressed them; a null value is a tombstone and welcome."""
    refused = refusal(policy, build_batch(records, codec=codec))
    if keyless:
        assert isinstance(refused, InvalidRecord)
        assert refused.records == keyless
        assert "'t' is compacted" in str(refused)
    else:
        assert refused is None


@pytest.mark.parametrize("policy", [None, "delete", ""])
def test_other_topics_do_not_look(policy: str | None) -> None:
    """They take records without keys, and payloads that nobody can read."""
    assert refusal(policy, build_batch([KEYLESS])) is None
    assert refusal(policy, damaged()) is None


def damaged() -> bytes:
    """A record that claims more bytes than there are, under a checksum that fits."""
    batch = bytearray(build_batch([KEYED]))
    batch[HEADER_BYTES] += 2
    seal(batch)
    return bytes(batch)


def test_what_cannot_be_read_is_refused() -> None:
    """INVALID_RECORD, as in Kafka: it would stop a compaction. No single record is at fault then."""
    unreadable = bytearray(build_batch([KEYED]))
    unreadable[22] = Codec.GZIP
    seal(unreadable)
    for data in (damaged(), bytes(unreadable)):
        refused = refusal("compact", data)
        assert isinstance(refused, InvalidRecord)
        assert not refused.records
    broken = build_batch([KEYLESS])[:-1] + b"\xff"
    assert isinstance(refusal("compact", broken), CorruptMessage), "the checksum comes first"


def test_bomb_is_too_large() -> None:
    """A client that can split its batch does so when it is told MESSAGE_TOO_LARGE."""
    record = Record(key=b"k", value=bytes(INFLATED_BYTES_MAX))
    bomb = build_batch([record], codec=Codec.ZSTD)
    assert len(bomb) < MIB
    assert isinstance(refusal("compact", bomb), MessageTooLarge)
    assert refusal("delete", bomb) is None


def test_bound_on_what_is_inflated_is_not_one_on_what_is_sent() -> None:
    """A topic that allows for larger batches is obeyed."""
    data = build_batch([Record(key=b"k", value=bytes(3 * MIB))])
    large = topic("compact", max_message_bytes=str(4 * MIB))
    with patch.object(batch_check, "INFLATED_BYTES_MAX", MIB):
        assert check_batch(large, memoryview(data), bytes_max=MIB).record_count == 1


def test_count_is_bounded() -> None:
    """Looking at records takes the time of everybody, so that a batch cannot hold any number of them."""
    most, over = (build_batch([KEYED] * count, codec=Codec.LZ4) for count in (RECORDS_MAX, RECORDS_MAX + 1))
    assert refusal("compact", most) is None
    with patch.object(batch_check, "find_keyless", side_effect=AssertionError("too late")):
        assert isinstance(refusal("compact", over), MessageTooLarge)
    assert refusal("delete", over) is None


def test_answer_is_bounded() -> None:
    """Not more are named than a client puts into a batch."""
    refused = refusal("compact", build_batch([KEYLESS] * (KEYLESS_MAX + 5), codec=Codec.LZ4))
    assert isinstance(refused, InvalidRecord)
    assert refused.records == list(range(KEYLESS_MAX))

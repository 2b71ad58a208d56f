"""Produce and InitProducerId: what Kafka takes, refuses and recognizes, Holdfast does too."""

from typing import Any

import pytest

from holdfast.errors import InvalidRecord
from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import InitProducerIdRequest, ProduceRequest
from tests.kafka.peers import Peer, Peers

TOPIC_IDS_SINCE = 13
MAGIC_AT = 16
CRC_AT = 17
INVALID_TIMESTAMP = 32
GOOD = batch(b"one", b"two")


def patched(position: int, value: int) -> bytes:
    """The good batch with one byte changed and its CRC left as it was."""
    changed = bytearray(GOOD)
    changed[position] = value
    return bytes(changed)


def produce(peer: Peer, topic: str, records: bytes, version: int, **options: Any) -> Any:
    """A request for partition 0, or another."""
    partition = options.pop("partition", 0)
    named = peer.topic(topic, by_id=version >= TOPIC_IDS_SINCE)
    return requests.produce(named, {partition: records}, version=version, **options)


BATCHES: dict[str, bytes] = {
    "good": GOOD,
    "bad CRC": patched(CRC_AT, GOOD[CRC_AT] ^ 0xFF),
    "changed value": patched(len(GOOD) - 2, 0x41),
    "magic 0": patched(MAGIC_AT, 0),
    "magic 1": patched(MAGIC_AT, 1),
    "magic 3": patched(MAGIC_AT, 3),
    "two batches": GOOD + batch(b"three"),
    "cut off": GOOD[:-3],
    "shorter than a header": GOOD[:30],
    "no bytes": b"",
    "batch without records": build_batch([], max_timestamp=0),
    "too large": batch(bytes(1_100_000)),
    "gap between offsets": build_batch([Record(value=b"a", offset=0), Record(value=b"b", offset=2)]),
    "base offset of the client's": build_batch([Record(value=b"a", offset=77)], base_offset=77),
    "control batch": build_batch([Record(key=bytes(4), value=bytes(6))], control=True),
    "log append time": build_batch([Record(value=b"a")], log_append_time_ms=1),
    "delete horizon": build_batch([Record(value=b"a")], delete_horizon_ms=1),
    "id without sequence": build_batch([Record(value=b"a")], producer_id=7, producer_epoch=0),
    "negative timestamp": build_batch([Record(value=b"a", timestamp_ms=-5)]),
    "codec that lies": build_batch([Record(value=b"a")], codec=Codec.NONE)[:22] + b"\0\1" + GOOD[24:],
}


@pytest.mark.parametrize("case", BATCHES)
def test_single_batches(peers: Peers, case: str) -> None:
    """A batch is taken or refused with the same code in every version, and the log ends at the same offset."""
    topic = peers.create("single." + case.replace(" ", "-").replace("'", ""))
    peers.agree_in_all_versions(
        ProduceRequest, lambda peer, version: produce(peer, topic, BATCHES[case], version)
    )
    peers.agree(lambda peer: requests.list_offsets(topic, {0: -1}))


DELIBERATE = {
    "bytes after the batch": (GOOD + b"more", InvalidRecord.kafka_code, 0),
    "far future": (build_batch([Record(value=b"a", timestamp_ms=1 << 60)]), 0, INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("case", DELIBERATE)
def test_deliberate_differences(peers: Peers, case: str, pytestconfig: pytest.Config) -> None:
    """Where docs/unsupported.md says that Holdfast answers otherwise, it does, and so does Kafka."""
    records, ours, theirs = DELIBERATE[case]
    if theirs == INVALID_TIMESTAMP and pytestconfig.getoption("kafka").startswith("3."):
        theirs = 0  # Kafka 3 has no limit by default.
    topic = peers.create("deliberate")
    for peer, code in ((peers.holdfast, ours), (peers.kafka, theirs)):
        answer = peer.ask(produce(peer, topic, records, 9))
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == code, peer.name


@pytest.mark.parametrize("acks", [-2, 1, 2, 32767])
def test_acks(peers: Peers, acks: int) -> None:
    """acks other than -1, 0 and 1 is refused."""
    topic = peers.create(f"acks.{acks}")
    peers.agree_in_all_versions(
        ProduceRequest, lambda peer, version: produce(peer, topic, GOOD, version, acks=acks)
    )


def test_unknown_topic_and_partition(peers: Peers) -> None:
    """Neither a topic nor a partition comes into being by producing to it."""
    topic = peers.create("known")
    for name, partition in (("unknown", 0), (topic, 7), (topic, -1)):
        peers.agree_in_all_versions(
            ProduceRequest,
            lambda peer, version, name, partition: produce(peer, name, GOOD, version, partition=partition),
            name,
            partition,
        )


def test_log_append_time(peers: Peers) -> None:
    """A topic with LogAppendTime answers with the broker's time."""
    topic = peers.create("append-time", message_timestamp_type="LogAppendTime")
    peers.agree_in_all_versions(ProduceRequest, lambda peer, version: produce(peer, topic, GOOD, version))


def test_topic_limit(peers: Peers) -> None:
    """max.message.bytes of a topic holds for the batch as it is stored."""
    size = len(GOOD)
    for limit in (size - 1, size):
        topic = peers.create(f"limit.{limit}", max_message_bytes=str(limit))
        peers.agree_in_all_versions(
            ProduceRequest,
            lambda peer, version, topic: produce(peer, topic, GOOD, version),
            topic,
        )


Step = tuple[int, int, int]
"""Epoch, first sequence, records."""

SEQUENCES: dict[str, list[Step]] = {
    "in order": [(0, 0, 2), (0, 2, 1), (0, 3, 1)],
    "gap": [(0, 0, 1), (0, 2, 1)],
    "begins late": [(0, 5, 1), (0, 6, 1)],
    "repeat": [(0, 0, 2), (0, 0, 2), (0, 2, 1)],
    "repeat of an older one": [(0, n, 1) for n in range(5)] + [(0, 0, 1), (0, 5, 1)],
    "repeat out of the window": [(0, n, 1) for n in range(6)] + [(0, 0, 1), (0, 6, 1)],
    "overlap": [(0, 0, 2), (0, 1, 2)],
    "same start, other length": [(0, 0, 2), (0, 0, 1)],
    "old epoch": [(1, 0, 1), (0, 1, 1), (1, 1, 1)],
    "new epoch": [(0, 0, 1), (1, 0, 1), (1, 1, 1)],
    "new epoch begins late": [(0, 0, 1), (1, 1, 1)],
    "wraps": [(0, 2**31 - 2, 2), (0, 0, 1)],
    "wraps inside": [(0, 2**31 - 2, 4), (0, 2, 1)],
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_sequences(peers: Peers, case: str) -> None:
    """An idempotent producer's batches are taken, recognized as repeats or refused alike, step by step."""
    topic = peers.create("sequence." + case.replace(" ", "-").replace(",", ""))
    peers.init_producer(case)

    def ask(peer: Peer, epoch: int, first: int, count: int) -> Any:
        producer_id = peer.producer_ids[case]
        values = [b"value"] * count
        records = batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)
        return produce(peer, topic, records, 9)

    for step in SEQUENCES[case]:
        # Kafka answers a repeat with the batch's own time as the log append time, which a client takes for the
        # record's time; Holdfast answers it as it answered the first time.
        peers.agree(ask, *step, ignoring="log_append_time_ms")
    peers.agree(lambda peer: requests.list_offsets(topic, {0: -1}))


def test_two_partitions_are_judged_apart(peers: Peers) -> None:
    """One request: the good partition is appended, the bad one refused, in the order asked."""
    topic = peers.create("apart", partitions=3)
    peers.agree_in_all_versions(
        ProduceRequest,
        lambda peer, version: requests.produce(
            peer.topic(topic, by_id=version >= TOPIC_IDS_SINCE),
            {2: GOOD, 0: BATCHES["bad CRC"], 1: GOOD},
            version=version,
        ),
    )


def test_init_producer_id(peers: Peers) -> None:
    """An idempotent producer gets an id and epoch 0, whatever id it names."""
    peers.init_producer("first")
    for known in ((-1, -1), (5, 3), (5, -1), (-1, 3)):
        peers.agree_in_all_versions(
            InitProducerIdRequest,
            lambda peer, version, known: InitProducerIdRequest(
                transactional_id=None,
                transaction_timeout_ms=60_000,
                producer_id=known[0],
                producer_epoch=known[1],
                version=version,
            ),
            known,
        )

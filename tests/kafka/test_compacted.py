"""Compacted topics: how they are made, which records they take, and how the others are refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.errors import InvalidRecord
from holdfast.records.batch import HEADER_BYTES, Codec, seal
from holdfast.records.build import Record, build_batch
from holdfast.records.codecs import compress
from tests.agent import requests
from tests.agent.raw import CreateTopicsRequest, DeleteRecordsRequest, ProduceRequest
from tests.kafka.peers import Peer, Peers
from tests.kafka.test_produce import TOPIC_IDS_SINCE, produce
from tests.kafka.test_topics import config, creation

TOPIC = 2
SET, APPEND, SUBTRACT = 0, 2, 3
RECORD_ERRORS_SINCE = 8

KEYED = Record(key=b"k", value=b"v", timestamp_ms=1_700_000_000_000)
KEYLESS = Record(value=b"v", timestamp_ms=1_700_000_000_000)
TOMBSTONE = Record(key=b"k", timestamp_ms=1_700_000_000_000)
NOTHING = Record(timestamp_ms=1_700_000_000_000)
EMPTY_KEY = Record(key=b"", value=b"v", timestamp_ms=1_700_000_000_000)


@pytest.mark.parametrize(
    "policy", ["compact", "compact,delete", "delete,compact", "compact, delete", "compact,compact"]
)
def test_creation(peers: Peers, policy: str) -> None:
    """Each list of policies is taken or not, and described alike."""
    for version in peers.versions(CreateTopicsRequest):
        name = f"made.{version}." + policy.replace(",", "-").replace(" ", "_")
        for validate_only in (True, False):
            peers.agree(
                lambda peer, *arguments: creation(*arguments[1:], validate_only=arguments[0]),
                validate_only,
                version,
                {"name": name, "configs": config(version, cleanup_policy=policy)},
                ignoring="configs",
            )
        for peer in (peers.holdfast, peers.kafka):
            peers.await_partitions(peer, name, 1)
        peers.come_to_agree(
            lambda peer, name: requests.describe_configs((TOPIC, name, ["cleanup.policy"])), name
        )


CHANGES: dict[str, tuple[int, str]] = {
    "append compact": (APPEND, "compact"),
    "append it again": (APPEND, "compact"),
    "append two": (APPEND, "compact,delete"),
    "subtract delete": (SUBTRACT, "delete"),
    "subtract compact": (SUBTRACT, "compact"),
    "append to nothing": (APPEND, "compact"),
    "append nonsense": (APPEND, "burn"),
    "set both": (SET, "compact,delete"),
    "set both with a space": (SET, "delete, compact"),
    "set one twice": (SET, "compact,delete,compact"),
    "nothing beside compact": (SET, "compact,"),
    "capitals": (SET, "Compact"),
}


def test_changes(peers: Peers) -> None:
    """Policies are added, taken away and set, step by step."""
    name = peers.create("policies")
    for operation, value in CHANGES.values():
        change = ("cleanup.policy", operation, value)
        peers.agree(lambda peer, change: requests.change_configs((TOPIC, name, [change])), change)
        peers.come_to_agree(lambda peer: requests.describe_configs((TOPIC, name, ["cleanup.policy"])))


BATCHES: dict[str, Sequence[Record]] = {
    "key": [KEYED],
    "no key": [KEYLESS],
    "tombstone": [TOMBSTONE],
    "neither key nor value": [NOTHING],
    "empty key": [EMPTY_KEY],
    "none in the middle": [KEYED, KEYLESS, KEYED],
    "several without": [KEYLESS, KEYED, NOTHING, TOMBSTONE, KEYLESS],
    "many without": [KEYLESS] * 500,
}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize("case", BATCHES)
def test_single_batches(peers: Peers, case: str, policy: str) -> None:
    """Taken, or refused with the same records named, in every version; and the log ends at the same offset."""
    topic = peers.create(
        f"compacted.{policy.replace(',', '-')}." + case.replace(" ", "-"), cleanup_policy=policy
    )
    records = build_batch(BATCHES[case])
    peers.agree_in_all_versions(ProduceRequest, lambda peer, version: produce(peer, topic, records, version))
    peers.agree(lambda peer: requests.list_offsets(topic, {0: -1}))


@pytest.mark.parametrize("codec", Codec)
def test_codecs(peers: Peers, codec: Codec) -> None:
    """Keys are looked for in what the producer compressed, too."""
    topic = peers.create(f"compacted.codec.{codec.name}", cleanup_policy="compact")
    for case in ("several without", "tombstone"):
        records = build_batch(BATCHES[case], codec=codec)
        peers.agree(lambda peer, records: produce(peer, topic, records, 9), records)
    peers.agree(lambda peer: requests.list_offsets(topic, {0: -1}))


def test_refusals_have_messages(peers: Peers) -> None:
    """From v8 on one for the batch and one for each record; the words are each broker's own."""
    topic = peers.create("compacted.messages", cleanup_policy="compact")
    records = build_batch(BATCHES["several without"])
    for peer in (peers.holdfast, peers.kafka):
        for version in peers.versions(ProduceRequest):
            answer = peer.ask(produce(peer, topic, records, version))
            (part,) = answer["responses"][0]["partition_responses"]
            assert part["error_code"] == InvalidRecord.kafka_code
            if version >= RECORD_ERRORS_SINCE:
                assert part["error_message"]
                assert [each["batch_index"] for each in part["record_errors"]] == [0, 2, 4]
                assert all("key" in each["batch_index_error_message"] for each in part["record_errors"])


def test_other_partitions_go_on(peers: Peers) -> None:
    """One request: what has keys is appended, what has not is refused."""
    topic = peers.create("compacted.apart", partitions=3, cleanup_policy="compact")
    parts: requests.Parts = {2: build_batch([KEYED]), 0: build_batch([KEYLESS]), 1: build_batch([TOMBSTONE])}
    peers.agree_in_all_versions(
        ProduceRequest,
        lambda peer, version: requests.produce(
            peer.topic(topic, by_id=version >= TOPIC_IDS_SINCE), parts, version=version
        ),
    )
    peers.agree(lambda peer: requests.list_offsets(topic, dict.fromkeys(range(3), -1)))


Step = tuple[int, Record]
"""First sequence and record."""

SEQUENCES: dict[str, list[Step]] = {
    "refusal takes no number": [(0, KEYED), (1, KEYLESS), (1, KEYED)],
    "out of order without a key": [(0, KEYED), (7, KEYLESS)],
    "repeat": [(0, KEYED), (0, KEYED), (1, TOMBSTONE)],
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_sequences(peers: Peers, case: str) -> None:
    """What is refused for its keys leaves the producer's sequence as it was."""
    topic = peers.create("compacted.sequence." + case.replace(" ", "-"), cleanup_policy="compact")
    peers.init_producer(topic)

    def ask(peer: Peer, first: int, record: Record) -> Any:
        records = build_batch(
            [record], producer_id=peer.producer_ids[topic], producer_epoch=0, base_sequence=first
        )
        return produce(peer, topic, records, 9)

    for step in SEQUENCES[case]:
        peers.agree(ask, *step, ignoring="log_append_time_ms")


def test_repeat_of_what_had_no_key_before(peers: Peers) -> None:
    """A topic that has become a compacted one keeps what it has, but takes it no second time."""
    topic = peers.create("compacted.later")
    peers.init_producer(topic)

    def ask(peer: Peer) -> Any:
        producer_id = peer.producer_ids[topic]
        records = build_batch([KEYLESS], producer_id=producer_id, producer_epoch=0, base_sequence=0)
        return produce(peer, topic, records, 9)

    peers.agree(ask)
    peers.agree(lambda peer: requests.change_configs((TOPIC, topic, [("cleanup.policy", SET, "compact")])))
    peers.await_code(ask, InvalidRecord.kafka_code)
    peers.agree(ask)
    peers.agree(lambda peer: requests.list_offsets(topic, {0: -1}))


def damaged(codec: Codec, position: int, value: int) -> bytes:
    """A batch of two records with a byte of its payload, as it was before it was compressed, exchanged."""
    changed = bytearray(build_batch([KEYED, KEYED]))
    changed[HEADER_BYTES + position] = value
    if codec:
        payload = compress(codec, changed[HEADER_BYTES:])
        changed[HEADER_BYTES:] = payload
        changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
        changed[21:23] = int(codec).to_bytes(2, "big")
    seal(changed)
    return bytes(changed)


DAMAGES: dict[str, tuple[int, int]] = {
    "length too long": (0, 0x70),
    "length too short": (0, 0x0C),
    "negative length": (0, 0x01),
    "key too long": (4, 0x70),
    "key shorter than nothing": (4, 0x03),
    "value too long": (6, 0x70),
    "value shorter than nothing": (6, 0x03),
    "headers that are not there": (8, 0x02),
    "negative headers": (8, 0x01),
}


@pytest.mark.parametrize(
    ("case", "codec"),
    [
        (case, codec)
        for case in DAMAGES
        for codec in (Codec.NONE, Codec.GZIP)
        # Kafka passes over the lengths of records that are compressed.
        if codec is Codec.NONE or "length" not in case
    ],
)
def test_damaged_records(peers: Peers, case: str, codec: Codec) -> None:
    """Records that do not add up are refused alike, though their checksum does."""
    topic = peers.create(
        f"compacted.damaged.{codec.name}." + case.replace(" ", "-"), cleanup_policy="compact"
    )
    records = damaged(codec, *DAMAGES[case])
    peers.agree(lambda peer: produce(peer, topic, records, 9))
    peers.agree(lambda peer: requests.list_offsets(topic, {0: -1}))


@pytest.mark.parametrize("policy", ["compact", "compact,delete", ""])
def test_deletion_of_records(peers: Peers, policy: str) -> None:
    """Only a topic whose policy knows of deletion lets records be deleted."""
    topic = peers.create(f"compacted.deleted.{policy.replace(',', '-')}.", cleanup_policy=policy)
    peers.agree(lambda peer: produce(peer, topic, build_batch([KEYED, KEYED]), 9))
    peers.agree_in_all_versions(
        DeleteRecordsRequest, lambda peer, version: requests.delete_records(topic, {0: 1}, version=version)
    )
    peers.agree(lambda peer: requests.list_offsets(topic, {0: -2}))

"""Fetch: the same bytes, bounds and refusals."""

from typing import Any

import pytest

from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import FetchRequest
from tests.kafka.peers import Peer, Peers

TOPIC_IDS_SINCE = 13
FIRST, SECOND, LARGE = batch(b"a", b"b", b"c"), batch(b"d", b"e"), batch(bytes(100_000))


@pytest.fixture(scope="module")
def topic(peers: Peers) -> str:
    """Partition 0 holds offsets 0-2, 3-4 and 5 (large); partition 1 the large one alone; 2 nothing."""
    name = peers.create("fetched", partitions=3)
    for partition, batches in enumerate(([FIRST, SECOND, LARGE], [LARGE], [])):
        for records in batches:
            peers.agree(
                lambda peer, partition, records: requests.produce(name, {partition: records}),
                partition,
                records,
            )
    return name


def fetch(peer: Peer, topic: str, offsets: dict[int, int], version: int, **options: Any) -> Any:
    """Partitions of one topic, in order."""
    named = peer.topic(topic, by_id=version >= TOPIC_IDS_SINCE)
    return requests.fetch(named, offsets, version=version, **options)


CASES: dict[str, tuple[dict[int, int], dict[str, int]]] = {
    "from the start": ({0: 0}, {}),
    "a batch's first offset": ({0: 3}, {}),
    "mid-batch": ({0: 4}, {}),
    "at the end": ({0: 6}, {}),
    "after the end": ({0: 7}, {}),
    "negative": ({0: -1}, {}),
    "empty partition": ({2: 0}, {}),
    "after the end of an empty one": ({2: 1}, {}),
    "no such partition": ({9: 0}, {}),
    "negative partition": ({-1: 0}, {}),
    "one batch fits": ({0: 0}, {"partition_bytes_max": len(FIRST) + 10}),
    "exactly two fit": ({0: 0}, {"partition_bytes_max": len(FIRST) + len(SECOND)}),
    "first is too large for the partition": ({1: 0}, {"partition_bytes_max": 100}),
    "first is too large for the request": ({1: 0}, {"bytes_max": 100}),
    "too large is sent once": ({1: 0, 0: 5}, {"partition_bytes_max": 100}),
    "request full after the first": ({0: 0, 1: 0}, {"bytes_max": len(FIRST)}),
    "order of the request": ({2: 0, 1: 0, 0: 3}, {}),
    "an error among data": ({0: 0, 9: 0, 1: 0}, {}),
    "zero bytes": ({0: 0}, {"partition_bytes_max": 0}),
    "zero bytes in all": ({0: 0}, {"bytes_max": 0}),
    "waits in vain": ({0: 6}, {"wait_ms": 10}),
    "more than there is": ({0: 5}, {"wait_ms": 10, "bytes_min": 1 << 20}),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(peers: Peers, topic: str, case: str) -> None:
    """Every field and every byte of the answer."""
    offsets, options = CASES[case]
    peers.agree_in_all_versions(
        FetchRequest, lambda peer, version: fetch(peer, topic, offsets, version, **options)
    )


def test_unknown_topic(peers: Peers) -> None:
    """By name and by id."""
    peers.agree_in_all_versions(FetchRequest, lambda peer, version: fetch(peer, "unknown", {0: 0}, version))


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_leader_epoch(peers: Peers, topic: str, epoch: int) -> None:
    """A client that knows an epoch which is not the leader's is told so."""

    def ask(peer: Peer, version: int) -> Any:
        message = fetch(peer, topic, {0: 0}, version)
        if version >= 9:
            message.topics[0].partitions[0].current_leader_epoch = epoch
        return message

    peers.agree_in_all_versions(FetchRequest, ask)


@pytest.mark.parametrize(("session_id", "session_epoch"), [(0, -1), (77, 1), (77, -1)])
def test_sessions(peers: Peers, topic: str, session_id: int, session_epoch: int) -> None:
    """Sessions that nobody granted, and fetches without one."""

    def ask(peer: Peer, version: int) -> Any:
        message = fetch(peer, topic, {0: 0}, version)
        message.session_id, message.session_epoch = session_id, session_epoch
        return message

    peers.agree_in_all_versions(FetchRequest, ask)

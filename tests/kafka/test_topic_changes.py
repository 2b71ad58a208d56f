"""DeleteTopics, CreatePartitions and DeleteRecords: what goes, what grows, what is refused."""

from typing import Any
from uuid import UUID

import pytest

from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import CreatePartitionsRequest, DeleteRecordsRequest, DeleteTopicsRequest
from tests.kafka.peers import NONE_ID, UNKNOWN_ID, Peer, Peers

STATE: Any = DeleteTopicsRequest.DeleteTopicState


def deletion(*topics: tuple[str | None, UUID]) -> Any:
    """DeleteTopics v6 for topics by name, by id, or by anything."""
    states = [STATE(name=name, topic_id=topic_id, version=6) for name, topic_id in topics]
    return DeleteTopicsRequest(topics=states, timeout_ms=5000, version=6)


@pytest.mark.parametrize("version", range(1, 7))
def test_deletion(peers: Peers, version: int) -> None:
    """A topic goes once; unknown and bad names are refused alike."""
    assert version in peers.versions(DeleteTopicsRequest)
    name = peers.create(f"deleted.{version}")
    for names in ([name, name], [name, "absent"], [name], ["bad name", ""]):
        peers.agree(lambda peer, *names: requests.delete_topics(*names, version=version), *names)
    peers.come_to_agree(lambda peer: requests.metadata(name, create=False))


def test_deletion_by_id(peers: Peers) -> None:
    """By id, by both, by neither, twice, and by an id that is over."""
    name = peers.create("deleted.by-id")

    def topic_id(peer: Peer) -> UUID:
        return peer.topic_ids[name]

    peers.agree(lambda peer: deletion((name, topic_id(peer))))
    peers.agree(lambda peer: deletion((None, NONE_ID)))
    peers.agree(lambda peer: deletion((None, UNKNOWN_ID)))
    peers.agree(lambda peer: deletion((None, UNKNOWN_ID), (None, UNKNOWN_ID)))
    peers.agree(lambda peer: deletion((None, topic_id(peer)), (None, topic_id(peer))))
    peers.agree(lambda peer: deletion((name, NONE_ID), (None, topic_id(peer))))
    peers.agree(lambda peer: deletion((None, topic_id(peer))))
    peers.agree(lambda peer: deletion((None, topic_id(peer))))


def test_topic_made_again_is_another(peers: Peers) -> None:
    """Its offsets begin at 0, the group has no position in it, the old id is unknown."""
    name = peers.create("made-again")
    peers.await_group("reader")
    peers.agree(lambda peer: requests.produce(name, {0: batch(b"a", b"b")}))
    peers.agree(lambda peer: requests.commit_offset("reader", name, 2))
    old_ids = {peer.name: peer.topic_ids[name] for peer in (peers.holdfast, peers.kafka)}
    peers.agree(lambda peer: requests.delete_topics(name))
    peers.come_to_agree(lambda peer: requests.metadata(name, create=False))
    peers.create(name)
    peers.agree(lambda peer: requests.list_offsets(name, {0: -1}))
    peers.come_to_agree(lambda peer: requests.fetch_offset("reader", name))
    peers.agree(lambda peer: requests.fetch(old_ids[peer.name], {0: 0}, version=13))
    peers.agree(lambda peer: requests.produce(old_ids[peer.name], {0: batch(b"c")}, version=13))


GROWTH: dict[str, list[tuple[int, list[list[int]] | None]]] = {
    "as many": [(2, None)],
    "fewer": [(1, None)],
    "none": [(0, None)],
    "less than none": [(-1, None)],
    "unknown node": [(3, [[9]])],
    "node twice": [(3, [[1, 1]])],
    "no node": [(3, [[]])],
    "no assignment": [(3, [])],
    "too few assignments": [(4, [[1]])],
    "too many assignments": [(3, [[1], [1]])],
    "named twice": [(3, None), (4, None)],
    "by hand": [(3, [[1]])],
    "grows": [(4, None)],
}


@pytest.mark.parametrize("version", range(4))
def test_growth(peers: Peers, version: int) -> None:
    """Each case, validated first, then done; and what Metadata says after it."""
    assert version in peers.versions(CreatePartitionsRequest)
    name = peers.create(f"grown.{version}", partitions=2)

    def grow(peer: Peer, validate_only: bool, case: list[tuple[int, list[list[int]] | None]]) -> Any:
        topics = [(name, count, assignments) for count, assignments in case]
        return requests.create_partitions(*topics, validate_only=validate_only, version=version)

    for case in GROWTH.values():
        peers.agree(grow, True, case)
        peers.agree(grow, False, case)
    for peer in (peers.holdfast, peers.kafka):
        peers.await_partitions(peer, name, 4)
    peers.agree(lambda peer: requests.metadata(name, create=False))
    unknown = [("absent", 2, None), ("bad name", 2, None)]
    peers.agree(lambda peer: requests.create_partitions(*unknown, version=version))


RECORDS = {
    "within a batch": {0: 2},
    "back": {0: 1},
    "beyond the end": {0: 10},
    "no such offset": {0: -2},
    "a batch's first": {0: 6},
    "no such partition": {9: 1},
    "two partitions": {0: 7, 1: 0},
    "empty": {1: -1},
    "all": {0: -1},
    "beyond the end of nothing": {0: 10},
}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_deletion_of_records(peers: Peers, version: int) -> None:
    """The answer, and what Fetch and ListOffsets say after each step."""
    name = peers.create(f"emptied.{version}", partitions=2)
    assert version in peers.versions(DeleteRecordsRequest)
    for _ in range(3):
        peers.agree(lambda peer: requests.produce(name, {0: batch(b"a", b"b", b"c")}))
    for offsets in RECORDS.values():
        peers.agree(lambda peer, offsets: requests.delete_records(name, offsets, version=version), offsets)
        for offset in (0, 2, 4, 6, 8, 9):
            peers.agree(lambda peer, offset: requests.fetch(name, {0: offset}), offset)
        for time in (-1, -2, 5):
            peers.agree(lambda peer, time: requests.list_offsets(name, {0: time}), time)
    peers.agree(lambda peer: requests.produce(name, {0: batch(b"d")}))
    peers.agree(lambda peer: requests.fetch(name, {0: 9}))
    peers.agree(lambda peer: requests.delete_records("absent", {0: 1}, version=version))


def test_times_after_a_deletion(peers: Peers) -> None:
    """A record below the log start is not found by its time."""
    name = peers.create("emptied.times")
    for time, values in ((10, [b"a"]), (50, [b"b", b"c"]), (30, [b"d"])):
        peers.agree(
            lambda peer, time, values: requests.produce(name, {0: batch(*values, timestamp_ms=time)}),
            time,
            values,
        )
    for offset in (1, 2, 3, 4):
        peers.agree(lambda peer, offset: requests.delete_records(name, {0: offset}), offset)
        for time in (5, 20, 40, 60):
            peers.agree(lambda peer, time: requests.list_offsets(name, {0: time}), time)

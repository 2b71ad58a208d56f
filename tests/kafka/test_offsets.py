"""ListOffsets, OffsetCommit, OffsetFetch and FindCoordinator: positions by name, by time and by group."""

from typing import Any

import pytest

from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch
from tests.agent import requests
from tests.agent.batches import NOW_MS
from tests.agent.raw import (
    FindCoordinatorRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tests.kafka.peers import Peer, Peers

TOPIC_IDS_SINCE = 10

TIMES = [[10, 30, 20], [25, 40], [40, 5]]
"""Timestamps of three batches, not in order; 40 is there twice."""


@pytest.fixture(scope="module")
def topic(peers: Peers) -> str:
    """Partition 0 has the batches of TIMES, the last one compressed; partition 1 is empty."""
    name = peers.create("timed", partitions=2)
    for times in TIMES:
        codec = Codec.GZIP if times is TIMES[-1] else Codec.NONE
        records = build_batch([Record(value=b"v", timestamp_ms=NOW_MS + t) for t in times], codec=codec)
        peers.agree(lambda peer, records: requests.produce(name, {0: records}), records)
    return name


WHEN = {
    "latest": -1,
    "earliest": -2,
    "greatest timestamp": -3,
    "earliest local": -4,
    "latest tiered": -5,
    "pending upload": -6,
    "unheard of": -7,
    "before all": 0,
    "first": NOW_MS + 10,
    "between": NOW_MS + 21,
    "in the middle of a batch": NOW_MS + 26,
    "last": NOW_MS + 40,
    "after all": NOW_MS + 41,
}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("partition", [0, 1, 9])
def test_list_offsets(peers: Peers, topic: str, when: str, partition: int) -> None:
    """Offset, time and epoch of what was asked for."""
    peers.agree_in_all_versions(
        ListOffsetsRequest,
        lambda peer, version: requests.list_offsets(topic, {partition: WHEN[when]}, version=version),
    )


def test_list_offsets_of_an_unknown_topic(peers: Peers) -> None:
    """An error, and no topic."""
    peers.agree_in_all_versions(
        ListOffsetsRequest,
        lambda peer, version: requests.list_offsets("unknown", {0: -1}, version=version),
    )


@pytest.mark.parametrize("epoch", [0, 1])
def test_list_offsets_with_an_epoch(peers: Peers, topic: str, epoch: int) -> None:
    """A client that knows an epoch which is not the leader's is told so."""

    def ask(peer: Peer, version: int) -> Any:
        message = requests.list_offsets(topic, {0: -1}, version=version)
        message.topics[0].partitions[0].current_leader_epoch = epoch
        return message

    peers.agree_in_all_versions(ListOffsetsRequest, ask)


def commit(peer: Peer, version: int, group: str, topic: str, offset: int, metadata: str | None) -> Any:
    """One position of a group, by the topic's name or id."""
    named = peer.topic(topic, by_id=version >= TOPIC_IDS_SINCE)
    return requests.commit_offset(group, named, offset, metadata=metadata, version=version)


def test_simple_commits(peers: Peers, topic: str) -> None:
    """What a consumer without a group's membership commits, it fetches, metadata included."""
    for version in peers.versions(OffsetCommitRequest):
        group = f"simple.{version}"
        peers.await_group(group)
        for offset, metadata in ((3, "noted"), (4, ""), (5, None)):
            peers.agree(
                commit,
                version,
                group,
                topic,
                offset,
                metadata,
            )
            peers.agree(lambda peer, group: requests.fetch_offset(group, topic, version=7), group)


COMMITS: dict[str, dict[str, Any]] = {
    "no such partition": {"partition": 9},
    "long metadata": {"metadata": "x" * 4097},
    "longest metadata": {"metadata": "x" * 4096},
    "a generation that is not": {"generation": 3},
}


@pytest.mark.parametrize("case", COMMITS)
def test_commit_refusals(peers: Peers, topic: str, case: str) -> None:
    """Codes of commits that are not taken."""
    peers.await_group("refused")
    peers.agree_in_all_versions(
        OffsetCommitRequest,
        lambda peer, version: requests.commit_offset(
            "refused",
            peer.topic(topic, by_id=version >= TOPIC_IDS_SINCE),
            1,
            version=version,
            **COMMITS[case],
        ),
    )


def test_commit_to_an_unknown_topic(peers: Peers) -> None:
    """UNKNOWN_TOPIC_OR_PARTITION."""
    peers.await_group("refused")
    peers.agree_in_all_versions(
        OffsetCommitRequest,
        lambda peer, version: commit(peer, version, "refused", "unknown", 1, ""),
    )


def test_offsets_of_nobody(peers: Peers, topic: str) -> None:
    """A group, a topic or a partition without a position has -1 and no error."""
    peers.await_group("nobody")
    for name, partition in ((topic, 0), (topic, 9), ("unknown", 0)):
        peers.agree_in_all_versions(
            OffsetFetchRequest,
            lambda peer, version, name, partition: requests.fetch_offset(
                "nobody",
                peer.topic(name, by_id=version >= TOPIC_IDS_SINCE),
                version=version,
                partition=partition,
            ),
            name,
            partition,
        )


def test_all_offsets_of_a_group(peers: Peers, topic: str) -> None:
    """Topics null asks for every position."""
    peers.await_group("all")
    peers.agree(lambda peer: requests.commit_offset("all", topic, 2, metadata="m"))
    wanted: Any = OffsetFetchRequest.OffsetFetchRequestGroup

    def ask(peer: Peer, version: int) -> Any:
        version = max(2, version)
        if version < 8:
            return OffsetFetchRequest(group_id="all", topics=None, version=version)
        groups = [
            wanted(group_id=group, member_id=None, member_epoch=-1, topics=None, version=version)
            for group in ("all", "none")
        ]
        return OffsetFetchRequest(groups=groups, require_stable=False, version=version)

    peers.agree_in_all_versions(OffsetFetchRequest, ask)


def test_find_coordinator(peers: Peers) -> None:
    """One node coordinates every group."""
    peers.await_group("found")

    def ask(peer: Peer, version: int) -> Any:
        if version < 4:
            return FindCoordinatorRequest(key="found", key_type=0, version=version)
        return FindCoordinatorRequest(key_type=0, coordinator_keys=["found", "other"], version=version)

    peers.agree_in_all_versions(FindCoordinatorRequest, ask)

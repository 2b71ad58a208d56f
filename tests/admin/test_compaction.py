"""Coordination over HTTP and as metrics: what is told, in which words, and how much of it at most."""

import http.client
from collections.abc import Iterator

import pytest

from holdfast.admin import compaction_metrics
from holdfast.admin.prometheus import render
from holdfast.agent.replica_standing import (
    Coordination,
    PartitionCoordination,
    ReplicaStanding,
    StoreStanding,
    Waiting,
)
from holdfast.client.admin import get_json
from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.control.replicas import StorePhase
from holdfast.errors import AdminRefused
from holdfast.keeper.blockers import Reason
from holdfast.rules.blockers import Track
from holdfast.rules.removal import UNREPORTED
from tests.admin.test_service import address, metrics
from tests.process import HoldfastProcess

IN_SYNC, AWAY, FENCED = StorePhase.IN_SYNC, StorePhase.AWAY, StorePhase.FENCED


def partition(topic: str) -> PartitionCoordination:
    """One replica that is ahead, one that is away and has reported one thing, one that does not count."""
    ahead = ReplicaStanding(
        store=1,
        phase=IN_SYNC,
        held_to=9,
        settled_to=8,
        mxfo=7,
        mcco=6,
        waiting_tombstone_bytes=20,
        unsettled_bytes=3,
    )
    away = ReplicaStanding(
        store=2, phase=AWAY, held_to=5, settled_to=4, mxfo=4, mcco=UNREPORTED, unsettled_bytes=4
    )
    return PartitionCoordination(
        topic=topic,
        partition=0,
        compacted=True,
        lineage=1,
        membership=1,
        log_start=0,
        last_stable=9,
        log_end=9,
        mtro=2,
        mxro=4,
        replicas=[ahead, away, ReplicaStanding(store=3, phase=FENCED)],
        waiting=[
            Waiting(track=Track.TOMBSTONES, reason=Reason.AWAY, store=2, at=UNREPORTED, for_ms=1500),
            Waiting(track=Track.TOMBSTONES, reason=Reason.GRACE, store=None, at=1, for_ms=0),
        ],
    )


def test_metrics_of_a_partition() -> None:
    """One sample for each value that there is: none for what was not reported or does not count."""
    stores = [
        StoreStanding(store=number, phase=phase, incarnation=1, lease=0, for_ms=0)
        for number, phase in enumerate((IN_SYNC, AWAY, FENCED), 1)
    ]
    found = Coordination(stores=stores, partitions=[partition("t")], omitted=7)
    page = render(compaction_metrics.families(found)).decode().splitlines()
    assert [line for line in page if not line.startswith("#")] == [
        'holdfast_stores{phase="in sync"} 1',
        'holdfast_stores{phase="lost"} 0',
        'holdfast_stores{phase="away"} 1',
        'holdfast_stores{phase="joining"} 0',
        'holdfast_stores{phase="fenced"} 1',
        'holdfast_partition_mtro{topic="t",partition="0"} 2',
        'holdfast_partition_mxro{topic="t",partition="0"} 4',
        'holdfast_partition_last_stable{topic="t",partition="0"} 9',
        'holdfast_replica_held_to{topic="t",partition="0",store="1"} 9',
        'holdfast_replica_held_to{topic="t",partition="0",store="2"} 5',
        'holdfast_replica_settled_to{topic="t",partition="0",store="1"} 8',
        'holdfast_replica_settled_to{topic="t",partition="0",store="2"} 4',
        'holdfast_replica_mxfo{topic="t",partition="0",store="1"} 7',
        'holdfast_replica_mxfo{topic="t",partition="0",store="2"} 4',
        'holdfast_replica_mcco{topic="t",partition="0",store="1"} 6',
        'holdfast_removal_waiting_seconds{topic="t",partition="0",track="MTRO",reason="away",store="2"} 1.5',
        'holdfast_removal_waiting_seconds{topic="t",partition="0",track="MTRO",reason="grace",store=""} 0.0',
        'holdfast_removal_waiting_bytes{topic="t",partition="0",track="MTRO"} 20',
        'holdfast_removal_waiting_bytes{topic="t",partition="0",track="MXRO"} 7',
        "holdfast_removal_partitions_omitted 7",
    ]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """A process with more compacted partitions than a scrape tells of, and a plain topic."""
    with HoldfastProcess(tmp_path_factory.mktemp("compaction") / "data") as process:
        with Cluster(process.bootstrap) as cluster:
            compacted = {"cleanup.policy": "compact"}
            create_topic(cluster, "t", partitions=compaction_metrics.PARTITIONS_MAX + 1, configs=compacted)
            create_topic(cluster, "plain", partitions=2)
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


def test_a_scrape_stays_small(process: HoldfastProcess) -> None:
    """However many partitions there are; it says how many it leaves out."""
    found = metrics(process)
    told = [name for name in found if name.startswith("holdfast_partition_mtro{")]
    assert len(told) == compaction_metrics.PARTITIONS_MAX
    assert found["holdfast_removal_partitions_omitted"] == 1
    assert not [name for name in found if 'topic="plain"' in name]
    assert found['holdfast_stores{phase="in sync"}'] == 1


def test_the_route(process: HoldfastProcess) -> None:
    """Everything that matters, or one topic."""
    everything = get_json(address(process), "/compaction")
    assert len(everything["partitions"]) == compaction_metrics.PARTITIONS_MAX + 1
    assert everything["omitted"] == 0
    assert [each["phase"] for each in everything["stores"]] == ["in sync"]
    plain = get_json(address(process), "/compaction?topic=plain")["partitions"]
    assert [(each["topic"], each["partition"]) for each in plain] == [("plain", 0), ("plain", 1)]
    assert plain[0] == {
        "topic": "plain",
        "partition": 0,
        "compacted": False,
        "lineage": 1,
        "membership": 1,
        "log_start": 0,
        "last_stable": 0,
        "log_end": 0,
        "mtro": 0,
        "mxro": 0,
        "replicas": [
            {
                "store": 1,
                "phase": "in sync",
                "held_to": 0,
                "settled_to": 0,
                "mxfo": 0,
                "mcco": 0,
                "joined_from": None,
                "generation": 0,
                "segments": 0,
                "unsettled_bytes": 0,
                "waiting_tombstone_bytes": 0,
            }
        ],
        "waiting": [],
        "waiting_bytes": {"MTRO": 0, "MXRO": 0},
    }
    with pytest.raises(AdminRefused, match="no topic 'none': see `holdfast topic list`"):
        get_json(address(process), "/compaction?topic=none")
    connection = http.client.HTTPConnection(address(process), timeout=20)
    connection.request("GET", "/compaction?topic=none")
    assert connection.getresponse().status == http.HTTPStatus.NOT_FOUND
    connection.close()

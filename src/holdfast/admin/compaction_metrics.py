"""How far replicas are clean and who waits for whom, as metrics.

Bounded: only partitions for which coordination matters (`CoordinationReader.read`), PARTITIONS_MAX at most, those of
the first topics by name; one metric says how many are left out.
"""

from collections.abc import Callable, Iterator

from holdfast.admin.prometheus import Family, Labels, Number, gauge, gauges
from holdfast.agent.agent import Agent
from holdfast.agent.replica_standing import Coordination, PartitionCoordination, ReplicaStanding
from holdfast.control.replicas import StorePhase

PARTITIONS_MAX = 100
NOBODY = ""
"""The label `store` where no store is to blame."""

_PARTITION: dict[str, tuple[str, Callable[[PartitionCoordination], int]]] = {
    "mtro": (
        "Offset below which every replica is cleanly compacted: tombstones may go, after their grace.",
        lambda each: each.mtro,
    ),
    "mxro": (
        "Offset below which every replica has settled: transactions' outcomes may be forgotten.",
        lambda each: each.mxro,
    ),
    "last_stable": (
        "Last stable offset: nothing is settled or compacted above it.",
        lambda each: each.last_stable,
    ),
}

_REPLICA: dict[str, tuple[str, Callable[[ReplicaStanding], object]]] = {
    "held_to": ("Offset below which the replica lacks nothing.", lambda each: each.held_to),
    "settled_to": ("Offset at which the replica's segments end.", lambda each: each.settled_to),
    "mxfo": ("Offset below which the replica has settled everything.", lambda each: each.mxfo),
    "mcco": ("Offset below which the replica is cleanly compacted.", lambda each: each.mcco),
}


def read(agent: Agent) -> Coordination:
    """What a scrape tells; not for the event loop's thread."""
    return agent.cluster.coordination.read(None, PARTITIONS_MAX)


def families(found: Coordination) -> Iterator[Family]:
    """All of it."""
    phases = [each.phase for each in found.stores]
    yield gauges(
        "holdfast_stores",
        "Stores by phase.",
        [((("phase", phase.value),), phases.count(phase)) for phase in StorePhase],
    )
    for name, (about, value) in _PARTITION.items():
        yield gauges(
            f"holdfast_partition_{name}", about, [(_labels(each), value(each)) for each in found.partitions]
        )
    for name, (about, value_of) in _REPLICA.items():
        yield gauges(f"holdfast_replica_{name}", about, _replicas(found, value_of))
    yield gauges(
        "holdfast_removal_waiting_seconds",
        "How long at least a removal offset (track MTRO or MXRO) has been waiting for this reason.",
        [
            (
                (
                    *_labels(each),
                    ("track", waiting.track.value),
                    ("reason", waiting.reason.value),
                    ("store", NOBODY if waiting.store is None else str(waiting.store)),
                ),
                waiting.for_ms / 1000,
            )
            for each in found.partitions
            for waiting in each.waiting
        ],
    )
    yield gauges(
        "holdfast_removal_waiting_bytes",
        "Bytes on all replicas in which tombstones wait for others (MTRO), or that are not settled (MXRO).",
        [
            ((*_labels(each), ("track", track.value)), count)
            for each in found.partitions
            for track, count in each.waiting_bytes.items()
        ],
    )
    yield gauge(
        "holdfast_removal_partitions_omitted",
        "Partitions that the metrics above leave out, to stay few.",
        found.omitted,
    )


def _replicas(
    found: Coordination, value: Callable[[ReplicaStanding], object]
) -> Iterator[tuple[Labels, Number]]:
    """What a replica has not reported, or what does not count, is no number."""
    for each in found.partitions:
        for replica in each.replicas:
            if isinstance(known := value(replica), int):
                yield (*_labels(each), ("store", str(replica.store))), known


def _labels(each: PartitionCoordination) -> Labels:
    return (("topic", each.topic), ("partition", str(each.partition)))

"""What read_committed shows when all is over, on every replica, and whether anything still holds it back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from soak.clients.own import read_committed
from soak.history import LogRecord, Violation
from soak.txn_history import Place
from soak.workload import PATIENCE_SECONDS

PINNED = "pinned"
REPLICAS = "replicas"


@dataclass(slots=True)
class Committed:
    """The logs of a round's topics."""

    logs: dict[Place, list[LogRecord]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """The offset behind each log's last record."""
        return {place: self.logs[place][-1].offset + 1 for place in places if self.logs.get(place)}


def create_bootstrap_cluster(bootstrap: str) -> Cluster:
    """A client that waits for a log that is down."""
    return Cluster(bootstrap, patience_s=PATIENCE_SECONDS)


def read_all(bootstrap: str, topics: Sequence[str]) -> Committed:
    """All partitions of these topics; nobody has a transaction open any more."""
    found = Committed()
    with create_bootstrap_cluster(bootstrap) as cluster:
        for topic in topics:
            for number, partition in cluster.topic(topic).partitions.items():
                place = Place(topic, number)
                end = list_offsets(cluster, topic, {number: LATEST})[number]
                stable = list_offsets(cluster, topic, {number: LATEST}, isolation=Isolation.READ_COMMITTED)[
                    number
                ]
                if stable != end:
                    found.violations.append(
                        Violation(PINNED, f"{place} is stable up to {stable} only, and ends at {end}")
                    )
                logs = {
                    node: read_committed(cluster, place, end=stable, node=node) for node in partition.in_sync
                }
                first, *others = logs.values()
                found.logs[place] = first
                if any(other != first for other in others):
                    found.violations.append(Violation(REPLICAS, f"nodes {list(logs)} differ in {place}"))
    return found

"""Repairs through the admin API alone: a replica that is made anew, or a hanging transaction that is aborted.

A replica goes out of the assignment, its copy goes, and it comes back, empty. One that is added again while its broker
still has the old copy keeps it, and diverges as before. So the broker itself must have said that it holds nothing of
the partition any more.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.client.aborting import OpenTransaction, abort_open, find_open
from holdfast.client.cluster import Cluster, Partition
from holdfast.client.groups import TopicPartition
from holdfast.client.hanging import OpenWrite, find_open_write
from holdfast.client.leaders import assign_replicas, move_leader
from holdfast.client.replica_log import find_bounds
from holdfast.client.topics import describe_configs
from holdfast.doctor.rights import needing
from holdfast.errors import (
    HoldfastError,
    InvalidTxnState,
    NotLeaderOrFollower,
    RepairRefused,
    UnknownTopicOrPartition,
)

PAUSE_S: Final = 0.2
STEP_SECONDS_MAX: Final = 3600.0
"""For the copy to be deleted, and for the new one to be made: large partitions take their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a rebuild does, step by step; made from what the cluster tells, and pure from there."""

    place: TopicPartition
    replica: int
    assigned: tuple[int, ...]
    """As the owner has it, the preferred one first."""
    new_leader: int | None
    """Who leads in its stead, if it leads."""

    @property
    def without(self) -> tuple[int, ...]:
        """Who is left meanwhile."""
        return tuple(node for node in self.assigned if node != self.replica)

    @property
    def subject(self) -> dict[str, int]:
        """What it is about, for programs."""
        return {"replica": self.replica}

    @property
    def steps(self) -> list[str]:
        """In words."""
        where = _where(self.place)
        told = [] if self.new_leader is None else [f"let replica {self.new_leader} lead {where}"]
        return [
            *told,
            f"assign {where} to {_listed(self.without)}",
            f"wait until broker {self.replica} has deleted its copy",
            f"assign {where} to {_listed(self.assigned)} again",
            f"wait until replica {self.replica} is in sync",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortPlan:
    """A transaction that hangs, as it was found; no other one is aborted in its place."""

    place: TopicPartition
    producer_id: int
    found: OpenTransaction

    @property
    def subject(self) -> dict[str, int]:
        """What it is about, for programs."""
        return {"producer_id": self.producer_id}

    @property
    def steps(self) -> list[str]:
        """In words."""
        where = _where(self.place)
        if isinstance(self.found, OpenWrite):
            what = (
                f"abort what producer {self.producer_id} has open in {where} from offset {self.found.start} on, which"
                " no coordinator tells of"
            )
        else:
            places = ", ".join(map(_where, self.found.partitions))
            what = f"abort the transaction of {self.found.name} in {places}, and fence its producer"
        return [what, f"wait until nothing of it is open in {where}"]


def plan_rebuild(
    place: TopicPartition,
    replica: int,
    partition: Partition,
    min_in_sync: int,
    *,
    avoid: frozenset[int] = frozenset(),
) -> Plan:
    """RepairRefused where it would leave fewer in sync than the topic asks for, or nobody sound to copy from.

    `avoid` are replicas that are to be rebuilt, too: none of them may lead.
    """
    where = f"replica {replica} of {_where(place)}"
    if replica not in partition.replicas:
        raise RepairRefused(f"{where} is not assigned: it is on brokers {_listed(partition.replicas)}")
    left = [node for node in partition.in_sync if node != replica]
    needed = max(1, min_in_sync)
    if len(left) < needed:
        raise RepairRefused(
            f"{where} stays as it is: without it {len(left)} would be in sync, and min.insync.replicas is {needed}"
        )
    sound = [node for node in partition.replicas if node in left and node not in avoid]
    if not sound:
        raise RepairRefused(f"{where} stays as it is: every other replica in sync is to be rebuilt, too")
    must_move = partition.leader == replica or partition.leader in avoid
    return Plan(
        place=place,
        replica=replica,
        assigned=partition.replicas,
        new_leader=sound[0] if must_move else None,
    )


def find_plan(cluster: Cluster, place: TopicPartition, replica: int, avoid: frozenset[int]) -> Plan:
    """What would be done, as things stand now."""
    with needing("Describe", place.topic):
        partition = cluster.topic(place.topic).partitions.get(place.partition)
    if partition is None:
        raise UnknownTopicOrPartition(f"topic {place.topic!r} has no partition {place.partition}")
    with needing("DescribeConfigs", place.topic):
        entries = describe_configs(cluster, place.topic)
    configs = {entry.name: entry.value for entry in entries}
    return plan_rebuild(place, replica, partition, int(configs.get("min.insync.replicas") or 1), avoid=avoid)


def rebuild(cluster: Cluster, plan: Plan, *, tell: Callable[[str], None]) -> None:
    """Do it, telling each step before it is done; what was interrupted is completed by assigning `assigned` again."""
    steps = iter(plan.steps)
    with needing("Alter"):
        if plan.new_leader is not None:
            tell(next(steps))
            move_leader(cluster, plan.place, plan.new_leader)
        tell(next(steps))
        assign_replicas(cluster, plan.place, plan.without)
    tell(next(steps))
    _await(lambda: _is_dropped(cluster, plan), f"broker {plan.replica} to delete its copy")
    tell(next(steps))
    assign_replicas(cluster, plan.place, plan.assigned)
    tell(next(steps))
    _await(lambda: plan.replica in _partition(cluster, plan).in_sync, f"replica {plan.replica} to be in sync")


def find_abort_plan(cluster: Cluster, place: TopicPartition, producer_id: int, *, now_ms: int) -> AbortPlan:
    """What would be aborted, as things stand now; InvalidTxnState if the leader has nothing of that producer open.

    RepairRefused where it may be part of a transaction that is alive.
    """
    with needing("Describe", place.topic):
        if place.partition not in cluster.topic(place.topic).partitions:
            raise UnknownTopicOrPartition(f"topic {place.topic!r} has no partition {place.partition}")
    with needing("Read", place.topic):
        found = find_open(cluster, place, producer_id, now_ms=now_ms)
    if found is None:
        raise InvalidTxnState(
            f"the leader of {_where(place)} has nothing of producer {producer_id} open; a replica that has, and does"
            " not lead, is to be rebuilt"
        )
    return AbortPlan(place=place, producer_id=producer_id, found=found)


def abort(cluster: Cluster, plan: AbortPlan, *, tell: Callable[[str], None]) -> None:
    """Do it, telling each step before it is done; InvalidTxnState if it has changed since it was found."""
    first, last = plan.steps
    held = find_open_write(cluster, plan.place, plan.producer_id)
    tell(first)
    with needing("Alter"):
        abort_open(cluster, plan.found)
    tell(last)
    _await(
        lambda: _is_over(held, find_open_write(cluster, plan.place, plan.producer_id)),
        f"the abort to reach {_where(plan.place)}",
    )


def _partition(cluster: Cluster, plan: Plan) -> Partition:
    return cluster.topic(plan.place.topic).partitions[plan.place.partition]


def _is_dropped(cluster: Cluster, plan: Plan) -> bool:
    """By the broker's own word: that the assignment has changed says nothing about its disk."""
    if plan.replica in _partition(cluster, plan).replicas:
        return False
    try:
        find_bounds(cluster, plan.replica, plan.place)
    except (NotLeaderOrFollower, UnknownTopicOrPartition):
        return True
    return False


def _is_over(held: OpenWrite | None, now: OpenWrite | None) -> bool:
    """Whether what was open has ended: a service that comes back may have its next transaction open there by then."""
    if held is None or now is None:
        return True
    return (held.producer_epoch, held.start) != (now.producer_epoch, now.start)


def _await(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + STEP_SECONDS_MAX
    while True:
        try:
            if is_so():
                return
        except HoldfastError as failure:
            if not failure.retriable:
                raise
        if time.monotonic() > deadline:
            raise RepairRefused(f"waited {STEP_SECONDS_MAX:.0f} s for {what}")
        time.sleep(PAUSE_S)


def _where(place: TopicPartition) -> str:
    return f"{place.topic}:{place.partition}"


def _listed(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes))

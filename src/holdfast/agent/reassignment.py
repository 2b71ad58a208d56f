"""Bringing partitions to other stores as Kafka's tools ask for it: what they leave goes when the new ones are in sync.

A reassignment is in the control plane: which replicas are being added, and which are to go. So it outlives a restart,
and is finished by whichever process finds all of its goal in sync.
"""

import asyncio
import logging
from collections.abc import Iterator
from uuid import UUID

from holdfast.agent.catalog import Catalog, check_partition
from holdfast.agent.store_care import StoreCare
from holdfast.control.plane import Partition, Topic
from holdfast.errors import (
    CommitRefused,
    HoldfastError,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    StoreOperationRefused,
)

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Between attempts to finish."""


def is_under_way(partition: Partition) -> bool:
    """Whether the partition is on its way to other stores."""
    return bool(partition.adding or partition.removing)


def find_before(partition: Partition) -> tuple[int, ...]:
    """Where the partition lay before what is under way, and would lie again if that were taken back."""
    return tuple(store for store in partition.replicas if store not in partition.adding)


class Reassignment:
    """Begins, takes back and finishes. Each of the first two is durable when it returns."""

    def __init__(self, catalog: Catalog, care: StoreCare) -> None:
        self._catalog = catalog
        self._care = care
        self._finishing: asyncio.Task[None] | None = None

    async def begin(
        self, topic_id: UUID, number: int, goal: tuple[int, ...], *, may_change_factor: bool = True
    ) -> None:
        """Let a partition come to lie on these stores, the preferred leader first, instead of what is under way."""
        partition = check_partition(self._catalog.get(topic_id), number)
        before = find_before(partition)
        if not goal or len(set(goal)) < len(goal):
            raise InvalidReplicaAssignment(f"replicas {list(goal)}: at least one, each named once")
        if len(goal) != len(before) and not may_change_factor:
            raise InvalidReplicationFactor(
                f"{len(goal)} replicas, where there are {len(before)}: the request forbids another number"
            )
        adding = tuple(store for store in goal if store not in before)
        removing = tuple(store for store in before if store not in goal)
        try:
            if adding:
                await self._care.assign(
                    topic_id, number, (*goal, *removing), adding=adding, removing=removing
                )
            else:
                await self._care.assign(topic_id, number, goal)
        except (StoreOperationRefused, CommitRefused) as refusal:
            raise InvalidReplicaAssignment(str(refusal)) from refusal

    async def cancel(self, topic_id: UUID, number: int) -> None:
        """Let a partition lie where it lay before; NoReassignmentInProgress if it is not on its way."""
        partition = check_partition(self._catalog.get(topic_id), number)
        if not is_under_way(partition):
            raise NoReassignmentInProgress("the partition is not on its way to other nodes")
        try:
            await self._care.assign(topic_id, number, find_before(partition))
        except (StoreOperationRefused, CommitRefused) as refusal:
            raise InvalidReplicaAssignment(str(refusal)) from refusal

    def finish_what_is_ready(self) -> None:
        """Finish what has all of its goal in sync, in the background; nothing happens while that is under way."""
        if self._finishing is None and any(self._list_ready()):
            self._finishing = asyncio.get_running_loop().create_task(self._finish())

    async def stop(self) -> None:
        """End; what is not finished, the next process finishes."""
        if self._finishing is not None:
            self._finishing.cancel()
            await asyncio.gather(self._finishing, return_exceptions=True)

    async def _finish(self) -> None:
        try:
            while ready := list(self._list_ready()):
                for topic, number, partition in ready:
                    goal = tuple(store for store in partition.replicas if store not in partition.removing)
                    try:
                        await self._care.assign(topic.topic_id, number, goal)
                    except HoldfastError as failure:
                        logger.warning("%s:%d is not moved yet: %s", topic.name, number, failure)
                        await asyncio.sleep(PAUSE_SECONDS)
                    else:
                        logger.info("%s:%d has come to stores %s", topic.name, number, list(goal))
        finally:
            self._finishing = None

    def _list_ready(self) -> Iterator[tuple[Topic, int, Partition]]:
        for topic in self._catalog.all():
            for number, partition in enumerate(topic.partitions):
                if is_under_way(partition) and all(
                    self._catalog.has_all(partition, store)
                    for store in partition.replicas
                    if store not in partition.removing
                ):
                    yield topic, number, partition

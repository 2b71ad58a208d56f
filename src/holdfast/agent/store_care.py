"""What operators do to stores: fence one that will not come back, rebuild it, take its partitions elsewhere."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from holdfast.agent.catalog import Catalog, check_partition
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import MoveLeader, Upkeep
from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase, StoreState
from holdfast.errors import StoreFailed, StoreOperationRefused
from holdfast.store.identity import StoreIdentity, wipe
from holdfast.store.reopened import ReopenedStore
from holdfast.store.replica_changes import ReplicasAssigned, StoreFenced, StoreRebuilt

logger = logging.getLogger(__name__)


class StoreCare:
    """Each operation is durable when it returns. StoreOperationRefused says why one is not done."""

    def __init__(
        self,
        plane: ControlPlane,
        catalog: Catalog,
        stores: StoreSet,
        commits: GroupCommit,
        *,
        directory: DataDirectory,
        reopened: Mapping[int, ReopenedStore],
        grace_ms: Callable[[], int],
    ) -> None:
        self._plane = plane
        self._catalog = catalog
        self._stores = stores
        self._commits = commits
        self._directory = directory
        self._reopened = reopened
        self._grace_ms = grace_ms

    async def fence(self, store: int) -> None:
        """A store stops counting, for good: what it holds back goes on without it; it can only come back rebuilt."""
        state = self._find(store)
        if state.phase is StorePhase.FENCED:
            raise StoreOperationRefused(f"store {store} is fenced already")
        if state.phase is StorePhase.IN_SYNC:
            self._check_spared(store)
        await self._commits.submit(Upkeep(StoreFenced(store, self._grace_ms()), self._plane))

    async def rebuild(self, store: int) -> None:
        """Empty a store that is away or fenced, and have it begin its next life as a member that lacks everything."""
        state = self._find(store)
        if state.phase not in (StorePhase.FENCED, StorePhase.AWAY):
            raise StoreOperationRefused(
                f"store {store} is {state.phase.value}: only one that is away or fenced is rebuilt"
            )
        await asyncio.to_thread(self._keep_what_it_knows, store)
        life = state.incarnation + 1
        work = self._stores.submit(store, lambda: self._begin_life(store, life))
        await asyncio.wrap_future(work)
        await self._commits.submit(Upkeep(StoreRebuilt(store, life), self._plane))

    async def remove(self, store: int) -> None:
        """Take every partition off a store, and fence it; the others must have all of them."""
        self._find(store)
        held = [
            (topic, number)
            for topic in self._catalog.all()
            for number, partition in enumerate(topic.partitions)
            if store in partition.replicas
        ]
        self._check_spared(store)
        for topic, number in held:
            partition = check_partition(self._catalog.get(topic.name), number)
            rest = tuple(other for other in partition.replicas if other != store)
            await self.assign(topic.topic_id, number, rest)
        await self.fence(store)

    async def assign(
        self,
        topic_id: UUID,
        number: int,
        replicas: tuple[int, ...],
        *,
        adding: tuple[int, ...] = (),
        removing: tuple[int, ...] = (),
    ) -> None:
        """Let a partition lie on these stores: new ones copy it first, and count from the start.

        `adding` and `removing` say what a reassignment under way is to come to; one that was under way is over.
        """
        topic = self._catalog.get(topic_id)
        partition = check_partition(topic, number)
        for store in replicas:
            self._find(store)
        staying = [store for store in replicas if self._catalog.has_all(partition, store)]
        if not staying or len(set(replicas)) < len(replicas):
            raise StoreOperationRefused(
                f"{topic.name}:{number} needs a replica that is in sync among stores {list(replicas)}, each named once"
            )
        if partition.leader not in replicas:
            await self._commits.submit(MoveLeader(PartitionKey(topic_id, number), staying[0]))
        change = ReplicasAssigned(topic_id, number, replicas, self._grace_ms(), adding, removing)
        await self._commits.submit(Upkeep(change, self._plane))

    def _find(self, store: int) -> StoreState:
        states = {state.store: state for state in self._plane.list_stores()}
        if store not in states or store not in self._reopened:
            raise StoreOperationRefused(f"no store {store}: there are {', '.join(map(str, states))}")
        return states[store]

    def _check_spared(self, store: int) -> None:
        """Every partition of the store is in sync somewhere else."""
        for topic in self._catalog.all():
            for number, partition in enumerate(topic.partitions):
                others = [other for other in partition.replicas if other != store]
                if store in partition.replicas and not any(
                    self._catalog.has_all(partition, other) for other in others
                ):
                    raise StoreOperationRefused(
                        f"store {store} has the only replica in sync of {topic.name}:{number}: it cannot be spared"
                    )

    def _keep_what_it_knows(self, store: int) -> None:
        """Have the stores in sync keep the control plane; refused if none of them can.

        The one that is emptied may hold the last snapshot, or the last journals from frame 1 on.
        """
        others = sorted(self._plane.find_in_sync() - {store})
        failures: list[StoreFailed] = []
        for other in others:
            try:
                self._stores.by_number[other].save_snapshot(self._plane.snapshot)
            except StoreFailed as failure:
                logger.warning("store %d keeps no snapshot: %s", other, failure)
                failures.append(failure)
        if len(failures) == len(others):
            why = "; ".join(map(str, failures)) or "there is none"
            raise StoreOperationRefused(
                f"store {store} is not emptied while no store in sync can keep what it knows: {why}"
            )

    def _begin_life(self, store: int, life: int) -> None:
        """In the store's own thread, after whatever may still hang there."""
        self._reopened[store].close()
        identity = StoreIdentity(cluster_id=self._directory.cluster_id, store=store, incarnation=life)
        wipe(self._directory.store(store), identity)
        self._reopened[store].reopen(life)

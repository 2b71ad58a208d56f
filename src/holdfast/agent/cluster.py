"""What the nodes of one process share: control plane, stores, group commit, topics."""

import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from holdfast.agent.catalog import Catalog, check_name
from holdfast.agent.committer import Committed, Committer
from holdfast.agent.coordination import CoordinationReader
from holdfast.agent.counters import Counters
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.desk import Desk
from holdfast.agent.expiry import Expiry
from holdfast.agent.grace import Grace
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.groups.coordinator import Coordinator
from holdfast.agent.pins import Pins
from holdfast.agent.producer_ids import ProducerIds
from holdfast.agent.readings import Readings
from holdfast.agent.reassignment import Reassignment
from holdfast.agent.restore import restore
from holdfast.agent.returning import Returning
from holdfast.agent.settings import Settings
from holdfast.agent.store_care import StoreCare
from holdfast.agent.store_set import StoreSet
from holdfast.agent.topic_config import check_configs
from holdfast.agent.transactions.coordinator import TransactionCoordinator
from holdfast.agent.waiters import Waiters
from holdfast.agent.writes import CreateTopic
from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.plane import Topic
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import InvalidPartitions, InvalidReplicationFactor, PolicyViolation, StoreFailed
from holdfast.store.footer import TopicCreated
from holdfast.store.local import LocalStore
from holdfast.store.reopened import ReopenedStore

logger = logging.getLogger(__name__)

PARTITIONS_MAX = 10_000
REPLICAS_DEFAULT_MAX = 3


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as record timestamps are."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds that only ever go forward, for deadlines."""
    return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepClocks:
    """What the ages of records and the graces of tombstones are told by; deadlines of clients are not."""

    wall_ms: Callable[[], int] = wall_clock_ms
    monotonic_ms: Callable[[], int] = monotonic_ms


REAL_CLOCKS = UpkeepClocks()


class Cluster:
    """All that is true of the log, whichever node is asked.

    Must be made inside a running event loop. Opening replays what the control plane has not seen. `clocks` and
    `coordination` are what they are by default; the lab alone has others.
    """

    def __init__(
        self,
        settings: Settings,
        directory: DataDirectory,
        *,
        clocks: UpkeepClocks = REAL_CLOCKS,
        coordination: Coordination = COORDINATED,
    ) -> None:
        self.settings = settings
        self.cluster_id = directory.cluster_id
        restore(directory)
        self.plane = SqliteControlPlane(directory.control_db, coordination)
        reopened = {number: self._open_store(directory, number) for number in directory.nodes}
        self.stores = StoreSet(
            (store.as_store for store in reopened.values()),
            append_seconds_max=settings.store_seconds_max,
        )
        committer = Committer(plane=self.plane, stores=self.stores, now_ms=wall_clock_ms)
        committer.recover()
        self.catalog = Catalog(self.plane)
        self.waiters = Waiters()
        self.counters = Counters()
        self.commits = GroupCommit(
            committer,
            queue_bytes_max=settings.commit_queue_bytes_max,
            # Longer than a store may take while others wait: a hanging one has left by then, unless it is the only one.
            commit_seconds_max=3 * settings.store_seconds_max,
            on_committed=self._committed,
            counters=self.counters,
        )
        self.producer_ids = ProducerIds(self.plane, self.commits)
        self.sessions = itertools.count(1)
        """Numbers for connections."""
        self.transactions = TransactionCoordinator(
            self.plane,
            self.commits,
            self.producer_ids,
            timeout_ms_max=settings.transaction_timeout_ms_max,
            now_ms=monotonic_ms,
            wall_ms=wall_clock_ms,
        )
        self.groups = Coordinator(
            self.plane, self.commits, limits=settings.groups, now_ms=monotonic_ms, wall_ms=wall_clock_ms
        )
        self.expiry = Expiry(
            self.plane,
            self.catalog,
            self.commits,
            self.groups,
            interval_seconds=settings.expire_seconds,
            offsets_retention_ms=int(settings.offsets_retention_seconds * 1000),
            now_ms=clocks.wall_ms,
        )
        self.grace = Grace(self.plane, wall_ms=clocks.wall_ms, monotonic_ms=clocks.monotonic_ms)
        directories = {number: str(directory.store(number).resolve()) for number in directory.nodes}
        pins = Pins()
        self.readings = Readings(
            self.plane, self.catalog, pins, directories=directories, cluster_id=str(self.cluster_id)
        )
        self.desk = Desk(
            self.plane,
            self.catalog,
            self.commits,
            stores=self.stores.by_number,
            directories=directories,
            pins=pins,
            limits=settings.keeper,
            grace_ms=self.grace.elapsed_ms,
            wall_ms=clocks.wall_ms,
        )
        self.coordination = CoordinationReader(
            self.plane,
            self.catalog,
            self.transactions.standings,
            limits=settings.keeper,
            grace_ms=self.grace.elapsed_ms,
            wall_ms=wall_clock_ms,
            monotonic_ms=monotonic_ms,
        )
        self.coordination.read_stores()
        self.returning = Returning(
            self.plane,
            self.catalog,
            self.stores,
            self.commits,
            reopened=reopened,
            interval_seconds=settings.return_seconds,
        )
        self.care = StoreCare(
            self.plane,
            self.catalog,
            self.stores,
            self.commits,
            directory=directory,
            reopened=reopened,
            grace_ms=self.grace.elapsed_ms,
        )
        self.reassignment = Reassignment(self.catalog, self.care)
        self.commits.start()
        self.reassignment.finish_what_is_ready()
        self.expiry.start()
        self.returning.start()

    def _open_store(self, directory: DataDirectory, number: int) -> ReopenedStore:
        """The store, open unless it cannot be: then the others go on without it, as if it had failed."""

        known = {state.store: state for state in self.plane.list_stores()}

        def open_store(incarnation: int | None) -> LocalStore:
            path = directory.store(number)
            # Asked each time: a store may be gone that was new when this process began.
            if self.plane.find_checkpoint(number) is not None and not path.exists():
                # To make it anew would be to take a lost disk for a store that is well.
                raise StoreFailed(
                    f"{path} is not there: put it back, or run `holdfast store rebuild {number}`"
                )
            return LocalStore(
                path,
                store=number,
                cluster_id=directory.cluster_id,
                incarnation=incarnation,
            )

        store = ReopenedStore(number, open_store)
        try:
            store.reopen(known[number].incarnation if number in known else None)
        except StoreFailed as failure:
            if len(directory.nodes) == 1:
                raise
            logger.error("store %d cannot be opened: %s", number, failure)
        return store

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        configs: dict[str, str | None] | None = None,
        *,
        replication_factor: int = -1,
        assignment: list[list[int]] | None = None,
    ) -> Topic:
        """Create a topic durably; -1 means the default number."""
        change = self.plan_topic(
            name, partitions, configs or {}, replication_factor=replication_factor, assignment=assignment
        )
        await self.commits.submit(CreateTopic(change))
        return self.catalog.get(name)

    def plan_topic(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str | None],
        *,
        replication_factor: int = -1,
        assignment: list[list[int]] | None = None,
    ) -> TopicCreated:
        """The topic as it would be created; raises the refusal that a client expects."""
        check_name(name)
        if assignment is None:
            if partitions == -1:
                partitions = self.settings.default_partitions
            if partitions < 1:
                raise InvalidPartitions(f"{partitions} partitions: a topic has at least one")
            if partitions > PARTITIONS_MAX:
                raise PolicyViolation(f"{partitions} partitions: {PARTITIONS_MAX} at most, as in Kafka")
            assignment = self.assign(partitions, replication_factor, first=len(self.catalog.all()))
        return TopicCreated(name, uuid4(), assignment, check_configs(configs))

    def assign(self, partitions: int, replication_factor: int, *, first: int) -> list[list[int]]:
        """Replicas for each partition, the leaders spread over the nodes; `first` says where to begin."""
        nodes = sorted(self.catalog.in_sync)
        if replication_factor == -1:
            replication_factor = min(REPLICAS_DEFAULT_MAX, len(nodes))
        if not 0 < replication_factor <= len(nodes):
            raise InvalidReplicationFactor(f"{replication_factor} replicas on {len(nodes)} nodes in sync")
        return [
            [nodes[(first + partition + replica) % len(nodes)] for replica in range(replication_factor)]
            for partition in range(partitions)
        ]

    def _committed(self, committed: Committed) -> None:
        # First: the rest may fail, and nobody tells these ids again.
        if committed.transactional_ids or committed.is_replay:
            self.transactions.watch(committed.transactional_ids, is_replay=committed.is_replay)
        if committed.topics_changed:
            self.catalog.refresh()
            self.coordination.read_stores()
            self.reassignment.finish_what_is_ready()
        self.waiters.wake(committed.appended)

    async def close(self) -> None:
        """Commit what is queued, then close everything."""
        await self.returning.stop()
        await self.reassignment.stop()
        await self.expiry.stop()
        await self.commits.stop()
        self.stores.close()
        self.plane.close()

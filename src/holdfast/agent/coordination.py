"""Who waits for whom: reads how the replicas of the log stand to each other out of the control plane.

Read when somebody asks, in a thread, and true at that moment only. Nothing of it is one snapshot: a value may be newer
than the one beside it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.agent.catalog import Catalog
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.replica_standing import (
    BlockingTransaction,
    Coordination,
    PartitionCoordination,
    ReplicaStanding,
    StoreStanding,
    Waiting,
)
from holdfast.agent.sightings import Sightings
from holdfast.agent.topic_config import compaction_config, is_compacted, segment_bytes
from holdfast.agent.transactions.standing import OpenTransaction, Standings
from holdfast.control.plane import ControlPlane, Extent, LogBounds, Topic
from holdfast.control.replicas import PartitionRemoval, ReplicaManifest, Segment, StorePhase, StoreState
from holdfast.errors import UnknownTopicOrPartition
from holdfast.keeper.blockers import (
    Blocker,
    PartitionStanding,
    Reason,
    find_blockers,
    waiting_tombstone_bytes,
)
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.plan import ReplicaView
from holdfast.rules.transaction import NO_INSTANCE

EXTENTS_MAX = 20 * 256
"""As many unsettled extents are looked at in one partition: the reasons of a keeper follow from them."""
PAGE_BYTES_MAX = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What is the same for all partitions of one answer."""

    stores: Mapping[int, StoreState]
    transactions: Mapping[int, OpenTransaction]
    """By producer id."""
    wall_ms: int
    grace_ms: int

    def phase(self, store: int) -> StorePhase:
        """Of a store that may not be known yet."""
        return self.stores[store].phase if store in self.stores else StorePhase.IN_SYNC


class CoordinationReader:
    """Answers who waits for whom. Any thread may ask; one that the event loop needs should not."""

    def __init__(
        self,
        plane: ControlPlane,
        catalog: Catalog,
        transactions: Standings,
        *,
        limits: KeeperLimits,
        grace_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._plane = plane
        self._catalog = catalog
        self._transactions = transactions
        self._limits = limits
        self._grace_ms = grace_ms
        self._wall_ms = wall_ms
        self._sightings = Sightings(monotonic_ms)

    def read_stores(self) -> list[StoreStanding]:
        """All stores. Asked whenever one may have changed, so that the times are right."""
        return [
            StoreStanding(
                store=state.store,
                phase=state.phase,
                incarnation=state.incarnation,
                lease=state.lease,
                for_ms=self._sightings.look(state.store, [state.phase])[state.phase],
            )
            for state in self._plane.list_stores()
        ]

    def read(self, topic: str | None, partitions_max: int) -> Coordination:
        """All partitions of a topic, or those of all topics for which coordination matters.

        These are partitions of compacted topics, those with a replica that is not in sync, and those in which a
        transaction is open. UnknownTopicOrPartition.
        """
        look = _Look(
            stores={state.store: state for state in self._plane.list_stores()},
            transactions={each.producer_id: each for each in self._transactions.list_open()},
            wall_ms=self._wall_ms(),
            grace_ms=self._grace_ms(),
        )
        chosen = list(self._choose(topic, look))
        partitions = []
        for key, of_topic in chosen[:partitions_max]:
            try:
                partitions.append(self._read_partition(key, of_topic, look))
            except UnknownTopicOrPartition:
                # It went away while we looked.
                continue
        self._sightings.keep(
            lambda subject: (
                not isinstance(subject, PartitionKey) or self._catalog.find_id(subject.topic_id) is not None
            )
        )
        return Coordination(
            stores=self.read_stores(), partitions=partitions, omitted=max(0, len(chosen) - partitions_max)
        )

    def _choose(self, name: str | None, look: _Look) -> Iterator[tuple[PartitionKey, Topic]]:
        topics = self._catalog.all() if name is None else [self._catalog.get(name)]
        in_transaction = self._find_open_partitions(look) if name is None else frozenset()
        for topic in topics:
            for number, partition in enumerate(topic.partitions):
                key = PartitionKey(topic.topic_id, number)
                is_whole = not partition.joining and self._catalog.in_sync.issuperset(partition.replicas)
                if name is not None or is_compacted(topic) or not is_whole or key in in_transaction:
                    yield key, topic

    def _find_open_partitions(self, look: _Look) -> frozenset[PartitionKey]:
        found: set[PartitionKey] = set()
        for each in look.transactions.values():
            state = self._plane.find_transactional_id(each.transactional_id)
            if state is not None and state.instance != NO_INSTANCE:
                places = self._plane.find_instance_partitions(state.instance)
                found.update(PartitionKey(topic_id, partition) for topic_id, partition, _ in places)
        return frozenset(found)

    def _read_partition(self, key: PartitionKey, topic: Topic, look: _Look) -> PartitionCoordination:
        removal, bounds = self._plane.find_removal(*key), self._plane.find_bounds(*key)
        segments = {
            member.store: tuple(self._plane.find_segments(*key, member.store, bounds.start))
            for member in removal.replicas
        }
        views = self._views(key, topic, removal, bounds, segments, look)
        standing = PartitionStanding(
            removal=removal,
            bounds=bounds,
            compacts=is_compacted(topic),
            phases={store: state.phase for store, state in look.stores.items()},
            views=views,
        )
        members = {member.store: member for member in removal.replicas}
        return PartitionCoordination(
            topic=topic.name,
            partition=key.partition,
            compacted=standing.compacts,
            lineage=removal.lineage,
            membership=removal.membership,
            log_start=bounds.start,
            last_stable=bounds.last_stable,
            log_end=bounds.end,
            mtro=removal.removable.mtro,
            mxro=removal.removable.mxro,
            replicas=[
                self._replica(key, members[store], segments[store], removal, bounds, look)
                if store in members
                else ReplicaStanding(store=store, phase=look.phase(store))
                for store in sorted({*topic.partitions[key.partition].replicas, *members})
            ],
            waiting=self._waiting(key, find_blockers(standing, self._limits), look),
        )

    def _replica(
        self,
        key: PartitionKey,
        member: ReplicaManifest,
        segments: tuple[Segment, ...],
        removal: PartitionRemoval,
        bounds: LogBounds,
        look: _Look,
    ) -> ReplicaStanding:
        in_segments = sum(segment.length_bytes for segment in segments)
        above_bytes = max(0, self._plane.find_size(*key, member.store) - in_segments)
        # The size is that of the whole log; one that lacks the end of it has its share.
        begin = max(member.settled_to, bounds.start)
        held, all_above = max(0, member.held_to - begin), max(1, bounds.end - begin)
        return ReplicaStanding(
            store=member.store,
            phase=look.phase(member.store),
            held_to=member.held_to,
            settled_to=member.settled_to,
            mxfo=member.cleaned.mxfo,
            mcco=member.cleaned.mcco,
            joined_from=member.joined_from,
            generation=member.generation,
            segments=len(segments),
            unsettled_bytes=above_bytes * min(held, all_above) // all_above,
            waiting_tombstone_bytes=waiting_tombstone_bytes(segments, member, removal.removable.mtro),
        )

    def _views(
        self,
        key: PartitionKey,
        topic: Topic,
        removal: PartitionRemoval,
        bounds: LogBounds,
        segments: Mapping[int, tuple[Segment, ...]],
        look: _Look,
    ) -> dict[int, ReplicaView]:
        """What keepers see of the replicas that are in sync. The extents are the same for all, and read once."""
        members = [
            member
            for member in removal.replicas
            if look.phase(member.store) is StorePhase.IN_SYNC and member.joined_from is None
        ]
        settled_to = min((member.settled_to for member in members), default=bounds.end)
        extents = tuple(self._extents(key, max(settled_to, bounds.start), bounds.last_stable))
        return {
            member.store: ReplicaView(
                store=member.store,
                directory="",
                lease=0,
                topic=topic.name,
                topic_id=key.topic_id.hex,
                partition=key.partition,
                bounds=bounds,
                compacts=is_compacted(topic),
                config=compaction_config(topic),
                segment_bytes_max=segment_bytes(topic),
                manifest=member,
                removal=removal,
                segments=segments[member.store],
                extents=tuple(extent for extent in extents if extent.last >= member.settled_to),
                peers=(),
                tail_journal=_tail_journal(look.stores[member.store]),
                wall_ms=look.wall_ms,
                grace_ms=look.grace_ms,
            )
            for member in members
            if member.store in look.stores
        }

    def _extents(self, key: PartitionKey, offset: int, end: int) -> Iterator[Extent]:
        found = 0
        while offset < end and found < EXTENTS_MAX:
            _, extents = self._plane.find_extents(*key, offset, PAGE_BYTES_MAX)
            if not extents:
                return
            yield from extents
            found += len(extents)
            offset = extents[-1].end

    def _waiting(self, key: PartitionKey, blockers: tuple[Blocker, ...], look: _Look) -> list[Waiting]:
        seen_ms = self._sightings.look(key, [(each.track, each.reason, each.store) for each in blockers])
        found = []
        for each in blockers:
            transaction, for_ms = None, seen_ms[each.track, each.reason, each.store]
            if each.since_ms is not None:
                for_ms = look.grace_ms - each.since_ms
            if each.reason is Reason.OPEN_TRANSACTION:
                transaction, age_ms = self._find_oldest(key, look)
                for_ms = max(for_ms, age_ms)
            found.append(
                Waiting(
                    track=each.track,
                    reason=each.reason,
                    store=each.store,
                    at=each.at,
                    for_ms=max(0, for_ms),
                    remaining_ms=each.remaining_ms,
                    dirty_bytes=each.dirty_bytes,
                    clean_bytes=each.clean_bytes,
                    transaction=transaction,
                )
            )
        return found

    def _find_oldest(self, key: PartitionKey, look: _Look) -> tuple[BlockingTransaction | None, int]:
        """The transaction that the last stable offset waits for, and its age."""
        instances = self._plane.find_open_instances(*key)
        if not instances:
            return None, 0
        producer_id, oldest = min(instances.items(), key=lambda each: each[1].first_offset)
        known = look.transactions.get(producer_id)
        found = BlockingTransaction(
            transactional_id=None if known is None else known.transactional_id,
            producer_id=producer_id,
            first_offset=oldest.first_offset,
        )
        return found, 0 if known is None else max(0, look.wall_ms - known.started_ms)


def _tail_journal(state: StoreState) -> int:
    return state.checkpoint.end.journal if state.checkpoint else 0

"""The desk where keepers ask: what there is to do, the right to do it, and to have it take effect.

It answers plain JSON documents with plain JSON documents, so that it does not matter whether a keeper asks in this
process or over HTTP. Reading goes on in threads: a long list must not hold up the event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from holdfast.agent.catalog import Catalog
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.keeper_leases import KeeperLeases
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.pins import Pins
from holdfast.agent.space import Space
from holdfast.agent.topic_config import compaction_config, is_compacted, segment_bytes
from holdfast.agent.writes import Upkeep, UpkeepOfMany
from holdfast.control.plane import ControlPlane, Extent, LogBounds, Topic
from holdfast.control.replicas import PartitionRemoval, ReplicaManifest, Segment, StorePhase
from holdfast.errors import CommitRefused, OutcomeMissing, UnknownTopicOrPartition
from holdfast.keeper import messages
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.messages import (
    AllPublished,
    CarriedPublication,
    Key,
    Leases,
    LeasesWanted,
    Publication,
    Publications,
    Published,
    StoreInfo,
    StoreNamed,
    Stores,
    Views,
    ViewsWanted,
)
from holdfast.keeper.plan import NO_LEASE, PeerView, ReplicaView, plan
from holdfast.rules.removal import Unreported
from holdfast.store.carried import lease_of_carried
from holdfast.store.footer import Change
from holdfast.store.replica_changes import (
    AddedSegment,
    CarriedExtent,
    ExtentsCarried,
    Granted,
    KeeperLeased,
    SegmentsPublished,
    StoreJoined,
)
from holdfast.store.segment import parse_segment_file
from holdfast.store.store import Store

VIEWS_MAX = 200
EXTENTS_PER_VIEW_MAX = 20_000
PAGE_BYTES_MAX = 1 << 62

Answer = Callable[[dict[str, Any]], Awaitable[object]]


@dataclass(slots=True)
class KeeperActivity:
    """What keepers have done since this process began."""

    published: int = 0
    refused: int = 0
    round_ended_ms: int | None = None
    """When a keeper that had something to do was done with it, by the wall clock."""


class Desk:
    """Answers keepers. `questions` are its answers by name."""

    def __init__(
        self,
        plane: ControlPlane,
        catalog: Catalog,
        commits: GroupCommit,
        *,
        stores: Mapping[int, Store],
        directories: Mapping[int, str],
        pins: Pins,
        limits: KeeperLimits,
        grace_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._plane = plane
        self._catalog = catalog
        self._commits = commits
        self._directories = directories
        self._limits = limits
        self._grace_ms = grace_ms
        self._wall_ms = wall_ms
        self._leases = KeeperLeases(plane, commits)
        self.activity = KeeperActivity()
        self._space = Space(
            plane,
            catalog,
            stores=stores,
            directories=directories,
            pins=pins,
            limits=limits,
            is_leased=self._leases.is_held,
        )
        self.questions: Mapping[str, Answer] = {
            "stores": self._list_stores,
            "limits": self._find_limits,
            "lease": self._lease,
            "release": self._release,
            "views": self._list_views,
            "publish": self._publish,
            "carried": self._publish_carried,
            "join": self._join,
            **self._space.questions,
        }

    def let_go(self, holder: str) -> None:
        """Whoever holds these stores is dead: the next keeper need not wait until its leases have run out."""
        self._leases.release_all(holder)

    async def is_anything_due(self) -> bool:
        """Whether a keeper would find work."""
        return await asyncio.to_thread(self._look_for_work)

    def _look_for_work(self) -> bool:
        for state in self._plane.list_stores():
            if state.phase is StorePhase.JOINING or self._space.is_anything_due(state):
                return True
            if state.phase is StorePhase.IN_SYNC and state.store in self._directories:
                wanted: ViewsWanted | None = ViewsWanted(store=state.store)
                while wanted is not None:
                    page = self._read_views(wanted)
                    if any(_is_due(view, self._limits) for view in page.views):
                        return True
                    wanted = page.next and replace(wanted, after=page.next)
        return False

    async def _list_stores(self, document: dict[str, Any]) -> Stores:
        states = await asyncio.to_thread(self._plane.list_stores)
        return Stores(
            stores=[
                StoreInfo(
                    store=state.store,
                    directory=self._directories[state.store],
                    phase=state.phase,
                    incarnation=state.incarnation,
                )
                for state in states
                if state.store in self._directories
            ]
        )

    async def _find_limits(self, document: dict[str, Any]) -> KeeperLimits:
        return self._limits

    async def _lease(self, document: dict[str, Any]) -> Leases:
        wanted = messages.convert(document, LeasesWanted)
        return Leases(leases=await self._leases.take(wanted.stores, wanted.holder))

    async def _release(self, document: dict[str, Any]) -> dict[str, object]:
        wanted = messages.convert(document, LeasesWanted)
        if self._leases.release(wanted.stores, wanted.holder):
            self.activity.round_ended_ms = self._wall_ms()
        return {}

    async def _list_views(self, document: dict[str, Any]) -> Views:
        wanted = messages.convert(document, ViewsWanted)
        return await asyncio.to_thread(self._read_views, wanted)

    async def _publish(self, document: dict[str, Any]) -> AllPublished:
        """In one frame, but each is refused on its own."""
        publications = messages.convert(document, Publications).publications
        refused = [_find_foreign_file(publication) for publication in publications]
        fitting = [number for number, reason in enumerate(refused) if reason is None]
        at_ms = self._grace_ms()
        changes = [_published(publications[number], at_ms) for number in fitting]
        answers = await self._commits.submit(UpkeepOfMany(changes, self._plane))
        assert isinstance(answers, list)
        for number, refusal in zip(fitting, answers, strict=True):
            refused[number] = refusal and str(refusal)
        self.activity.published += refused.count(None)
        self.activity.refused += len(refused) - refused.count(None)
        return AllPublished(refused=refused)

    async def _publish_carried(self, document: dict[str, Any]) -> Published:
        publication = messages.convert(document, CarriedPublication)
        if lease_of_carried(publication.file) != publication.lease:
            return Published(refused=f"the file is none of the lease {publication.lease}")
        return await self._submit(
            ExtentsCarried(
                store=publication.store,
                incarnation=publication.incarnation,
                lease=publication.lease,
                file=publication.file,
                extents=tuple(
                    CarriedExtent(UUID(topic_id), partition, last, position)
                    for topic_id, partition, last, position in publication.extents
                ),
            )
        )

    async def _join(self, document: dict[str, Any]) -> Published:
        """A store that has everything; first a snapshot, since its journals have a gap that nothing else bridges."""
        store = messages.convert(document, StoreNamed).store
        behind = await asyncio.to_thread(self._plane.list_behind, store)
        if behind:
            return Published(refused=f"store {store} lacks something of {len(behind)} partitions")
        # A frame that the store has been given: a replay after the snapshot begins behind it.
        state = next(state for state in self._plane.list_stores() if state.store == store)
        refused = (await self._submit(KeeperLeased(store, state.lease + 1))).refused
        if refused is not None:
            return Published(refused=refused)
        self._leases.drop(store)
        await asyncio.to_thread(self._space.save_snapshot, store)
        return await self._submit(StoreJoined(store))

    async def _submit(self, change: Change) -> Published:
        try:
            await self._commits.submit(Upkeep(change, self._plane))
        except CommitRefused as refusal:
            return Published(refused=str(refusal))
        return Published(refused=None)

    def _read_views(self, wanted: ViewsWanted) -> Views:
        views: list[ReplicaView] = []
        extents = 0
        for key, topic in self._replicas_on(wanted.store, wanted.after):
            try:
                view = self._view(wanted, topic, key)
            except UnknownTopicOrPartition:
                continue
            if view is None:
                continue
            views.append(view)
            extents += len(view.extents)
            if len(views) == VIEWS_MAX or extents >= EXTENTS_PER_VIEW_MAX:
                return Views(views=views, next=(key.topic_id.hex, key.partition))
        return Views(views=views, next=None)

    def _replicas_on(self, store: int, after: Key | None) -> Iterator[tuple[PartitionKey, Topic]]:
        for topic in sorted(self._catalog.all(), key=lambda topic: topic.topic_id.hex):
            for number, partition in enumerate(topic.partitions):
                if store in partition.replicas and (after is None or (topic.topic_id.hex, number) > after):
                    yield PartitionKey(topic.topic_id, number), topic

    def _view(self, wanted: ViewsWanted, topic: Topic, key: PartitionKey) -> ReplicaView | None:
        """The replica, unless it is plain that there is nothing to do."""
        removal = self._plane.find_removal(*key)
        manifest = next((one for one in removal.replicas if one.store == wanted.store), None)
        if manifest is None:
            return None
        bounds = self._plane.find_bounds(*key)
        segments = tuple(self._plane.find_segments(*key, wanted.store))
        compacts = is_compacted(topic)
        is_settled = min(bounds.last_stable, manifest.held_to) <= manifest.settled_to
        is_whole = manifest.held_to >= bounds.end and manifest.joined_from is None
        if is_whole and is_settled and not (compacts and _may_be_due(manifest, segments)):
            return None
        extents = tuple(self._extents(key, manifest, bounds))
        if all(one.store != wanted.store for one in self._plane.find_removal(*key).replicas):
            # It has left the partition since its manifest was read, and its places in extents with it.
            return None
        return ReplicaView(
            store=wanted.store,
            directory=self._directories[wanted.store],
            lease=NO_LEASE,
            topic=topic.name,
            topic_id=key.topic_id.hex,
            partition=key.partition,
            bounds=bounds,
            compacts=compacts,
            config=compaction_config(topic),
            segment_bytes_max=segment_bytes(topic),
            manifest=manifest,
            removal=removal,
            segments=segments,
            extents=extents,
            peers=self._peers(key, removal, manifest),
            tail_journal=self._tail_journal(wanted.store),
            wall_ms=self._wall_ms(),
            grace_ms=self._grace_ms(),
        )

    def _tail_journal(self, store: int) -> int:
        checkpoint = self._plane.find_checkpoint(store)
        return checkpoint.end.journal if checkpoint else 0

    def _peers(
        self, key: PartitionKey, removal: PartitionRemoval, manifest: ReplicaManifest
    ) -> tuple[PeerView, ...]:
        if manifest.joined_from is None:
            return ()
        return tuple(
            PeerView(
                store=peer.store,
                directory=self._directories[peer.store],
                settled_to=peer.settled_to,
                segments=tuple(self._plane.find_segments(*key, peer.store, manifest.held_to)),
            )
            for peer in removal.replicas
            if peer.store in self._catalog.in_sync and peer.joined_from is None
        )

    def _extents(self, key: PartitionKey, manifest: ReplicaManifest, bounds: LogBounds) -> Iterator[Extent]:
        """From the end of the segments on; a replica that lacks some needs those that are not decided, too."""
        offset, end, found = max(manifest.settled_to, bounds.start), bounds.last_stable, 0
        if manifest.joined_from is not None:
            end = max(end, manifest.joined_from)
        while offset < end and found < EXTENTS_PER_VIEW_MAX:
            _, extents = self._plane.find_extents(*key, offset, PAGE_BYTES_MAX)
            if not extents:
                return
            yield from extents
            found += len(extents)
            offset = extents[-1].last + 1


def _is_due(view: ReplicaView, limits: KeeperLimits) -> bool:
    try:
        return view.manifest.joined_from is not None or plan(view, limits) is not None
    except OutcomeMissing:
        # A keeper would only stop there, and say so: whoever starts one by hand sees it, and readers are told.
        return False


def _may_be_due(manifest: ReplicaManifest, segments: Sequence[Segment]) -> bool:
    has_tombstones = any(segment.first_tombstone >= 0 for segment in segments)
    mcco = manifest.cleaned.mcco
    return has_tombstones or (not isinstance(mcco, Unreported) and mcco < manifest.settled_to)


def _find_foreign_file(publication: Publication) -> str | None:
    """Why it cannot be taken: only files of its lease are sure not to be deleted as orphans."""
    names = (parse_segment_file(segment.file) for segment in publication.added)
    if any(name.lease != publication.lease for name in names):
        return f"a file is none of the lease {publication.lease}"
    return None


def _published(publication: Publication, at_ms: int) -> SegmentsPublished:
    return SegmentsPublished(
        topic_id=UUID(publication.topic_id),
        partition=publication.partition,
        store=publication.store,
        incarnation=publication.incarnation,
        lease=publication.lease,
        generation=publication.generation,
        lineage=publication.lineage,
        removed=tuple(publication.removed),
        added=tuple(AddedSegment(**messages.plain(segment)) for segment in publication.added),
        grant=Granted(*publication.grant),
        mcco=publication.mcco,
        mxfo=publication.mxfo,
        at_ms=at_ms,
    )

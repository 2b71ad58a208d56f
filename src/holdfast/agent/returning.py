"""Letting stores come back: one that was away is looked at every so often, and given frames again once it is well.

One that is here is looked at, too: it may have been moved away under its open files.

What it has is verified first: its identity and life, that it takes writes, that it has every byte that the control
plane knows it to have. What it has beyond that, nobody recorded, and it is cut off. What it missed, its keeper copies.
"""

import asyncio
import logging
from collections.abc import Mapping
from uuid import UUID

from holdfast.agent.catalog import Catalog
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.recovery import WRITTEN
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import Knock, Upkeep
from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase, StoreState
from holdfast.errors import HoldfastError, StoreFailed
from holdfast.store.reopened import ReopenedStore
from holdfast.store.replica_changes import StoreJoining

logger = logging.getLogger(__name__)


class Returning:
    """Looks at stores that are away; `reasons` says why each of them still is."""

    def __init__(
        self,
        plane: ControlPlane,
        catalog: Catalog,
        stores: StoreSet,
        commits: GroupCommit,
        *,
        reopened: Mapping[int, ReopenedStore],
        interval_seconds: float,
    ) -> None:
        self._plane = plane
        self._catalog = catalog
        self._stores = stores
        self._commits = commits
        self._reopened = reopened
        self._interval_seconds = interval_seconds
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.reasons: dict[int, str] = {}

    def start(self) -> None:
        """Begin; the first look comes after the first interval."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End, after the look under way."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def look(self) -> None:
        """Have every store that is away and well given frames again, and find out whose directory is gone."""
        for state in await asyncio.to_thread(self._plane.list_stores):
            if state.store not in self._reopened:
                continue
            if state.phase is StorePhase.AWAY:
                await self._bring_back(state)
            elif state.phase in WRITTEN and self._catalog.in_sync - {state.store}:
                # The last one in sync is left alone: whatever became of its directory, what is open is all there is.
                await self._check_in_place(state)

    async def _bring_back(self, state: StoreState) -> None:
        try:
            await asyncio.wrap_future(self._stores.submit(state.store, lambda: self._verify(state)))
            await self._commits.submit(Upkeep(StoreJoining(state.store, state.incarnation), self._plane))
        except HoldfastError as failure:
            if self.reasons.get(state.store) != str(failure):
                logger.warning("store %d stays away: %s", state.store, failure)
            self.reasons[state.store] = str(failure)
        else:
            self.reasons.pop(state.store, None)
            logger.info(
                "store %d is back and is given every frame; what it missed is being copied", state.store
            )

    async def _check_in_place(self, state: StoreState) -> None:
        """A directory that was moved away takes frames as long as its journal is open: have the store leave now."""
        reopened = self._reopened[state.store]

        def check() -> None:
            try:
                reopened.as_store.check_in_place()
            except StoreFailed as failure:
                reopened.give_up(failure)
                raise

        try:
            await asyncio.wrap_future(self._stores.submit(state.store, check))
        except StoreFailed as failure:
            logger.error("store %d is not where it was: %s", state.store, failure)
            await self._commits.submit(Knock())

    def _verify(self, state: StoreState) -> None:
        """In the store's own thread, where its writes are: one that hangs there comes first."""
        store = self._reopened[state.store]
        store.reopen(state.incarnation)
        store.as_store.probe()
        store.as_store.truncate_to(state.checkpoint)
        for topic in self._catalog.all():
            for number, partition in enumerate(topic.partitions):
                if state.store in partition.replicas:
                    self._check_segments(state.store, topic.topic_id, number)

    def _check_segments(self, store: int, topic_id: UUID, partition: int) -> None:
        for segment in self._plane.find_segments(topic_id, partition, store):
            self._reopened[store].as_store.check_segment(segment.file, segment.length_bytes)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), self._interval_seconds)
                return
            except TimeoutError:
                pass
            try:
                await self.look()
            except Exception:
                # A bug of ours in one look must not end all later ones.
                logger.exception("stores that are away cannot be looked at")

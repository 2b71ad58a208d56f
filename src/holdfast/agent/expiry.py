"""Expiry: where each log may begin by its topic's retention, and the task that lets it begin there.

The same task forgets positions of consumers that are gone; `groups/offset_expiry.py` says which.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from holdfast.agent.catalog import Catalog
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.groups.coordinator import Coordinator
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.topic_config import find_retention
from holdfast.agent.writes import MoveLogStart
from holdfast.control.plane import ControlPlane, Extent
from holdfast.control.replicas import Segment
from holdfast.errors import HoldfastError, NotLeaderOrFollower, UnknownTopicOrPartition

logger = logging.getLogger(__name__)

TRIM_ROWS_MAX = 1000
"""Rows that are deleted in one step: commits wait for it."""

INTERVAL_SECONDS_MIN = 0.01

PAGE_BYTES_MAX = 1 << 62


class Aged(Protocol):
    """What a decision needs to know of a segment or an extent."""

    @property
    def end(self) -> int:
        """The offset after its last."""
        ...

    @property
    def length_bytes(self) -> int:
        """Its size."""
        ...

    @property
    def max_timestamp(self) -> int:
        """Its greatest timestamp; -1: its records have none."""
        ...


def find_log_start(
    pieces: Iterable[Aged],
    *,
    start: int,
    size_bytes: int,
    now_ms: int,
    retention_ms: int | None,
    retention_bytes: int | None,
) -> int:
    """Where the log may begin: whole segments and extents go, from the first one on, as Kafka's segments do.

    One goes while all after it still have `retention_bytes`, or when its newest record is older than
    `retention_ms`; one without times goes with the next that has one. `pieces` begin with the one that holds
    `start` and are read only as far as needed.
    """
    excess_bytes = 0 if retention_bytes is None else size_bytes - retention_bytes
    for piece in pieces:
        excess_bytes -= piece.length_bytes
        is_in_excess = retention_bytes is not None and excess_bytes >= 0
        is_old = (
            retention_ms is not None
            and piece.max_timestamp >= 0
            and now_ms - piece.max_timestamp > retention_ms
        )
        if is_in_excess or is_old:
            start = piece.end
        elif piece.max_timestamp >= 0 or retention_ms is None:
            break
    return start


class Expiry:
    """Every so often lets logs begin later, forgets old positions, and takes away rows that nobody sees any more.

    It reads in a thread of its own: a large partition must not hold up the event loop.
    """

    def __init__(
        self,
        plane: ControlPlane,
        catalog: Catalog,
        commits: GroupCommit,
        groups: Coordinator,
        *,
        interval_seconds: float,
        offsets_retention_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._plane = plane
        self._catalog = catalog
        self._commits = commits
        self._groups = groups
        self._interval_seconds = max(interval_seconds, INTERVAL_SECONDS_MIN)
        self._offsets_retention_ms = offsets_retention_ms
        self._now_ms = now_ms
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the first round comes after the first interval."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End, after the step under way."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def expire(self) -> None:
        """One round: move what may move, durably, then trim in steps."""
        starts = await asyncio.to_thread(self._find_moves)
        moves = [self._commits.submit(MoveLogStart(key, start)) for key, start in starts.items()]
        for (key, start), outcome in zip(
            starts.items(), await asyncio.gather(*moves, return_exceptions=True), strict=True
        ):
            if isinstance(outcome, HoldfastError):
                logger.warning("%s/%d stays as it is: %s", key.topic_id, key.partition, outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                logger.info("%s/%d begins at %d", key.topic_id, key.partition, start)
        await self._expire_offsets()
        trimmed = TRIM_ROWS_MAX
        while trimmed == TRIM_ROWS_MAX and not self._stopping.is_set():
            trimmed = await asyncio.to_thread(self._plane.trim, TRIM_ROWS_MAX)

    async def _expire_offsets(self) -> None:
        before_ms = self._now_ms() - self._offsets_retention_ms
        for group in await asyncio.to_thread(self._plane.find_stale_groups, before_ms):
            if self._stopping.is_set():
                return
            try:
                await self._groups.expire(group, before_ms)
            except HoldfastError as refusal:
                logger.warning("positions of group %s stay as they are: %s", group, refusal)
            # Most often there is nothing to wait for, and others want their turn.
            await asyncio.sleep(0)

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._stopping.wait(), self._interval_seconds)
                return
            except TimeoutError:
                pass
            try:
                await self.expire()
            except HoldfastError as failure:
                logger.error(
                    "old records and positions are not deleted: %s; the next round tries again", failure
                )
            except Exception:
                # A bug of ours in one round must not end all later ones.
                logger.exception("old records and positions are not deleted")

    def _find_moves(self) -> dict[PartitionKey, int]:
        moves: dict[PartitionKey, int] = {}
        for topic in self._catalog.all():
            retention_ms, retention_bytes = find_retention(topic)
            if retention_ms is None and retention_bytes is None:
                continue
            for partition, held in enumerate(topic.partitions):
                if self._stopping.is_set():
                    return moves
                key = PartitionKey(topic.topic_id, partition)
                try:
                    bounds = self._plane.find_bounds(*key)
                    start = find_log_start(
                        self._pieces(key, held.leader, bounds.start, bounds.end),
                        start=bounds.start,
                        size_bytes=0 if retention_bytes is None else self._plane.find_size(*key, held.leader),
                        now_ms=self._now_ms(),
                        retention_ms=retention_ms,
                        retention_bytes=retention_bytes,
                    )
                except UnknownTopicOrPartition:
                    break
                except NotLeaderOrFollower:
                    # It has another leader by now; the next round knows.
                    continue
                # What is not decided yet stays, however old it is.
                start = min(start, bounds.last_stable)
                if start > bounds.start:
                    moves[key] = start
        return moves

    def _pieces(self, key: PartitionKey, store: int, offset: int, end: int) -> Iterator[Segment | Extent]:
        """From the one that holds `offset` on. The first alone, because most often it is not old enough."""
        bytes_max = 0
        while offset < end:
            _, pieces = self._plane.find_pieces(*key, store, offset, bytes_max)
            if not pieces:
                return
            yield from pieces
            offset, bytes_max = pieces[-1].end, PAGE_BYTES_MAX

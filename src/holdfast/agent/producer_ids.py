"""Producer ids, allotted durably a block at a time, so that a restart never hands one out twice."""

import asyncio

from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.writes import AllotProducerIds
from holdfast.control.plane import ControlPlane

BLOCK_IDS = 1000


class ProducerIds:
    """Hands out ids of the current block and takes the next block when it is used up."""

    def __init__(self, plane: ControlPlane, commits: GroupCommit) -> None:
        self._commits = commits
        self._next = self._end = plane.find_next_producer_id()
        self._lock = asyncio.Lock()

    async def allot(self) -> int:
        """An id that nobody has had before."""
        async with self._lock:
            if self._next == self._end:
                end = self._end + BLOCK_IDS
                await self._commits.submit(AllotProducerIds(end))
                self._end = end
            producer_id = self._next
            self._next += 1
            return producer_id

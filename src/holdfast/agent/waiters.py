"""Fetches that wait for a partition to grow."""

import asyncio
from collections.abc import Iterable

from holdfast.agent.partition_key import PartitionKey


class Waiters:
    """Futures by partition; waking one forgets it everywhere."""

    def __init__(self) -> None:
        self._by_partition: dict[PartitionKey, set[asyncio.Future[None]]] = {}
        self.is_closed = False

    async def wait(self, keys: Iterable[PartitionKey], seconds_max: float) -> None:
        """Return when one of the partitions has grown, or after the time."""
        if self.is_closed:
            return
        keys = set(keys)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._by_partition.setdefault(key, set()).add(future)
        try:
            await asyncio.wait([future], timeout=seconds_max)
        finally:
            for key in keys:
                waiting = self._by_partition[key]
                waiting.discard(future)
                if not waiting:
                    del self._by_partition[key]

    def wake(self, keys: Iterable[PartitionKey]) -> None:
        """The partitions have grown."""
        for key in keys:
            for future in self._by_partition.get(key, ()):
                if not future.done():
                    future.set_result(None)

    def wake_all(self) -> None:
        """Nobody waits from here on: the agent stops."""
        self.is_closed = True
        self.wake(list(self._by_partition))

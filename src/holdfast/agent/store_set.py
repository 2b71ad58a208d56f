"""The stores of a process, written to in parallel, each within a deadline."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from holdfast.errors import StoreFailed
from holdfast.store.journal import Buffer
from holdfast.store.store import Store, StoredFrame

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Who took a frame, and why the others did not."""

    frames: list[StoredFrame]
    failures: dict[int, StoreFailed]


class StoreSet:
    """Stores by number. A store has a thread of its own, so that one that hangs cannot hold up the others.

    With a single store there are no others: it is written to directly, which saves a change of threads.
    """

    def __init__(self, stores: Iterable[Store], *, append_seconds_max: float) -> None:
        self.by_number: Mapping[int, Store] = {store.number: store for store in stores}
        self._append_seconds_max = append_seconds_max
        self._threads = {
            number: ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"store-{number}")
            for number in (self.by_number if len(self.by_number) > 1 else ())
        }

    def append(self, number: int, bodies: Mapping[int, Sequence[Buffer]], footer: bytes) -> Appended:
        """Append frame `number` to the stores that `bodies` names; returns when each is durable or has failed."""
        if not self._threads:
            ((store, body),) = bodies.items()
            try:
                return Appended(frames=[self.by_number[store].append(number, body, footer)], failures={})
            except StoreFailed as failure:
                return Appended(frames=[], failures={store: failure})
        writes = {
            store: self._threads[store].submit(self._append, store, number, body, footer)
            for store, body in bodies.items()
        }
        wait(writes.values(), timeout=self._append_seconds_max)
        appended = Appended(frames=[], failures={})
        for store, write in writes.items():
            try:
                appended.frames.append(self._result(store, write))
            except StoreFailed as failure:
                appended.failures[store] = failure
        return appended

    def _append(self, store: int, number: int, body: Sequence[Buffer], footer: bytes) -> StoredFrame:
        return self.by_number[store].append(number, body, footer)

    def submit(self, store: int, work: Callable[[], None]) -> "Future[None]":
        """Have something done to a store in its own thread, after what it is doing now."""
        return self._threads[store].submit(work)

    def _result(self, store: int, write: "Future[StoredFrame]") -> StoredFrame:
        if write.done():
            return write.result()
        # It may still write the frame, at any time. Its thread then gives that journal up.
        self._threads[store].submit(self.by_number[store].begin_anew)
        raise StoreFailed(f"store {store} did not answer within {self._append_seconds_max:g} s")

    def close(self) -> None:
        """Close all stores, without waiting for one that hangs."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        for store in self.by_number.values():
            store.close()

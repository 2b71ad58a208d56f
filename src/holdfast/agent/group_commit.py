"""Group commit: what arrives while one commit is on its way goes into the next one, in one frame."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue

from holdfast.agent.committer import Committed, Committer
from holdfast.agent.counters import Counters
from holdfast.agent.writes import Write
from holdfast.errors import StorageUnavailable

logger = logging.getLogger(__name__)

COMMIT_BYTES_MAX = 32 * 1024 * 1024

Deliver = Callable[[object], None]
Submitted = tuple[Write, Deliver]


class GroupCommit:
    """The event loop's end of the commit thread.

    `submit` keeps the order of calls, but for writes that go first. There is no room while more than
    `queue_bytes_max` wait: connections stop reading then, so that back-pressure reaches the sockets instead of
    memory.
    """

    def __init__(
        self,
        committer: Committer,
        *,
        queue_bytes_max: int,
        commit_seconds_max: float = math.inf,
        on_committed: Callable[[Committed], None],
        counters: Counters,
    ) -> None:
        self._committer = committer
        self._queue_bytes_max = queue_bytes_max
        self._commit_seconds_max = commit_seconds_max
        self._on_committed = on_committed
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        # What this turn of the event loop has submitted: handed over at once, it wakes the thread once.
        self._gathered: list[Submitted] = []
        self._queue: SimpleQueue[Submitted | None] = SimpleQueue()
        # Each is written by one thread only, so that none of them needs a lock.
        self._bytes_submitted = 0
        self._bytes_taken = 0
        self._bytes_refused = 0
        # What the last frame had no space for.
        self._held_over: Submitted | None = None
        # Whether None, which ends the queue, has been taken from it.
        self._at_end = False
        self._stopping = False
        # The commit under way, and since when; written by the commit's thread alone.
        self._under_way: tuple[list[Submitted], float] | None = None
        # The group whose writers have been told that its commit takes too long; written by the event loop alone.
        self._given_up: list[Submitted] | None = None
        self._thread = threading.Thread(target=self._run, name="commit", daemon=True)
        self._waiting_for_room: dict[Callable[[], None], None] = {}

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()
        if math.isfinite(self._commit_seconds_max):
            self._loop.call_later(self._commit_seconds_max / 4, self._watch)

    def submit(self, write: Write) -> "asyncio.Future[object]":
        """Queue a write; the future has its answer once it is durable."""
        future: asyncio.Future[object] = self._loop.create_future()
        self.submit_to(write, partial(resolve, future))
        return future

    def submit_to(self, write: Write, deliver: Deliver) -> None:
        """Queue a write; `deliver` is called in the event loop with its answer, or the error that it met."""
        if self._stopping:
            deliver(StorageUnavailable("shutting down: send it again to the next process"))
            return
        if self._is_stuck:
            deliver(self._too_slow())
            return
        self._bytes_submitted += write.size_bytes
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append((write, deliver))

    def _hand_over(self) -> None:
        for submitted in self._gathered:
            self._queue.put(submitted)
        self._gathered.clear()

    @property
    def _is_stuck(self) -> bool:
        """Whether the commit under way is one that has been given up."""
        under_way = self._under_way
        return under_way is not None and under_way[0] is self._given_up

    def _too_slow(self) -> StorageUnavailable:
        return StorageUnavailable(
            f"the disk has not answered for {self._commit_seconds_max:g} s: send it again"
        )

    def _watch(self) -> None:
        """Tell those who wait for a commit that takes too long; what becomes of it, nobody knows yet.

        With several stores one that hangs is left behind before that. A single one has no other to go on with.
        """
        if self._stopping:
            return
        under_way = self._under_way
        if under_way is not None and time.perf_counter() - under_way[1] > self._commit_seconds_max:
            group = under_way[0]
            if group is not self._given_up:
                logger.error("a commit takes longer than %g s: writes are refused", self._commit_seconds_max)
                self._given_up = group
                self._tell(group, [self._too_slow()] * len(group))
            self._refuse_queued()
        self._loop.call_later(self._commit_seconds_max / 4, self._watch)

    def _refuse_queued(self) -> None:
        while True:
            try:
                submitted = self._queue.get_nowait()
            except Empty:
                return
            if submitted is None:
                self._queue.put(None)
                return
            self._bytes_refused += submitted[0].size_bytes
            self._tell([submitted], [self._too_slow()])

    @property
    def has_room(self) -> bool:
        """Whether more may be submitted."""
        return self.queued_bytes <= self._queue_bytes_max

    @property
    def queued_writes(self) -> int:
        """Writes that wait for the commit under way to end."""
        return len(self._gathered) + self._queue.qsize() + (self._held_over is not None)

    @property
    def queued_bytes(self) -> int:
        """What they weigh."""
        return self._bytes_submitted - self._bytes_taken - self._bytes_refused

    @property
    def last_frame(self) -> int:
        """The newest frame that is recorded; 0 before the first."""
        return self._committer.last_frame

    def call_when_room(self, callback: Callable[[], None]) -> None:
        """Call back once, when there is room again."""
        self._waiting_for_room[callback] = None

    async def stop(self) -> None:
        """Commit what is queued, then end the thread."""
        self._stopping = True
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        # The thread's last deliveries were scheduled before it ended; let them run.
        await asyncio.sleep(0)

    def _run(self) -> None:
        while group := self._take():
            begun = time.perf_counter()
            self._under_way = (group, begun)
            committed = self._commit([write for write, _ in group])
            self._under_way = None
            self._counters.commit_seconds.observe(time.perf_counter() - begun)
            self._counters.commit_writes += len(group)
            # A write alone may be refused for many reasons; this one hits the whole group.
            if isinstance(committed.answers[0], StorageUnavailable):
                self._counters.commit_failures += 1
            self._counters.transactions_begun += committed.transactions_begun
            self._counters.transactions_committed += committed.transactions_committed
            self._counters.transactions_aborted += committed.transactions_aborted
            self._loop.call_soon_threadsafe(self._deliver, group, committed)

    def _commit(self, writes: list[Write]) -> Committed:
        try:
            return self._committer.commit(writes)
        except Exception:
            # A bug of ours must not leave clients waiting for ever, nor end the thread that all writes need.
            logger.exception("commit of %d writes failed", len(writes))
            error = StorageUnavailable("internal error: the log of the agent has the traceback")
            # It may have been recorded before it failed: what was heard of earlier commits is to be asked for again.
            return Committed(answers=[error] * len(writes), appended=[], is_replay=True)

    def _take(self) -> list[Submitted]:
        """All that is queued, up to the size of one frame; waits for the first, and is empty at the end."""
        group: list[Submitted] = []
        first: list[Submitted] = []
        taken_bytes = 0
        submitted = self._held_over or (None if self._at_end else self._queue.get())
        self._held_over = None
        while submitted is not None:
            size_bytes = submitted[0].size_bytes
            taken_bytes += size_bytes
            if group and taken_bytes > COMMIT_BYTES_MAX:
                self._held_over = submitted
                return first + group
            (first if submitted[0].goes_first else group).append(submitted)
            self._bytes_taken += size_bytes
            try:
                submitted = self._queue.get_nowait()
            except Empty:
                return first + group
        self._at_end = True
        return first + group

    def _deliver(self, group: list[Submitted], committed: Committed) -> None:
        # Before anybody is answered: the coordinator judges the next request by what it was told of commits.
        self._on_committed(committed)
        if group is self._given_up:
            logger.info("the commit that took too long has ended: writes are taken again")
            self._given_up = None
        else:
            self._tell(group, committed.answers)
        if self.has_room and self._waiting_for_room:
            callbacks, self._waiting_for_room = self._waiting_for_room, {}
            for callback in callbacks:
                callback()

    def _tell(self, group: list[Submitted], answers: Sequence[object]) -> None:
        for (write, deliver), answer in zip(group, answers, strict=True):
            try:
                deliver(answer)
            except Exception:
                # A bug of ours in one answer must not cost the others theirs.
                logger.exception("the answer to %s was not delivered", type(write).__name__)


def resolve(future: "asyncio.Future[object]", answer: object) -> None:
    """Give a future its answer or its error, unless nobody waits for it any more."""
    if future.cancelled():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)

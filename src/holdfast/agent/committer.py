"""The serial step of the group commit: plan, make durable, record. Blocking; one thread calls it."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from holdfast.agent.plan import CommitPlan, PartitionKey, Tail
from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused, HoldfastError, StorageUnavailable, StoreFailed
from holdfast.store import footer
from holdfast.store.store import Store

logger = logging.getLogger(__name__)

FIRST_FRAME = 1


class Write(Protocol):
    """Something to commit: it adds itself to a plan and says what to answer once the plan is durable."""

    @property
    def size_bytes(self) -> int:
        """What it weighs in the queue."""
        ...

    def plan(self, plan: CommitPlan) -> object:
        """The answer, valid from the moment the commit succeeds; a HoldfastError refuses this write alone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What became of a group: one answer or error for each write, and the partitions that grew."""

    answers: list[object]
    appended: list[PartitionKey]


class Committer:
    """Owns the order of frames. After a failure the next commit starts from what the control plane says."""

    def __init__(self, *, plane: ControlPlane, store: Store, now_ms: Callable[[], int]) -> None:
        self._plane = plane
        self._store = store
        self._now_ms = now_ms
        self._tails: dict[PartitionKey, Tail] = {}
        self._topic_names: set[str] = set()
        self._next_frame = FIRST_FRAME
        self._is_current = False
        self._is_failing = False

    @property
    def last_frame(self) -> int:
        """The newest frame that is recorded; 0 before the first."""
        return self._next_frame - 1

    def recover(self) -> int:
        """Apply the frames that the control plane has not seen and return how many there were."""
        replayed = 0
        for frame in self._store.replay(self._plane.checkpoint()):
            # A refusal now was a refusal when the frame was new, and nobody was told otherwise.
            with suppress(CommitRefused):
                self._plane.apply(frame, footer.decode(frame.footer))
            replayed += 1
        applied = self._plane.checkpoint()
        self._next_frame = FIRST_FRAME if applied is None else applied.frame + 1
        self._tails = {}
        self._topic_names = {topic.name for topic in self._plane.list_topics()}
        self._is_current = True
        return replayed

    def commit(self, writes: Sequence[Write]) -> Committed:
        """Commit all writes in one frame. A write that does not fit is refused alone, the rest goes on."""
        try:
            if not self._is_current:
                self.recover()
            committed = self._commit(writes)
        except (StoreFailed, CommitRefused) as failure:
            if not self._is_failing:
                self._is_failing = True
                logger.error("writes are refused until this is mended: %s", failure)
            error = StorageUnavailable(str(failure))
            return Committed(answers=[error] * len(writes), appended=[])
        if self._is_failing:
            self._is_failing = False
            logger.info("writes are taken again")
        return committed

    def _commit(self, writes: Sequence[Write]) -> Committed:
        plan = CommitPlan(
            find_tail=self._find_tail, topic_exists=self._topic_names.__contains__, now_ms=self._now_ms()
        )
        answers: list[object] = []
        for write in writes:
            try:
                answers.append(write.plan(plan))
            except HoldfastError as refusal:
                answers.append(refusal)
        body, changes = plan.seal()
        if changes:
            frame = self._store.append(self._next_frame, body, footer.encode(changes))
            # From here on the frame is in the journal: until it is recorded, the next commit must replay it.
            self._is_current = False
            self._plane.apply(frame, changes)
            self._is_current = True
            self._next_frame += 1
            self._tails.update(plan.tails)
            self._topic_names |= plan.topic_names
        return Committed(answers=answers, appended=plan.appended)

    def _find_tail(self, key: PartitionKey) -> Tail:
        tail = self._tails.get(key)
        if tail is None:
            bounds = self._plane.find_bounds(key.topic_id, key.partition)
            producers = self._plane.find_producers(key.topic_id, key.partition)
            tail = Tail(end=bounds.end, leader_epoch=bounds.leader_epoch, producers=producers)
            self._tails[key] = tail
        return tail

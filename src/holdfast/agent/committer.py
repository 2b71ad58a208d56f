"""The serial step of the group commit: plan, make durable, record. Blocking; one thread calls it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan, Tail
from holdfast.agent.recovery import Recovery, add_stores
from holdfast.agent.store_set import StoreSet
from holdfast.agent.topic_plan import KnownTopics
from holdfast.agent.transactions.plan import KnownTransactions
from holdfast.agent.writes import Write
from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase
from holdfast.errors import CommitRefused, HoldfastError, StorageUnavailable, StoreFailed
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store import footer
from holdfast.store.footer import Change, LeaderMoved
from holdfast.store.journal import Buffer
from holdfast.store.replica_changes import StoreAdded, StoreChange, StoreFenced, StoreLeft

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What became of a group: one answer or error for each write, and the partitions that readers may look at."""

    answers: list[object]
    appended: list[PartitionKey]
    """Those that grew, became stable further on, or went; after a replay, all that there are."""
    transactional_ids: Mapping[str, TransactionalId] = field(default_factory=dict)
    """Those that have changed, as they stand, by name; after a replay, all that have a transaction open."""
    is_replay: bool = False
    """Whether anything may have changed besides."""
    topics_changed: bool = False
    """Whether there are other topics now, or other configs, partitions or leaders; after a replay, for all we know."""
    transactions_begun: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0


class Committer:
    """Owns the order of frames. After a failure the next commit starts from what the control plane says."""

    def __init__(self, *, plane: ControlPlane, stores: StoreSet, now_ms: Callable[[], int]) -> None:
        self._plane = plane
        self._stores = stores
        self._now_ms = now_ms
        self._tails: dict[PartitionKey, Tail] = {}
        self._topics = KnownTopics()
        self._transactions = KnownTransactions(plane)
        self._in_sync: frozenset[int] = frozenset()
        # Stores that are given every frame, but lack older ones.
        self._joining: frozenset[int] = frozenset()
        self._next_frame = 0
        self._is_current = False
        self._is_failing = False
        # Whether frames were replayed since anybody was told of what is there.
        self._has_replayed = False

    @property
    def last_frame(self) -> int:
        """The newest frame that is recorded; 0 before the first."""
        return self._next_frame - 1

    def recover(self) -> int:
        """Apply the frames that the control plane has not seen and return how many there were."""
        add_stores(self._plane, self._stores.by_number)
        replayed = Recovery(self._plane, dict(self._stores.by_number)).run()
        self._next_frame = self._plane.find_applied() + 1
        self._read_stores()
        self._topics = KnownTopics.of(self._plane.list_topics())
        self._transactions = KnownTransactions(self._plane)
        # Current only when the leaders have moved, too: if that fails, the next commit begins with it.
        self._depose(self._find_stores(StorePhase.LOST))
        self._announce_newcomers()
        self._is_current = True
        return replayed

    def commit(self, writes: Sequence[Write]) -> Committed:
        """Commit all writes in one frame. A write that does not fit is refused alone, the rest goes on."""
        try:
            if not self._is_current:
                self.recover()
                self._has_replayed = True
            committed = self._commit(writes)
        except (StoreFailed, CommitRefused) as failure:
            if not self._is_failing:
                self._is_failing = True
                logger.error("writes are refused until this is mended: %s", failure)
            error = StorageUnavailable(str(failure))
            committed = Committed(answers=[error] * len(writes), appended=[])
        else:
            if self._is_failing:
                self._is_failing = False
                logger.info("writes are taken again")
        return self._with_replayed(committed) if self._has_replayed else committed

    def _with_replayed(self, committed: Committed) -> Committed:
        """Tell what frames may have brought whose writers were told of a failure: nobody else will."""
        self._has_replayed = False
        return replace(
            committed,
            appended=committed.appended + self._topics.list_partitions(),
            transactional_ids=self._transactions.list_open(),
            is_replay=True,
            topics_changed=True,
        )

    def _commit(self, writes: Sequence[Write]) -> Committed:
        plan = CommitPlan(
            find_tail=self._find_tail,
            topics=self._topics,
            transactions=self._transactions,
            in_sync=self._in_sync,
            joining=self._joining,
            now_ms=self._now_ms(),
        )
        answers: list[object] = []
        for write in writes:
            try:
                answers.append(write.plan(plan))
            except HoldfastError as refusal:
                answers.append(refusal)
        bodies, changes = plan.seal()
        if not changes and not plan.is_wanted:
            return Committed(answers=answers, appended=[])
        lost = self._make_durable(bodies, changes)
        self._tails.update(plan.settled_tails())
        ended = [
            PartitionKey(topic_id, partition)
            for topic_id, count in plan.topics.publish().items()
            for partition in range(count)
        ]
        for key in ended:
            self._tails.pop(key, None)
        stable = plan.transactions.publish()
        if lost:
            answers = [
                _checked(write, answer, plan, lost) for write, answer in zip(writes, answers, strict=True)
            ]
            self._depose_or_try_again(lost)
        stores_changed = any(isinstance(change, StoreChange) for change in plan.upkeep)
        if stores_changed:
            self._read_stores()
            fenced = {change.store for change in plan.upkeep if isinstance(change, StoreFenced)}
            self._depose_or_try_again(frozenset(fenced))
        moved = stores_changed or bool(lost) or LeaderMoved in map(type, changes)
        return Committed(
            answers=answers,
            appended=[*plan.appended, *ended, *stable],
            transactional_ids=plan.transactions.changed,
            topics_changed=moved or not plan.topics.is_empty,
            transactions_begun=len(plan.transactions.begun),
            transactions_committed=sum(end.committed for end in plan.transactions.ended),
            transactions_aborted=sum(not end.committed for end in plan.transactions.ended),
        )

    def _make_durable(self, bodies: dict[int, list[Buffer]], changes: list[Change]) -> frozenset[int]:
        """Append the frame and record it; the stores that failed to take it are in sync no longer.

        StoreFailed if no store in sync took it. All stay in sync then: the next frame has its number, which makes it
        void where a store that is joining took it.
        """
        appended = self._stores.append(self._next_frame, bodies, footer.encode(changes))
        for store, failure in appended.failures.items():
            logger.error("store %d failed to take frame %d: %s", store, self._next_frame, failure)
        if not any(frame.store in self._in_sync for frame in appended.frames):
            raise next(iter(appended.failures.values()))
        lost = frozenset(appended.failures)
        # From here on the frame is in the journals: until it is recorded, the next commit must replay it.
        self._is_current = False
        self._plane.apply(appended.frames, changes, lost=sorted(lost))
        self._is_current = True
        self._next_frame += 1
        self._in_sync -= lost
        self._joining -= lost
        return lost

    def _announce_newcomers(self) -> None:
        """Say in a frame which stores are new: a replay must not look for older frames on them."""
        known = {state.store for state in self._plane.list_stores()}
        if newcomers := sorted(self._stores.by_number.keys() - known):
            written = sorted(self._in_sync | self._joining)
            lost = self._make_durable({store: [] for store in written}, list(map(StoreAdded, newcomers)))
            self._read_stores()
            if lost:
                self._depose(lost)

    def _depose_or_try_again(self, lost: frozenset[int]) -> None:
        """What was committed stays committed if this fails: then the next commit begins with it."""
        try:
            self._depose(lost)
        except (StoreFailed, CommitRefused) as failure:
            logger.error("leaders on lost stores cannot be moved yet: %s", failure)
            self._is_current = False

    def _depose(self, lost: frozenset[int]) -> None:
        """Let replicas in sync lead what other stores led, and say in a frame which have left, and with what.

        The frame must say so even if nothing was led there: later extents leave the store out, so a replay that
        took it for in sync would call it whole.
        """
        changes: list[Change] = []
        for topic in self._plane.list_topics():
            for number, partition in enumerate(topic.partitions):
                heirs = [
                    store
                    for store in partition.replicas
                    if store in self._in_sync and store not in partition.joining
                ]
                if partition.leader not in self._in_sync and heirs:
                    epoch = partition.leader_epoch + 1
                    changes.append(LeaderMoved(topic.topic_id, number, heirs[0], epoch))
                    self._tails.pop(PartitionKey(topic.topic_id, number), None)
        changes += [StoreLeft(store, tuple(self._plane.list_behind(store))) for store in sorted(lost)]
        if not changes:
            return
        written = sorted(self._in_sync | self._joining)
        lost_now = self._make_durable({store: [] for store in written}, changes)
        if lost_now:
            self._depose(lost_now)

    def _find_stores(self, phase: StorePhase) -> frozenset[int]:
        return frozenset(state.store for state in self._plane.list_stores() if state.phase is phase)

    def _read_stores(self) -> None:
        """Who is in sync and who is joining, and so where the next frame goes."""
        self._in_sync = self._plane.find_in_sync()
        self._joining = self._find_stores(StorePhase.JOINING)
        self._tails = {}

    def _find_tail(self, key: PartitionKey) -> Tail:
        tail = self._tails.get(key)
        if tail is None:
            partition = self._plane.find_partition(key.topic_id, key.partition)
            bounds = self._plane.find_bounds(key.topic_id, key.partition)
            tail = Tail(
                start=bounds.start,
                end=bounds.end,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                replicas=partition.replicas,
                joining=partition.joining,
                producers=self._plane.find_producers(key.topic_id, key.partition),
            )
            self._tails[key] = tail
        return tail


def _checked(write: Write, answer: object, plan: CommitPlan, lost: frozenset[int]) -> object:
    if isinstance(answer, HoldfastError):
        return answer
    try:
        write.check(plan, lost)
    except HoldfastError as refusal:
        return refusal
    return answer

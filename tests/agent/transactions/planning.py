"""A control plane with a topic, and commits that are planned on it as the committer does."""

from typing import TypeVar
from uuid import UUID

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan, Tail
from holdfast.agent.topic_plan import KnownTopics
from holdfast.agent.transactions.plan import KnownTransactions, Membership
from holdfast.agent.transactions.writes import EndTransaction, FenceProducer, InitialiseProducer, StageOffsets
from holdfast.control.memory import MemoryControlPlane
from holdfast.records.batch import BatchView, validate
from holdfast.records.build import Record, build_batch
from holdfast.rules.producer import WrittenBatch
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import GroupOffsetCommitted, TopicCreated
from tests.agent.batches import NOW_MS
from tests.control.frames import Apply

TOPIC = UUID(int=1)
A, B = PartitionKey(TOPIC, 0), PartitionKey(TOPIC, 1)
TIMEOUT_MS = 60_000

C = TypeVar("C")


class World:
    """What commits leave behind."""

    def __init__(self) -> None:
        self.plane = MemoryControlPlane()
        self.plane.add_store(1)
        self._apply = Apply(self.plane)
        self._apply(TopicCreated("orders", TOPIC, [[1], [1]], {}))
        self.known = KnownTransactions(self.plane)
        self._tails = {
            key: Tail(end=0, leader=1, leader_epoch=0, replicas=(1,), producers={}) for key in (A, B)
        }
        self._spares = iter(range(7, 1_000_000))

    def plan(self) -> CommitPlan:
        """The next commit."""
        return CommitPlan(
            find_tail=self._tails.__getitem__,
            topics=KnownTopics.of(self.plane.list_topics()),
            transactions=self.known,
            in_sync=frozenset({1}),
            now_ms=NOW_MS,
        )

    def commit(self, plan: CommitPlan) -> set[PartitionKey]:
        """It succeeds; partitions whose last stable offset may have moved. What is known is what was recorded."""
        _, changes = plan.seal()
        if not changes:
            return set()
        self._apply(*changes)
        self._tails |= plan.settled_tails()
        stable = plan.transactions.publish()
        fresh = KnownTransactions(self.plane)
        assert fresh.open == self.known.open
        assert fresh.next_instance == self.known.next_instance
        assert fresh.partitions == {
            instance: self.known.partitions.get(instance, set()) for instance in fresh.open.values()
        }
        assert self.known.by_name.items() >= fresh.by_name.items()
        return stable

    def initialise(
        self, name: str, plan: CommitPlan, claimed: tuple[int, int] | None = None
    ) -> TransactionalId:
        """A producer, under an epoch of its own."""
        return InitialiseProducer(
            transactional_id=name,
            claimed=claimed,
            timeout_ms=TIMEOUT_MS,
            spare_producer_id=next(self._spares),
        ).plan(plan)

    def start(self, name: str = "t") -> TransactionalId:
        """The same in a commit of its own."""
        plan = self.plan()
        state = self.initialise(name, plan)
        self.commit(plan)
        return state

    def end(
        self,
        plan: CommitPlan,
        who: TransactionalId,
        name: str = "t",
        *,
        commit: bool = True,
        bump: bool = False,
        announced_turn: int | None = None,
    ) -> TransactionalId:
        """EndTxn by a producer."""
        return EndTransaction(
            transactional_id=name,
            producer_id=who.producer_id,
            epoch=who.epoch,
            commit=commit,
            bump=bump,
            announced_turn=announced_turn,
            started_ms=NOW_MS,
            spare_producer_id=next(self._spares),
        ).plan(plan)


def batch(
    who: TransactionalId, sequence: int = 0, *, count: int = 1, transactional: bool = True
) -> BatchView:
    """A batch of a producer, as the agent has it."""
    data = build_batch(
        [Record(value=b"v", timestamp_ms=NOW_MS)] * count,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return validate(memoryview(bytearray(data)))


def append(
    plan: CommitPlan, key: PartitionKey, view: BatchView, membership: Membership | None = None
) -> WrittenBatch:
    """It goes to the leader."""
    return plan.append(key, view, leader=1, stamp_time=False, in_sync_min=1, membership=membership)


def stage(
    plan: CommitPlan, who: TransactionalId, membership: Membership, offset: int, partition: int = 0
) -> None:
    """TxnOffsetCommit of the group g."""
    position = GroupOffsetCommitted("g", TOPIC, partition, offset, -1, None, NOW_MS)
    StageOffsets(
        membership=membership, producer_id=who.producer_id, epoch=who.epoch, offsets=[position]
    ).plan(plan)


def fence(plan: CommitPlan, who: TransactionalId, name: str = "t", *, announced: bool = False) -> bool:
    """A time-out of the producer's turn."""
    return FenceProducer(transactional_id=name, turn=who.turn, announced=announced).plan(plan)


def sealed(plan: CommitPlan, kind: type[C]) -> list[C]:
    """The plan's changes of one kind."""
    _, changes = plan.seal()
    return [change for change in changes if isinstance(change, kind)]

"""What the transaction coordinator commits. Each is judged when it is planned: requests may have waited."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from holdfast.agent.plan import CommitPlan
from holdfast.agent.transactions.plan import Membership
from holdfast.agent.writes import Write
from holdfast.rules import transactional_id as rules
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import GroupOffsetCommitted, GroupOffsetStaged


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialiseProducer(Write):
    """Hand a transactional id to a producer; what its predecessor left open is aborted."""

    transactional_id: str
    claimed: tuple[int, int] | None
    timeout_ms: int
    spare_producer_id: int | None

    def plan(self, plan: CommitPlan) -> TransactionalId:
        """The id as the producer gets it."""
        update = partial(
            rules.initialise,
            claimed=self.claimed,
            timeout_ms=self.timeout_ms,
            spare_producer_id=self.spare_producer_id,
        )
        return plan.transactions.change(self.transactional_id, update)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction(Write):
    """Decide a transaction, and publish its staged positions if it is committed: one row, one step."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    bump: bool
    announced_turn: int | None
    """The turn in which the producer has announced a transaction that may have no data."""
    started_ms: int
    """When that was, or now."""
    spare_producer_id: int | None = None

    def plan(self, plan: CommitPlan) -> TransactionalId:
        """The id as the producer goes on with it."""
        state = plan.transactions.find(self.transactional_id)
        update = partial(
            rules.end,
            producer_id=self.producer_id,
            epoch=self.epoch,
            commit=self.commit,
            bump=self.bump,
            announced=state is not None and state.turn == self.announced_turn,
            started_ms=self.started_ms,
            spare_producer_id=self.spare_producer_id,
        )
        return plan.transactions.change(self.transactional_id, update, commit=self.commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceProducer(Write):
    """Abort the transaction of a turn and take the id from its producer; nothing if the turn is over."""

    transactional_id: str
    turn: int
    announced: bool
    """Whether to fence a producer, too, that has announced a transaction and written nothing."""

    def plan(self, plan: CommitPlan) -> bool:
        """Whether there was something to end."""
        state = plan.transactions.find(self.transactional_id)
        if state is None or state.turn != self.turn:
            return False
        if state.instance == NO_INSTANCE and not self.announced:
            return False
        plan.transactions.change(self.transactional_id, lambda _: rules.fence(state))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOffsets(Write):
    """Positions of a group that count once the transaction is committed."""

    membership: Membership
    producer_id: int
    epoch: int
    offsets: Sequence[GroupOffsetCommitted]

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.transactions.check_producer(self.membership.transactional_id, self.producer_id, self.epoch)
        for offset in self.offsets:
            plan.topics.get(offset.topic_id)
        instance = plan.transactions.join(self.membership)
        plan.changes.extend(
            GroupOffsetStaged(
                instance,
                offset.group,
                offset.topic_id,
                offset.partition,
                offset.offset,
                offset.leader_epoch,
                offset.metadata,
            )
            for offset in self.offsets
        )

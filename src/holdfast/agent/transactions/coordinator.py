"""The coordinator of all transactions: requests in, durable decisions out.

The truth about a transactional id is in the control plane and changes only by a group commit. Here is what need
not be durable: which partitions were announced (AddPartitionsToTxn costs no commit), by which connection, and
since when. A restart forgets it; `_may_have_forgotten` says for whom that must not count.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from holdfast.agent.alarm import Alarm
from holdfast.agent.group_commit import Deliver, GroupCommit, resolve
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.producer_ids import ProducerIds
from holdfast.agent.transactions.known_ids import KnownIds
from holdfast.agent.transactions.opening import Opening
from holdfast.agent.transactions.plan import Membership, check_writer
from holdfast.agent.transactions.standing import Standings
from holdfast.agent.transactions.writes import EndTransaction, FenceProducer, InitialiseProducer, StageOffsets
from holdfast.agent.writes import Write
from holdfast.control.plane import ControlPlane
from holdfast.errors import (
    ConcurrentTransactions,
    HoldfastError,
    InvalidTransactionTimeout,
    InvalidTxnState,
    NotCoordinator,
    StorageUnavailable,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from holdfast.rules import transactional_id as rules
from holdfast.rules.clock import GraceClock
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import GroupOffsetCommitted

logger = logging.getLogger(__name__)

IDS_HEARD_MAX = 10_000


class TransactionCoordinator:
    """All transactional ids; refusals are raised as the errors that clients know.

    Time-outs count time that has certainly passed: the smaller of wall and monotonic time, from the start of this
    process at the earliest.
    """

    def __init__(
        self,
        plane: ControlPlane,
        commits: GroupCommit,
        producer_ids: ProducerIds,
        *,
        timeout_ms_max: int,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._plane = plane
        self._commits = commits
        self._producer_ids = producer_ids
        self._timeout_ms_max = timeout_ms_max
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._clock = GraceClock()
        self._alarm = Alarm(now_ms=now_ms, on_due=self._look_at_timeout)
        self._openings: dict[str, Opening] = {}
        # What was heard of commits: as good as asking the control plane a moment ago, at a tenth of the price.
        self._heard: dict[str, TransactionalId] = {}
        self._known_from_start = KnownIds()
        self.standings = Standings(plane, self._openings)
        """What is told to people."""
        self.timeouts = 0
        """Transactions that timed out since the start."""
        for name, state in plane.list_transactional_ids().items():
            if state.instance != NO_INSTANCE:
                self._open(name, state).is_begun = True

    async def initialise(
        self, transactional_id: str, claimed: tuple[int, int] | None, timeout_ms: int
    ) -> TransactionalId:
        """Give the id to a producer; InvalidTransactionTimeout, ProducerFenced."""
        if not 0 < timeout_ms <= self._timeout_ms_max:
            raise InvalidTransactionTimeout(f"{timeout_ms} ms: 1 to {self._timeout_ms_max} are possible")
        needs_spare = self._needs_spare(transactional_id)
        write = InitialiseProducer(
            transactional_id=transactional_id,
            claimed=claimed,
            timeout_ms=timeout_ms,
            spare_producer_id=await self._producer_ids.allot() if needs_spare else None,
        )
        state = await self._decide(transactional_id, write)
        assert isinstance(state, TransactionalId)
        return state

    def announce(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        session: int,
        partitions: Iterable[PartitionKey] = (),
        groups: Iterable[str] = (),
    ) -> None:
        """Take partitions and groups into the producer's transaction, which begins with that if need be."""
        state = rules.check_producer(self._find(transactional_id), producer_id=producer_id, epoch=epoch)
        opening = self._open(transactional_id, state)
        if opening.is_ending:
            raise ConcurrentTransactions("the transaction before is being ended: ask again")
        self._check_session(opening, session)
        opening.announce(partitions, groups)
        opening.session = session

    def has_partition(self, transactional_id: str, producer_id: int, epoch: int, place: PartitionKey) -> bool:
        """Whether the partition belongs to the producer's present transaction; raises as `announce` does."""
        state = rules.check_producer(self._find(transactional_id), producer_id=producer_id, epoch=epoch)
        opening = self._openings.get(transactional_id)
        return opening is not None and opening.turn == state.turn and place in opening.partitions

    def join(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        implicit: bool,
        place: PartitionKey | None = None,
        group: str | None = None,
    ) -> Membership:
        """What a batch for a partition, or positions of a group, have to show when they are committed.

        `implicit` (TV2): they need not have been announced. TransactionAbortable if they should have been; but a
        producer that is fenced hears of that, or it would believe that an abort mends it.
        """
        opening = self._openings.get(transactional_id)
        if opening is not None and not implicit and (place in opening.partitions or group in opening.groups):
            return Membership(transactional_id, opening.turn)
        if opening is None or not implicit:
            state = check_writer(self._find(transactional_id), producer_id=producer_id, epoch=epoch)
            if not implicit and not self._may_have_forgotten(transactional_id):
                raise TransactionAbortable("not part of the transaction: announce it first")
            opening = self._open(transactional_id, state)
        if implicit and place is not None:
            opening.partitions.add(place)
        return Membership(transactional_id, None if implicit else opening.turn)

    async def stage(
        self, membership: Membership, producer_id: int, epoch: int, offsets: list[GroupOffsetCommitted]
    ) -> None:
        """Store positions that count with the commit."""
        await self._commits.submit(
            StageOffsets(membership=membership, producer_id=producer_id, epoch=epoch, offsets=offsets)
        )

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        bump: bool,
        session: int,
        deliver: Deliver,
    ) -> None:
        """Commit or abort; `deliver` gets the id as its producer goes on with it, or the error.

        It is called when the outcome is visible, so that the next transaction never waits. Without `bump` (TV1) the
        epoch does not tell one transaction from the next: a late request on an old connection would end whatever is
        open. So it is refused once a newer connection has announced it.
        """
        opening = self._openings.get(transactional_id)
        if opening is not None and not bump:
            self._check_session(opening, session)
        write = EndTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            epoch=epoch,
            commit=commit,
            bump=bump,
            announced_turn=self._announced_turn(transactional_id, opening, may_be_forgotten=not bump),
            started_ms=self._wall_ms() if opening is None else opening.started_ms,
        )
        if bump and self._needs_spare(transactional_id):
            allotting = asyncio.ensure_future(self._producer_ids.allot())
            allotting.add_done_callback(partial(self._end_with_spare, write, opening, deliver))
        else:
            self._submit(transactional_id, write, opening, deliver)

    def _end_with_spare(
        self,
        write: EndTransaction,
        opening: Opening | None,
        deliver: Deliver,
        allotted: "asyncio.Future[int]",
    ) -> None:
        if allotted.cancelled():
            deliver(StorageUnavailable("shutting down: send it again to the next process"))
        elif (failure := allotted.exception()) is not None:
            if not isinstance(failure, HoldfastError):
                logger.error("no producer id could be allotted", exc_info=failure)
                failure = StorageUnavailable("internal error: the log of the agent has the traceback")
            deliver(failure)
        else:
            write = replace(write, spare_producer_id=allotted.result())
            self._submit(write.transactional_id, write, opening, deliver)

    async def abort(self, transactional_id: str) -> None:
        """An operator's abort: the producer is fenced. InvalidTxnState if nothing is open."""
        state = self._find(transactional_id)
        if state is None:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id!r}")
        opening = self._openings.get(transactional_id)
        announced = opening is not None and opening.is_announced
        write = FenceProducer(transactional_id=transactional_id, turn=state.turn, announced=announced)
        if not await self._decide(transactional_id, write, opening):
            raise InvalidTxnState(f"{transactional_id!r} has no open transaction")

    def watch(self, changed: Mapping[str, TransactionalId], *, is_replay: bool) -> None:
        """Transactional ids have changed: whatever was forgotten meanwhile, a transaction that began can time out."""
        if is_replay or len(self._heard) > IDS_HEARD_MAX:
            self._heard.clear()
        self._heard.update(changed)
        for name, state in changed.items():
            if state.instance != NO_INSTANCE:
                opening = self._open(name, state)
                # What is told here may be old: a newer turn may have been announced already.
                opening.is_begun = opening.is_begun or opening.turn == state.turn

    def stop(self) -> None:
        """Time out nobody any more."""
        self._alarm.stop()

    async def _decide(self, transactional_id: str, write: Write, opening: Opening | None = None) -> object:
        """Commit what ends a turn, and forget the opening even if nobody waits for the answer any more."""
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._submit(transactional_id, write, opening, partial(resolve, answer))
        return await answer

    def _submit(self, transactional_id: str, write: Write, opening: Opening | None, deliver: Deliver) -> None:
        if opening is not None:
            opening.is_ending = True
        self._commits.submit_to(write, partial(self._decided, transactional_id, opening, deliver))

    def _decided(
        self, transactional_id: str, opening: Opening | None, deliver: Deliver, result: object
    ) -> None:
        if opening is not None:
            opening.is_ending = False
        if not isinstance(result, Exception):
            self._known_from_start.add(transactional_id)
            if isinstance(result, TransactionalId):
                self._forget(transactional_id, before_turn=result.turn)
            elif opening is not None and (result or not self._is_open(transactional_id, opening)):
                self._forget(transactional_id, before_turn=opening.turn + 1)
        deliver(result)

    def _find(self, transactional_id: str) -> TransactionalId | None:
        return self._heard.get(transactional_id) or self._plane.find_transactional_id(transactional_id)

    def _is_open(self, transactional_id: str, opening: Opening) -> bool:
        state = self._find(transactional_id)
        return opening.is_begun and state is not None and state.turn == opening.turn

    def _forget(self, transactional_id: str, *, before_turn: int) -> None:
        """Drop the opening of a turn that is over; the next transaction may have been announced already."""
        opening = self._openings.get(transactional_id)
        if opening is not None and opening.turn < before_turn:
            del self._openings[transactional_id]

    def _open(self, transactional_id: str, state: TransactionalId) -> Opening:
        opening = self._openings.get(transactional_id)
        if opening is None or opening.turn < state.turn:
            opening = self._openings[transactional_id] = Opening(
                turn=state.turn,
                timeout_ms=state.timeout_ms,
                since_ms=self._passed_ms(),
                started_ms=state.started_ms if state.instance != NO_INSTANCE else self._wall_ms(),
            )
            self._alarm.set(transactional_id, self._now_ms() + state.timeout_ms)
        return opening

    def _announced_turn(
        self, transactional_id: str, opening: Opening | None, *, may_be_forgotten: bool
    ) -> int | None:
        if opening is not None and opening.is_announced:
            return opening.turn
        if may_be_forgotten and self._may_have_forgotten(transactional_id):
            state = self._find(transactional_id)
            return None if state is None else state.turn
        return None

    def _may_have_forgotten(self, transactional_id: str) -> bool:
        """Whether the id's transaction may have begun before this process: what it announced is not known here."""
        return not self._known_from_start.has(transactional_id)

    def _check_session(self, opening: Opening, session: int) -> None:
        if session < opening.session:
            raise NotCoordinator("the transaction belongs to a newer connection of its producer")

    def _needs_spare(self, transactional_id: str) -> bool:
        state = self._find(transactional_id)
        return state is None or state.is_exhausted

    def _passed_ms(self) -> int:
        self._clock = self._clock.observe(wall_ms=self._wall_ms(), monotonic_ms=self._now_ms())
        return self._clock.elapsed_ms

    def _look_at_timeout(self, transactional_id: str) -> None:
        opening = self._openings.get(transactional_id)
        if opening is None:
            return
        left_ms = opening.since_ms + opening.timeout_ms - self._passed_ms()
        if left_ms > 0:
            self._alarm.set(transactional_id, self._now_ms() + left_ms)
            return
        if opening.is_ending:
            self._alarm.set(transactional_id, self._now_ms() + opening.timeout_ms)
            return
        write = FenceProducer(
            transactional_id=transactional_id, turn=opening.turn, announced=opening.is_announced
        )
        self._submit(transactional_id, write, opening, partial(self._timed_out, transactional_id, opening))

    def _timed_out(self, transactional_id: str, opening: Opening, result: object) -> None:
        if result is True:
            self.timeouts += 1
            logger.info("transaction of %s timed out after %d ms", transactional_id, opening.timeout_ms)
            return
        if isinstance(result, Exception):
            logger.warning("transaction of %s cannot be aborted yet: %s", transactional_id, result)
        # Nothing was ended: what was written in the same moment has begun, and is due later.
        self._alarm.set(transactional_id, self._now_ms() + opening.timeout_ms)

"""What transactions come to, in dictionaries: the rules alone, without socket, disk, thread or clock.

Requests are judged when they are asked, by what is durable then; what they write is judged again when it is
committed, in the order in which it was asked for.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import (
    ConcurrentTransactions,
    HoldfastError,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotCoordinator,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from holdfast.rules import transactional_id as rules
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.lso import last_stable_offset
from holdfast.rules.producer import ProducerState, WrittenBatch, append_batch, check_batch
from holdfast.rules.transaction import NO_INSTANCE, Instances, Outcome
from holdfast.rules.transactional_id import Phase, TransactionalId
from holdfast.rules.visibility import readable_end, visible

TIMEOUTS_MS = {"a": 150, "b": 350}


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request; sent twice, it is the same packet twice."""

    kind: str
    name: str
    producer_id: int = -1
    epoch: int = -1
    session: int = 0
    partition: int = 0
    sequence: int = 0
    commit: bool = False
    tv2: bool = False


@dataclass(eq=False)
class Reply:
    """What was answered; nothing yet while it waits for a commit."""

    ask: Ask
    outcome: object = None
    opening: "Open | None" = None
    turn: int | None = None
    announced: bool = False
    spare: int | None = None


@dataclass(eq=False)
class Open:
    """A transaction under way, in one turn of its id."""

    turn: int
    since_ms: int
    session: int = 0
    announced: bool = False
    begun: bool = False
    ending: bool = False
    places: set[int] = field(default_factory=set)
    has_group: bool = False


class Model:
    """All ids, two partitions and one group."""

    def __init__(self, allot: Callable[[], int]) -> None:
        self._allot = allot
        self.states: dict[str, TransactionalId] = {}
        self.openings: dict[str, Open] = {}
        self.known: set[str] = set()
        self.now_ms = 0
        self.queue: list[Reply] = []
        self.logs: dict[int, list[Entry]] = defaultdict(list)
        self.instances: dict[int, Instances] = defaultdict(Instances)
        self.first: dict[int, dict[int, int]] = defaultdict(dict)
        self.producers: dict[tuple[int, int], ProducerState] = {}
        self.staged: dict[int, int] = {}
        self.position = -1
        self._next_instance = 1
        self._begun: set[str] = set()

    def ask(self, ask: Ask) -> Reply:
        """Answered at once, or queued."""
        reply = Reply(ask)
        try:
            getattr(self, f"_ask_{ask.kind}")(reply)
        except HoldfastError as refusal:
            reply.outcome = refusal
        else:
            if reply.outcome is None:
                self.queue.append(reply)
        return reply

    def tick(self, passed_ms: int) -> None:
        """Time passes; what is overdue is to be fenced."""
        self.now_ms += passed_ms
        for name in sorted(TIMEOUTS_MS):
            opening = self.openings.get(name)
            if opening is None or opening.ending or opening.since_ms + TIMEOUTS_MS[name] > self.now_ms:
                continue
            opening.ending = True
            self.queue.append(
                Reply(Ask(kind="fence", name=name), None, opening, opening.turn, opening.announced)
            )

    def restart(self) -> None:
        """Nothing but what is durable is left."""
        assert not self.queue
        self.openings, self.known = {}, set()
        for name, state in self.states.items():
            if state.instance != NO_INSTANCE:
                self._open(name, state).begun = True

    def commit(self) -> None:
        """All that is queued, in order; then all are told."""
        queue, self.queue = self.queue, []
        self._begun = set()
        for reply in queue:
            try:
                reply.outcome = getattr(self, f"_commit_{reply.ask.kind}")(reply)
            except HoldfastError as refusal:
                reply.outcome = refusal
        for name in self._begun:
            if self.states[name].instance != NO_INSTANCE:
                self._open(name, self.states[name]).begun = True
        for reply in queue:
            if reply.ask.kind in ("init", "end", "abort", "fence"):
                self._told(reply)

    def stable(self, partition: int) -> int:
        """The last stable offset."""
        first = [
            offset
            for instance, offset in self.first[partition].items()
            if self.instances[partition].outcome(instance) is Outcome.OPEN
        ]
        return last_stable_offset(len(self.logs[partition]), min(first, default=None))

    def seen(self, partition: int, isolation: Isolation) -> list[int]:
        """The offsets that a reader is given."""
        end = readable_end(
            isolation,
            high_watermark=len(self.logs[partition]),
            last_stable_offset=self.stable(partition),
        )
        instances = self.instances[partition]
        found = visible(self.logs[partition], end=end, instances=instances, isolation=isolation)
        return [entry.offset for entry in found]

    def _open(self, name: str, state: TransactionalId) -> Open:
        opening = self.openings.get(name)
        if opening is None or opening.turn != state.turn:
            opening = self.openings[name] = Open(state.turn, self.now_ms)
        return opening

    def _spare(self, name: str) -> int | None:
        state = self.states.get(name)
        return self._allot() if state is None or state.is_exhausted else None

    def _ask_init(self, reply: Reply) -> None:
        reply.spare = self._spare(reply.ask.name)

    def _ask_age(self, reply: Reply) -> None:
        """Whoever asks."""

    def _ask_add(self, reply: Reply) -> None:
        ask = reply.ask
        state = rules.check_producer(self.states.get(ask.name), producer_id=ask.producer_id, epoch=ask.epoch)
        opening = self._open(ask.name, state)
        if opening.ending:
            raise ConcurrentTransactions("ending")
        if ask.session < opening.session:
            raise NotCoordinator("a newer connection has it")
        opening.session, opening.announced = ask.session, True
        opening.places.add(ask.partition)
        opening.has_group = True
        reply.outcome = "added"

    def _ask_produce(self, reply: Reply) -> None:
        self._join(reply, lambda opening: reply.ask.partition in opening.places)

    def _ask_stage(self, reply: Reply) -> None:
        self._join(reply, lambda opening: opening.has_group)

    def _join(self, reply: Reply, is_announced: Callable[[Open], bool]) -> None:
        ask = reply.ask
        opening = self.openings.get(ask.name)
        if opening is None or (not ask.tv2 and not is_announced(opening)):
            state = _check_writer(self.states.get(ask.name), ask)
            if not ask.tv2 and ask.name in self.known:
                raise TransactionAbortable("announce it first")
            opening = self._open(ask.name, state)
        reply.turn = None if ask.tv2 else opening.turn

    def _ask_end(self, reply: Reply) -> None:
        ask, state = reply.ask, self.states.get(reply.ask.name)
        opening = self.openings.get(ask.name)
        if opening is not None and not ask.tv2 and ask.session < opening.session:
            raise NotCoordinator("a newer connection has it")
        if opening is not None and opening.announced:
            reply.turn = opening.turn
        elif not ask.tv2 and ask.name not in self.known and state is not None:
            reply.turn = state.turn
        reply.spare = self._spare(ask.name) if ask.tv2 else None
        self._is_ending(reply, opening)

    def _ask_abort(self, reply: Reply) -> None:
        state, opening = self.states.get(reply.ask.name), self.openings.get(reply.ask.name)
        if state is None:
            raise TransactionalIdNotFound("unknown")
        reply.turn, reply.announced = state.turn, opening is not None and opening.announced
        self._is_ending(reply, opening)

    def _is_ending(self, reply: Reply, opening: Open | None) -> None:
        reply.opening = opening
        if opening is not None:
            opening.ending = True

    def _commit_init(self, reply: Reply) -> TransactionalId:
        ask, state = reply.ask, self.states.get(reply.ask.name)
        claimed = None if ask.producer_id < 0 else (ask.producer_id, ask.epoch)
        changed = rules.initialise(
            state, claimed=claimed, timeout_ms=TIMEOUTS_MS[ask.name], spare_producer_id=reply.spare
        )
        return self._change(ask.name, changed, Outcome.ABORTED)

    def _commit_end(self, reply: Reply) -> TransactionalId:
        ask, state = reply.ask, self.states.get(reply.ask.name)
        changed = rules.end(
            state,
            producer_id=ask.producer_id,
            epoch=ask.epoch,
            commit=ask.commit,
            bump=ask.tv2,
            announced=state is not None and state.turn == reply.turn,
            spare_producer_id=reply.spare,
        )
        return self._change(ask.name, changed, Outcome.COMMITTED if ask.commit else Outcome.ABORTED)

    def _commit_fence(self, reply: Reply) -> bool:
        state = self.states[reply.ask.name]
        if state.turn != reply.turn or not (reply.announced or state.phase is Phase.ONGOING):
            return False
        self._change(reply.ask.name, rules.fence(state), Outcome.ABORTED)
        return True

    def _commit_abort(self, reply: Reply) -> bool:
        return self._commit_fence(reply)

    def _commit_age(self, reply: Reply) -> TransactionalId:
        state = self.states[reply.ask.name]
        aged = state._replace(epoch=max(state.epoch, rules.EPOCH_LAST - 2))
        return self._change(reply.ask.name, aged, Outcome.ABORTED)

    def _commit_produce(self, reply: Reply) -> int:
        ask = reply.ask
        _check_writer(self.states.get(ask.name), ask)
        key = (ask.partition, ask.producer_id)
        known = self.producers.get(key)
        repeated = check_batch(
            known, epoch=ask.epoch, first_sequence=ask.sequence, last_sequence=ask.sequence
        )
        if repeated is not None:
            return repeated.first_offset
        instance = self._begin(reply)
        log = self.logs[ask.partition]
        offset = len(log)
        if self.instances[ask.partition].join(instance, offset):
            self.first[ask.partition][instance] = offset
        log.append(Entry(offset=offset, value="x", transactional=True, instance=instance))
        written = WrittenBatch(ask.sequence, ask.sequence, offset, offset)
        self.producers[key] = append_batch(known, epoch=ask.epoch, batch=written)
        return offset

    def _commit_stage(self, reply: Reply) -> None:
        _check_writer(self.states.get(reply.ask.name), reply.ask)
        self.staged[self._begin(reply)] = reply.ask.sequence

    def _begin(self, reply: Reply) -> int:
        state = self.states[reply.ask.name]
        if reply.turn not in (None, state.turn):
            raise TransactionAbortable("it has ended")
        if state.instance == NO_INSTANCE:
            state = rules.begin(state, instance=self._next_instance, now_ms=0)
            self.states[reply.ask.name] = state
            self._next_instance += 1
            self._begun.add(reply.ask.name)
        return state.instance

    def _change(self, name: str, changed: TransactionalId, outcome: Outcome) -> TransactionalId:
        state = self.states.get(name)
        self.states[name] = changed
        if state is not None and state.instance not in (NO_INSTANCE, changed.instance):
            for partition, instances in self.instances.items():
                if state.instance in self.first[partition]:
                    instances.decide(state.instance, outcome)
            position = self.staged.pop(state.instance, None)
            if outcome is Outcome.COMMITTED and position is not None:
                self.position = position
        return changed

    def _told(self, reply: Reply) -> None:
        opening, outcome = reply.opening, reply.outcome
        if opening is not None:
            opening.ending = False
        if isinstance(outcome, HoldfastError):
            return
        name = reply.ask.name
        self.known.add(name)
        current = self.openings.get(name)
        if isinstance(outcome, TransactionalId):
            if current is not None and current.turn < outcome.turn:
                del self.openings[name]
            return
        still_open = (
            opening is not None and opening.begun and self.states[name].turn == opening.turn and not outcome
        )
        if opening is not None and not still_open and current is not None and current.turn <= opening.turn:
            del self.openings[name]
        if reply.ask.kind == "abort" and not outcome:
            reply.outcome = InvalidTxnState("nothing is open")


def _check_writer(state: TransactionalId | None, ask: Ask) -> TransactionalId:
    try:
        return rules.check_producer(state, producer_id=ask.producer_id, epoch=ask.epoch)
    except ProducerFenced as refusal:
        raise InvalidProducerEpoch(str(refusal)) from refusal


def told(outcome: object) -> Any:
    """What a client hears."""
    if isinstance(outcome, HoldfastError):
        return type(outcome)
    if isinstance(outcome, TransactionalId):
        return outcome.producer_id, outcome.epoch
    return outcome

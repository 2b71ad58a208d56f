"""A producer whose records and group offsets become visible together, or not at all."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any, Final, TypeVar

from holdfast.client import transactions
from holdfast.client.cluster import Cluster
from holdfast.client.connection import Connection
from holdfast.client.coordinator import CoordinatorType, ask_coordinator
from holdfast.client.groups import TopicPartition
from holdfast.client.retry import refusal
from holdfast.client.transactions import NO_MEMBER, Generation, GroupMember, Identity, generation_of
from holdfast.errors import (
    HoldfastError,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionCoordinatorFenced,
)
from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch

TIMEOUT_MS: Final = 60_000
SEQUENCES: Final = 2**31
"""Sequence numbers begin anew after the largest int32."""

FATAL: Final = (ProducerFenced, InvalidProducerIdMapping, TransactionCoordinatorFenced)
"""Somebody else has the transactional id, or nobody has: this producer is done for."""

Result = TypeVar("Result")


class State(Enum):
    """Where the producer stands; what is not allowed there raises InvalidTxnState."""

    NEW = "not initialized"
    READY = "between transactions"
    OPEN = "in a transaction"
    FAILED = "in a transaction that can only be aborted"
    IN_DOUBT = "in a commit whose answer never came"
    FENCED = "fenced off for good"


class TransactionalProducer:
    """Sends one batch at a time, in either generation of the protocol; not for several threads.

    Whatever can be tried again is, while the cluster's patience lasts. After another error inside of a
    transaction only `abort` is left. A producer that is fenced off does nothing any more.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        codec: Codec = Codec.NONE,
        generation: Generation | None = None,
    ) -> None:
        self.identity = Identity(transactional_id=transactional_id)
        self.state = State.NEW
        self.generation: Final = generation or generation_of(cluster)
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._codec = codec
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()

    def init(self) -> None:
        """Takes the transactional id over: whoever had it is fenced off, and what it left open is aborted."""
        self._expect(State.NEW)
        self._init(
            Identity(transactional_id=self.identity.transactional_id), self.generation.init_producer_id
        )

    def adopt(self, identity: Identity) -> None:
        """Goes on as the producer that was initialized elsewhere, while that one does nothing any more."""
        self._expect(State.NEW)
        assert identity.transactional_id == self.identity.transactional_id
        self._become(identity.producer_id, identity.producer_epoch)
        self.state = State.READY

    def begin(self) -> None:
        """Opens a transaction; the broker hears of it with the first record or offset."""
        self._expect(State.READY)
        self.state = State.OPEN

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """One batch; returns the offset of its first record when it is acknowledged, but not yet visible."""
        place = TopicPartition(topic, partition)
        with self._in_transaction():
            if not self.generation.adds_by_itself:
                self._add_partition(place)
            self._partitions.add(place)
            batch = build_batch(
                records,
                codec=self._codec,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.producer_epoch,
                base_sequence=self._sequences[place],
                transactional=True,
            )
            offset = self._patiently(lambda: self._produce(place, batch))
            self._sequences[place] = (self._sequences[place] + len(records)) % SEQUENCES
        return offset

    def send_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        member: GroupMember = NO_MEMBER,
        metadata: str = "",
    ) -> None:
        """Stages a group's next offsets; refused where `member` is no longer what the group takes it for."""
        with self._in_transaction():
            if not self.generation.adds_by_itself and group not in self._groups:
                request = transactions.add_offsets(self.identity, group)
                self._at_transaction_coordinator(request, self.generation.add_offsets)
            self._groups.add(group)
            request = transactions.txn_offset_commit(
                self.identity, group, offsets, member=member, metadata=metadata
            )
            ask = self._asker(CoordinatorType.GROUP, group, request, self.generation.txn_offset_commit)
            self._patiently(ask)

    def commit(self) -> None:
        """Makes all of it visible at once; without records and offsets there is nothing to tell the broker.

        A commit that ran out of patience may have happened: it can be called again, and nothing else can.
        """
        if self.state is not State.IN_DOUBT:
            self._expect(State.OPEN)
        try:
            if self._partitions or self._groups:
                self._end(committed=True)
        except HoldfastError as failure:
            self._note(failure)
            if failure.retriable:
                self.state = State.IN_DOUBT
            raise
        self._close_transaction()

    def abort(self) -> None:
        """Takes all of it back."""
        if self.state is not State.FAILED:
            self._expect(State.OPEN)
        failed = self.state is State.FAILED
        try:
            if failed and not self.generation.adds_by_itself:
                # What the broker has of the sequence numbers is unknown: a new epoch begins at 0 (KIP-360). The
                # end comes first, since Kafka 3 refuses who resumes in the middle of a transaction.
                with suppress(InvalidTxnState):  # nothing was announced: there is nothing to abort
                    self._end(committed=False)
                self._init(self.identity, self.generation.resume_producer_id)
            elif failed or self._partitions or self._groups:
                self._end(committed=False)
        except HoldfastError as failure:
            self._note(failure)
            raise
        self._close_transaction()

    def _init(self, claimed: Identity, versions: tuple[int, int]) -> None:
        request = transactions.init_producer_id(claimed, timeout_ms=self._timeout_ms)
        answer = self._at_transaction_coordinator(request, versions)
        self._become(answer.producer_id, answer.producer_epoch)
        self.state = State.READY

    def _add_partition(self, place: TopicPartition) -> None:
        if place not in self._partitions:
            request = transactions.add_partitions(self.identity, [place])
            self._at_transaction_coordinator(request, self.generation.add_partitions)

    def _produce(self, place: TopicPartition, batch: bytes) -> int:
        try:
            broker = self._cluster.broker(self._cluster.leader_of(*place))
            request = transactions.produce(self.identity.transactional_id, {place: batch})
            answer = broker.send(request, versions=self.generation.produce)
            _check(answer, "producing")
        except HoldfastError:
            self._cluster.forget_leaders()
            raise
        return int(answer.responses[0].partition_responses[0].base_offset)

    def _end(self, *, committed: bool) -> None:
        request = transactions.end_txn(self.identity, committed=committed)
        answer = self._at_transaction_coordinator(request, self.generation.end_txn)
        if self.generation.adds_by_itself:
            # Every transaction has an epoch of its own, so that no late packet can belong to the next one.
            self._become(answer.producer_id, answer.producer_epoch)

    def _become(self, producer_id: int, producer_epoch: int) -> None:
        self.identity = Identity(
            transactional_id=self.identity.transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        self._sequences.clear()

    def _close_transaction(self) -> None:
        self._partitions.clear()
        self._groups.clear()
        self.state = State.READY

    def _at_transaction_coordinator(self, request: Any, versions: tuple[int, int]) -> Any:
        key = self.identity.transactional_id
        return self._patiently(self._asker(CoordinatorType.TRANSACTION, key, request, versions))

    def _asker(
        self, kind: CoordinatorType, key: str, request: Any, versions: tuple[int, int]
    ) -> Callable[[], Any]:
        """One attempt."""

        def ask(coordinator: Connection) -> Any:
            answer = coordinator.send(request, versions=versions)
            _check(answer, f"{request.name.removesuffix('Request')} of {self.identity.transactional_id!r}")
            return answer

        return lambda: ask_coordinator(self._cluster, kind, key, ask)

    def _patiently(self, ask: Callable[[], Result]) -> Result:
        patience = self._cluster.patience()
        while True:
            try:
                return ask()
            except HoldfastError as failure:
                patience.wait(failure)

    def _expect(self, state: State) -> None:
        if self.state is not state:
            who = self.identity.transactional_id
            raise InvalidTxnState(f"the producer {who!r} is {self.state.value}, not {state.value}")

    @contextmanager
    def _in_transaction(self) -> Iterator[None]:
        self._expect(State.OPEN)
        try:
            yield
        except HoldfastError as failure:
            self._note(failure)
            raise

    def _note(self, failure: HoldfastError) -> None:
        self.state = State.FENCED if isinstance(failure, FATAL) else State.FAILED


def _check(answer: Any, where: str) -> None:
    """Raises what the answer refuses; what can be tried again must not hide what cannot."""
    failures = [
        refusal(found.code, f"{where} for {found.place}" if found.place else where, found.detail)
        for found in transactions.verdicts(answer)
        if found.code
    ]
    for failure in sorted(failures, key=lambda failure: failure.retriable):
        raise failure

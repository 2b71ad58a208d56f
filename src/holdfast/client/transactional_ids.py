"""Transactional ids from the outside: where they stand, and how an operator ends what one has open."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

from holdfast.client.cluster import Cluster
from holdfast.client.connection import Connection
from holdfast.client.coordinator import CoordinatorType, ask_coordinator
from holdfast.client.groups import TopicPartition
from holdfast.client.retry import refusal
from holdfast.client.transactions import Identity, init_producer_id
from holdfast.errors import ConnectionFailed, HoldfastError, InvalidTxnState, TransactionalIdNotFound

LIST_TRANSACTIONS_VERSIONS: Final = (0, 2)
DESCRIBE_TRANSACTIONS_VERSIONS: Final = (0, 0)
INIT_PRODUCER_ID_VERSIONS: Final = (0, 5)
IDS_PER_REQUEST_MAX: Final = 500

OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""In the last three Kafka has decided and still writes markers: readers wait for those."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransactionalId:
    """A transactional id as its coordinator lists it."""

    name: str
    state: str
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id and the transaction that it has open, if it has one."""

    name: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    """By the coordinator's clock. None where nothing is open: old brokers keep the start of what has ended."""
    partitions: tuple[TopicPartition, ...]

    def check_open(self) -> None:
        """Raise InvalidTxnState if there is nothing to end."""
        if not self.is_open:
            raise InvalidTxnState(f"{self.name!r} has no open transaction: it is {self.state}")

    def check_same(self, confirmed: "TransactionDescription") -> None:
        """Raise InvalidTxnState if this is another transaction than the one that was confirmed, or its fate is sealed.

        That is told by producer, epoch and start; a first record after a mere announcement counts as a start.
        """
        told, now = (
            (each.producer_id, each.producer_epoch, each.started_ms, each.state) for each in (confirmed, self)
        )
        if told != now:
            raise InvalidTxnState(
                f"the transaction of {self.name!r} has changed since it was looked at: it was {_told(confirmed)} and is"
                f" {_told(self)}; nothing was aborted"
            )

    @property
    def is_open(self) -> bool:
        """Whether readers of committed records may have to wait for it."""
        return self.state in OPEN_STATES

    def age_ms(self, now_ms: int) -> int | None:
        """How long the transaction has been open; never negative, whatever the clocks say."""
        return None if self.started_ms is None else max(0, now_ms - self.started_ms)


def list_transactional_ids(cluster: Cluster, *, states: Iterable[str] = ()) -> list[ListedTransactionalId]:
    """The transactional ids of all brokers by name, or those in some states: each broker knows its own."""
    found: dict[str, ListedTransactionalId] = {}
    for node in cluster.metadata([]).brokers:
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=[],
            duration_filter=-1,
            transactional_id_pattern=None,
        )
        answer = cluster.broker(node).send(request, versions=LIST_TRANSACTIONS_VERSIONS)
        if answer.error_code:
            raise refusal(answer.error_code, f"transactional ids of node {node}")
        for each in answer.transaction_states:
            found[each.transactional_id] = ListedTransactionalId(
                name=each.transactional_id,
                state=each.transaction_state,
                producer_id=each.producer_id,
                coordinator=node,
            )
    return [found[name] for name in sorted(found)]


def describe_listed(
    cluster: Cluster, listed: Iterable[ListedTransactionalId]
) -> dict[str, TransactionDescription]:
    """Each of them by name, asked for in bulk; one that has expired since it was listed is left out."""
    by_node: dict[int, list[str]] = {}
    for each in listed:
        by_node.setdefault(each.coordinator, []).append(each.name)
    found: dict[str, TransactionDescription] = {}
    for node, names in by_node.items():
        for first in range(0, len(names), IDS_PER_REQUEST_MAX):
            for each in _describe(cluster.broker(node), names[first : first + IDS_PER_REQUEST_MAX]):
                if each.error_code == TransactionalIdNotFound.kafka_code:
                    continue
                found[each.transactional_id] = _read(each)
    return found


def describe_open(cluster: Cluster) -> list[TransactionDescription]:
    """Every transaction that is open anywhere, by transactional id."""
    described = describe_listed(cluster, list_transactional_ids(cluster, states=OPEN_STATES))
    return [each for each in described.values() if each.is_open]


def describe_transactional_id(cluster: Cluster, name: str) -> TransactionDescription:
    """One of them; TransactionalIdNotFound."""
    return _at_coordinator(cluster, name, lambda coordinator: _read(_describe(coordinator, [name])[0]))


def abort_transaction(cluster: Cluster, confirmed: TransactionDescription) -> TransactionDescription:
    """Abort the transaction, in all of its partitions, and fence its producer; what it was in the end.

    By the coordinator, as Kafka's own forced end does it: it takes the id over for a moment. Markers written past
    a coordinator that still counts on the transaction would tear it: the rest could be committed. Returns when
    the coordinator has ended it. InvalidTxnState if nothing is open, or another one is: a person may have thought
    for long. What begins between this look and the takeover, one round trip, is aborted all the same.
    """
    found = describe_transactional_id(cluster, confirmed.name)
    found.check_open()
    found.check_same(confirmed)
    request = init_producer_id(Identity(transactional_id=found.name), timeout_ms=found.timeout_ms)

    def take_over(coordinator: Connection) -> None:
        answer = coordinator.send(request, versions=INIT_PRODUCER_ID_VERSIONS)
        if answer.error_code:
            raise refusal(answer.error_code, f"transaction of {found.name!r}")

    _at_coordinator(cluster, found.name, take_over)
    return found


def _describe(coordinator: Connection, names: list[str]) -> list[Any]:
    request = DescribeTransactionsRequest(transactional_ids=names)
    answer = coordinator.send(request, versions=DESCRIBE_TRANSACTIONS_VERSIONS)
    if len(answer.transaction_states) != len(names):
        raise ConnectionFailed(f"the broker left transactional ids out of its answer: {', '.join(names[:3])}")
    return list(answer.transaction_states)


def _read(found: Any) -> TransactionDescription:
    if found.error_code:
        raise refusal(found.error_code, f"transactional id {found.transactional_id!r}")
    is_open = found.transaction_state in OPEN_STATES
    places = [TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions]
    return TransactionDescription(
        name=found.transactional_id,
        state=found.transaction_state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        started_ms=found.transaction_start_time_ms if is_open else None,
        partitions=tuple(sorted(places)),
    )


def _told(found: TransactionDescription) -> str:
    began = datetime.fromtimestamp((found.started_ms or 0) / 1000, tz=UTC)
    return (
        f"{found.state} since {began.isoformat(sep=' ', timespec='milliseconds')},"
        f" of producer {found.producer_id} epoch {found.producer_epoch}"
    )


def _at_coordinator(cluster: Cluster, name: str, ask: Callable[[Connection], Result]) -> Result:
    """Asks the id's coordinator, anew while it moves, loads or ends a transaction."""
    patience = cluster.patience()
    while True:
        try:
            return ask_coordinator(cluster, CoordinatorType.TRANSACTION, name, ask)
        except ConnectionFailed:
            raise
        except HoldfastError as failure:
            patience.wait(failure)

"""What the requests of transactions must answer in every version; run by `test_versions`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from holdfast.client import transactions
from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import (
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)

PLACE = TopicPartition("txn", 0)
TIMEOUT_MS = 60_000
FENCED, OLD_EPOCH, NOT_ANNOUNCED, STRANGER = 90, 47, 48, 49


class Exchange(Protocol):
    """A connection."""

    @property
    def call(self) -> Callable[[Any], Any]:
        """Sends a request and returns its answer."""
        ...


def ask(exchange: Exchange, request: Any, version: int) -> Any:
    """The answer to a request of a version."""
    request.API_VERSION = version
    return exchange.call(request)


def start(exchange: Exchange, name: str) -> Identity:
    """A topic of two partitions, and a producer that has no transaction open."""
    exchange.call(requests.create_topic("txn", partitions=2))
    answer = ask(
        exchange,
        transactions.init_producer_id(Identity(transactional_id=name), timeout_ms=TIMEOUT_MS),
        4,
    )
    assert answer.error_code == 0
    return Identity(
        transactional_id=name, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
    )


def stored(exchange: Exchange, who: Identity, *, version: int = 12) -> int:
    """The offset of one record in the producer's transaction."""
    data = batch(b"x", producer_id=who.producer_id, producer_epoch=who.producer_epoch, transactional=True)
    answer = ask(exchange, transactions.produce(who.transactional_id, {PLACE: data}), version)
    part = answer.responses[0].partition_responses[0]
    assert part.error_code == 0
    return int(part.base_offset)


def state(exchange: Exchange, who: Identity) -> Any:
    """What DescribeTransactions says."""
    request = DescribeTransactionsRequest(transactional_ids=[who.transactional_id])
    return ask(exchange, request, 0).transaction_states[0]


def codes(answer: Any) -> list[int]:
    """Error codes by partition of AddPartitionsToTxn."""
    if answer.API_VERSION < 4:
        topics = answer.results_by_topic_v3_and_below
    else:
        topics = [topic for each in answer.results_by_transaction for topic in each.topic_results]
    return [part.partition_error_code for topic in topics for part in topic.results_by_partition]


def check_init_producer_id(exchange: Exchange, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000, version=version)
    first, second = exchange.call(request), exchange.call(request)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert 0 < first.producer_id < second.producer_id
    request.transactional_id = f"init-{version}"
    new, again = exchange.call(request), exchange.call(request)
    assert (new.error_code, new.producer_epoch, again.error_code, again.producer_epoch) == (0, 0, 0, 1)
    assert new.producer_id == again.producer_id
    if version >= 3:
        request.producer_id, request.producer_epoch = new.producer_id, 1
        assert exchange.call(request).producer_epoch == 2
        request.producer_epoch = 0
        fenced = exchange.call(request)
        assert fenced.error_code == (FENCED if version >= 4 else OLD_EPOCH)
        assert (fenced.producer_id, fenced.producer_epoch) == (-1, -1)


def check_add_partitions_to_txn(exchange: Exchange, version: int) -> None:
    who = start(exchange, f"add-{version}")

    def add(who: Identity, *partitions: int, verify: bool = False) -> list[int]:
        places = [TopicPartition("txn", partition) for partition in partitions]
        if version < 4:
            return codes(ask(exchange, transactions.add_partitions(who, places), version))
        wanted: Any = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
        topic_class = wanted.AddPartitionsToTxnTopic
        topics = [topic_class(name="txn", partitions=list(partitions), version=version)]
        one = wanted(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            verify_only=verify,
            topics=topics,
            version=version,
        )
        return codes(exchange.call(AddPartitionsToTxnRequest(transactions=[one], version=version)))

    if version >= 4:
        assert add(who, 0, verify=True) == [120]
    assert add(replace(who, producer_epoch=7), 0) == [FENCED if version >= 2 else OLD_EPOCH]
    assert add(replace(who, producer_id=7), 0) == [STRANGER]
    assert add(replace(who, transactional_id=""), 0) == [42]
    assert add(who, 0, 9) == [55, 3]
    assert state(exchange, who).transaction_state == "Empty"
    assert add(who, 0, 1) == [0, 0]
    assert state(exchange, who).topics[0].partitions == [0, 1]
    if version >= 4:
        assert add(who, 1, verify=True) == [0]


def check_add_offsets_to_txn(exchange: Exchange, version: int) -> None:
    who = start(exchange, f"add-offsets-{version}")

    def add(who: Identity) -> int:
        return int(ask(exchange, transactions.add_offsets(who, "g"), version).error_code)

    assert add(replace(who, producer_epoch=7)) == (FENCED if version >= 2 else OLD_EPOCH)
    assert add(replace(who, transactional_id="")) == 42
    assert state(exchange, who).transaction_state == "Empty"
    assert add(who) == 0
    assert state(exchange, who).transaction_state == "Ongoing"


def check_end_txn(exchange: Exchange, version: int) -> None:
    who = start(exchange, f"end-{version}")

    def end(who: Identity, *, committed: bool = True) -> Any:
        return ask(exchange, transactions.end_txn(who, committed=committed), version)

    assert end(who).error_code == NOT_ANNOUNCED
    stored(exchange, who)
    assert end(replace(who, producer_epoch=7)).error_code == (FENCED if version >= 2 else OLD_EPOCH)
    assert state(exchange, who).transaction_state == "Ongoing"
    done, again = end(who), end(who)
    assert (done.error_code, again.error_code) == (0, 0)
    if version >= 5:
        assert (done.producer_id, done.producer_epoch) == (who.producer_id, who.producer_epoch + 1)
        assert (again.producer_id, again.producer_epoch) == (done.producer_id, done.producer_epoch)
    assert state(exchange, who).transaction_state == "CompleteCommit"
    assert end(who, committed=False).error_code == NOT_ANNOUNCED


def check_write_txn_markers(exchange: Exchange, version: int) -> None:
    who = start(exchange, f"marker-{version}")
    stored(exchange, who)

    def mark(*, commit: bool = False, epoch: int = who.producer_epoch) -> list[int]:
        marker: Any = WriteTxnMarkersRequest.WritableTxnMarker
        topics = [
            marker.WritableTxnMarkerTopic(name="txn", partition_indexes=[0, 9], version=version),
        ]
        one = marker(
            producer_id=who.producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=topics,
            coordinator_epoch=0,
            version=version,
        )
        answer = exchange.call(WriteTxnMarkersRequest(markers=[one], version=version))
        assert answer.markers[0].producer_id == who.producer_id
        return [part.error_code for part in answer.markers[0].topics[0].partitions]

    assert mark(commit=True) == [42, 3]
    assert mark(epoch=who.producer_epoch - 1) == [OLD_EPOCH, 3]
    assert state(exchange, who).transaction_state == "Ongoing"
    assert mark() == [0, 3]
    assert state(exchange, who).transaction_state == "CompleteAbort"
    assert mark() == [0, 3]


def check_txn_offset_commit(exchange: Exchange, version: int) -> None:
    who = start(exchange, f"stage-{version}")
    group = f"staged-{version}"

    def stage(who: Identity) -> int:
        request = transactions.txn_offset_commit(who, group, {PLACE: 5})
        return int(ask(exchange, request, version).topics[0].partitions[0].error_code)

    def position(*, stable: bool) -> tuple[int, int]:
        answer = exchange.call(requests.fetch_offset(group, "txn", stable=stable))
        part = answer.groups[0].topics[0].partitions[0]
        return part.error_code, part.committed_offset

    if version < 5:
        assert stage(who) == (120 if version >= 4 else NOT_ANNOUNCED)
        assert ask(exchange, transactions.add_offsets(who, group), 3).error_code == 0
    assert stage(replace(who, producer_epoch=7)) == OLD_EPOCH
    assert stage(who) == 0
    assert (position(stable=True), position(stable=False)) == ((88, -1), (0, -1))
    assert ask(exchange, transactions.end_txn(who, committed=True), 4).error_code == 0
    assert position(stable=True) == (0, 5)


def check_describe_transactions(exchange: Exchange, version: int) -> None:
    who = start(exchange, "described")
    stored(exchange, who)
    request = DescribeTransactionsRequest(transactional_ids=["described", "nobody", ""], version=version)
    found, unknown, nameless = exchange.call(request).transaction_states
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (
        0,
        "Ongoing",
        TIMEOUT_MS,
    )
    assert (found.producer_id, found.producer_epoch) == (who.producer_id, who.producer_epoch)
    assert found.transaction_start_time_ms > 0
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("txn", [0])]
    assert (unknown.error_code, nameless.error_code, unknown.topics) == (105, 42, [])


def check_list_transactions(exchange: Exchange, version: int) -> None:
    who = start(exchange, f"listed-{version}")
    stored(exchange, who)

    def listed(**filters: Any) -> Any:
        answer = exchange.call(ListTransactionsRequest(**filters, version=version))
        assert answer.error_code == 0
        return {one.transactional_id: one for one in answer.transaction_states}, answer.unknown_state_filters

    everything, _ = listed(state_filters=[], producer_id_filters=[])
    mine = everything[who.transactional_id]
    assert (mine.producer_id, mine.transaction_state) == (who.producer_id, "Ongoing")
    found, unknown = listed(state_filters=["Ongoing", "foo"], producer_id_filters=[who.producer_id])
    assert (set(found), unknown) == ({who.transactional_id}, ["foo"])
    assert listed(state_filters=["Empty"], producer_id_filters=[who.producer_id])[0] == {}
    if version >= 1:
        aged = {"state_filters": [], "producer_id_filters": [], "duration_filter": 3_600_000}
        assert who.transactional_id not in listed(**aged)[0]


TRANSACTION_CHECKS: dict[int, Callable[[Exchange, int], None]] = {
    22: check_init_producer_id,
    24: check_add_partitions_to_txn,
    25: check_add_offsets_to_txn,
    26: check_end_txn,
    27: check_write_txn_markers,
    28: check_txn_offset_commit,
    65: check_describe_transactions,
    66: check_list_transactions,
}

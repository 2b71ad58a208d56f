"""AddPartitionsToTxn and EndTxn are read and written by hand: kafka-python's classes have to agree, whatever comes."""

import asyncio
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
)

from holdfast.agent.deferred import Deferred
from holdfast.agent.handlers import k24_add_partitions_to_txn as k24
from holdfast.agent.handlers.k24_add_partitions_to_txn import add_partitions_to_txn
from holdfast.agent.handlers.k26_end_txn import end_txn
from holdfast.agent.registry import Request, _decode
from holdfast.control.plane import Partition, Topic
from holdfast.errors import InvalidRequest, ProducerFenced, UnknownTopicOrPartition
from holdfast.rules.transactional_id import TransactionalId

TOPICS = {
    name: Topic(
        topic_id=UUID(int=number),
        name=name,
        partitions=(Partition(replicas=(1,), leader=1, leader_epoch=0),) * 3,
        configs={},
    )
    for number, name in enumerate(("t", "u"), 1)
}
BYTES = st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF])


class Desk:
    """An agent as far as these handlers need one: it notes what the coordinator is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.catalog = SimpleNamespace(get=self._get)
        self.transactions = SimpleNamespace(announce=self._announce, end=self._end)

    def _get(self, name: str) -> Topic:
        if name not in TOPICS:
            raise UnknownTopicOrPartition(f"no topic {name!r}")
        return TOPICS[name]

    def _announce(self, *producer: object, session: int, partitions: list[tuple[UUID, int]]) -> None:
        self.asked.append((*producer, session, partitions))
        if producer[1] == 9:
            raise ProducerFenced("by another")

    def _end(
        self, *producer: object, commit: bool, bump: bool, session: int, deliver: Callable[[object], None]
    ) -> None:
        self.asked.append((*producer, commit, bump, session))
        if producer[1] == 9:
            raise ProducerFenced("by another")
        deliver(TransactionalId(producer_id=7, epoch=4, timeout_ms=1000))


def request_of(message: Any, *, patches: dict[int, int], cut: int) -> Request:
    """The encoded message as a connection hands it over, some of its bytes replaced and its end cut off."""
    message.with_header(correlation_id=5, client_id="raw")
    whole = message.encode(header=True, framed=True)
    version: int = message.API_VERSION
    body = bytearray(whole[4 + 8 + 2 + len("raw") + (1 if version >= 3 else 0) :])
    for place, value in patches.items():
        body[place % len(body)] = value
    data = memoryview(bytes(body[: len(body) - cut]))
    return Request(
        key=message.API_KEY, version=version, correlation_id=5, client_id="raw", body=data, session=3
    )


def answered(desk: Desk, handler: Any, request: Request) -> bytes | None:
    """The frame without its length; None if the connection is to be closed."""
    try:
        payload = handler(desk, request)
        if isinstance(payload, Deferred):
            payload = payload.outcome
        elif inspect.isawaitable(payload):
            payload = asyncio.run(payload)  # type: ignore[arg-type]
    except InvalidRequest:
        return None
    frame = b"".join(payload)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


def understood(request_class: Any, request: Request) -> Any:
    """What kafka-python reads, by the checks that all other requests get."""
    try:
        return _decode(request_class, request)
    except InvalidRequest:
        return None


@settings(max_examples=400)
@given(
    st.integers(0, 5),
    st.sampled_from([1, 9]),
    st.booleans(),
    st.dictionaries(st.integers(0, 40), BYTES, max_size=2),
    st.sampled_from([0, 0, 0, 1, 2, 9]),
)
def test_end_is_read_and_answered_as_by_kafka_python(
    version: int, producer_id: int, commit: bool, patches: dict[int, int], cut: int
) -> None:
    """Same fields, same refusals, and an answer that decodes to what the coordinator said."""
    message = EndTxnRequest(
        transactional_id="id", producer_id=producer_id, producer_epoch=2, committed=commit, version=version
    )
    request = request_of(message, patches=patches, cut=cut)
    desk, wanted = Desk(), understood(EndTxnRequest, request)
    frame = answered(desk, end_txn, request)
    if wanted is None:
        assert (frame, desk.asked) == (None, [])
        return
    assert frame is not None
    answer = EndTxnResponse.decode(frame, version=version, header=True)
    if not wanted.transactional_id:
        assert (answer.error_code, desk.asked) == (42, [])
        return
    producer = (wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)
    assert desk.asked == [(*producer, wanted.committed, version >= 5, 3)]
    fenced = wanted.producer_id == 9
    assert (answer.throttle_time_ms, answer.error_code) == (0, (90 if version >= 2 else 47) if fenced else 0)
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == ((-1, -1) if fenced else (7, 4))


@settings(max_examples=400)
@given(
    st.integers(0, 3),
    st.sampled_from([1, 9]),
    st.lists(
        st.tuples(st.sampled_from(["t", "u", "v"]), st.lists(st.integers(0, 3), max_size=3)), max_size=3
    ),
    st.dictionaries(st.integers(0, 60), BYTES, max_size=2),
    st.sampled_from([0, 0, 0, 1, 2, 9]),
)
@example(3, 1, [("t", [0])], {13: 0}, 0)
@example(3, 1, [("t", [0])], {16: 0}, 0)
@example(0, 1, [], {14: 0xFF, 15: 0xFF, 16: 0xFF, 17: 0xFF}, 0)
def test_announcement_is_read_and_answered_as_by_kafka_python(
    version: int, producer_id: int, topics: list[tuple[str, list[int]]], patches: dict[int, int], cut: int
) -> None:
    """Same fields, same refusals, and an answer that has every partition in its place; the second time, too."""
    topic_class: Any = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=2,
        v3_and_below_topics=[topic_class(name=n, partitions=p, version=version) for n, p in topics],
        version=version,
    )
    request = request_of(message, patches=patches, cut=cut)
    desk, wanted = Desk(), understood(AddPartitionsToTxnRequest, request)
    frame = answered(desk, add_partitions_to_txn, request)
    if wanted is None:
        assert (frame, desk.asked) == (None, [])
        return
    assert frame is not None
    answer = AddPartitionsToTxnResponse.decode(frame, version=version, header=True)
    asked = [(topic.name, part) for topic in wanted.v3_and_below_topics for part in topic.partitions]
    results = [
        (topic.name, part.partition_index, part.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]
    assert [result[:2] for result in results] == asked
    assert len(answer.results_by_topic_v3_and_below) == len(wanted.v3_and_below_topics)
    known = all(name in TOPICS and 0 <= part < 3 for name, part in asked)
    name = wanted.v3_and_below_transactional_id
    fenced = wanted.v3_and_below_producer_id == 9
    if not known:
        assert (desk.asked, {code for _, _, code in results} <= {3, 55}) == ([], True)
    elif not name:
        assert (desk.asked, {code for _, _, code in results} <= {42}) == ([], True)
    else:
        places = [(TOPICS[topic].topic_id, part) for topic, part in asked]
        producer = (name, wanted.v3_and_below_producer_id, wanted.v3_and_below_producer_epoch)
        assert desk.asked == [(*producer, 3, places)]
        assert {code for _, _, code in results} <= {(90 if version >= 2 else 47) if fenced else 0}
        assert answered(desk, add_partitions_to_txn, request) == frame
        assert desk.asked == [(*producer, 3, places)] * 2


@pytest.mark.parametrize("partitions", [1, 500])
def test_a_request_that_is_remembered_is_judged_again(partitions: int) -> None:
    """Its topic may be gone by now, or another producer may own the id; a long one is not remembered at all."""
    topic_class: Any = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=f"remembered-{partitions}",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=2,
        v3_and_below_topics=[topic_class(name="t", partitions=[0] * partitions, version=3)],
        version=3,
    )
    request = request_of(message, patches={}, cut=0)

    def codes(desk: Desk) -> set[int]:
        frame = answered(desk, add_partitions_to_txn, request)
        assert frame is not None
        answer = AddPartitionsToTxnResponse.decode(frame, version=3, header=True)
        parts = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert len(parts) == partitions
        return {part.partition_error_code for part in parts}

    def lose_topic(name: str) -> Topic:
        raise UnknownTopicOrPartition(f"no topic {name!r}")

    def lose_id(*producer: object, **places: object) -> None:
        raise ProducerFenced("by another")

    remembered = k24._read_again.cache_info().currsize
    desk = Desk()
    assert codes(desk) == {0}
    assert k24._read_again.cache_info().currsize - remembered == (1 if partitions == 1 else 0)
    desk.transactions = SimpleNamespace(announce=lose_id)
    assert codes(desk) == {90}
    desk.catalog = SimpleNamespace(get=lose_topic)
    assert codes(desk) == {3}

"""The raw producer against brokers whose every answer is scripted: once in the log, whatever happens."""

from contextlib import ExitStack
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest, ProduceResponse

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer, Written
from holdfast.errors import ConnectionFailed, InvalidRecord, KafkaRefusal, MessageTooLarge
from holdfast.records.batch import BatchView, Codec
from holdfast.records.build import Record, read_records
from tests.client.fake_broker import FakeBroker, Handler
from tests.client.fake_cluster import FakeCluster

PRODUCER_ID = 77
TOO_LARGE = 10
NOT_LEADER = 6
INVALID_RECORD = 87
LOADING = 14
FORBIDDEN = 31


class Log:
    """One broker that keeps the batches of `orders-0`; `script` says what becomes of the next ones."""

    def __init__(self, stack: ExitStack) -> None:
        self.batches: list[BatchView] = []
        self.received: list[BatchView] = []
        self.script: list[int | None] = []
        self.init_script: list[int | None] = []
        cluster = FakeCluster(stack)
        handlers: dict[Any, Handler] = {
            MetadataRequest: cluster.metadata,
            ProduceRequest: self.produce,
            InitProducerIdRequest: self.init,
        }
        offered = {0: (3, 8), 3: (0, 12), 18: (0, 3), 22: (0, 1)}
        self.broker = stack.enter_context(FakeBroker(handlers, offered=offered))
        cluster.brokers[0] = self.broker
        self.client = stack.enter_context(
            Cluster(f"127.0.0.1:{self.broker.port}", timeout=5.0, patience_s=5.0)
        )

    def init(self, request: Any) -> dict[str, Any] | None:
        """Refuses with a code, breaks off (None), or gives the producer its id."""
        verdict = self.init_script.pop(0) if self.init_script else 0
        if verdict is None:
            return None
        return {"error_code": verdict, "producer_id": PRODUCER_ID, "producer_epoch": 3}

    def produce(self, request: Any) -> dict[str, Any] | None:
        """Refuses with a code, writes and breaks off (None), or writes and answers."""
        batch = BatchView(request.topic_data[0].partition_data[0].records)
        self.received.append(batch)
        verdict = self.script.pop(0) if self.script else 0
        if verdict:
            return self._answer(verdict, -1)
        if not any(each.base_sequence == batch.base_sequence for each in self.batches):
            self.batches.append(batch)
        # One producer alone writes here: its sequence numbers are the offsets.
        return None if verdict is None else self._answer(0, batch.base_sequence)

    def _answer(self, code: int, first: int) -> dict[str, Any]:
        topic_part = ProduceResponse.TopicProduceResponse
        partition = topic_part.PartitionProduceResponse(
            index=0, error_code=code, base_offset=first, log_append_time_ms=-1, log_start_offset=0,
            record_errors=[], error_message=None,
        )  # fmt: skip
        return {
            "responses": [topic_part(name="orders", partition_responses=[partition])],
            "throttle_time_ms": 0,
        }

    @property
    def values(self) -> list[bytes | None]:
        """What lies in the log."""
        return [record.value for batch in self.batches for record in read_records(batch)]


def records(*values: bytes) -> list[Record]:
    return [Record(value=value, timestamp_ms=1) for value in values]


def test_sequences() -> None:
    """Batches carry the producer's id and follow one another in sequence."""
    with ExitStack() as stack:
        log = Log(stack)
        producer = Producer(log.client, "orders", codec=Codec.LZ4)
        producer.send({0: records(b"a", b"b")})
        producer.send({0: records(b"c")})
        assert [(each.producer_id, each.producer_epoch, each.base_sequence) for each in log.batches] == [
            (PRODUCER_ID, 3, 0),
            (PRODUCER_ID, 3, 2),
        ]
        assert log.values == [b"a", b"b", b"c"]
        assert producer.written == {0: Written(first=0, last=2, count=3)}


def test_init_is_tried_again() -> None:
    """A connection that breaks off, or a coordinator that is loading, costs a moment; a refusal is final."""
    with ExitStack() as stack:
        log = Log(stack)
        log.init_script = [None, LOADING, None]
        Producer(log.client, "orders").send({0: records(b"a")})
        assert log.values == [b"a"]
        assert not log.init_script
        log.init_script = [FORBIDDEN]
        with pytest.raises(KafkaRefusal, match="asking for a producer id"):
            Producer(log.client, "orders")


def test_lost_answer() -> None:
    """A batch whose answer was lost is sent again under the same sequence, and counted once."""
    with ExitStack() as stack:
        log = Log(stack)
        log.script = [None]
        producer = Producer(log.client, "orders")
        producer.send({0: records(b"a")})
        producer.send({0: records(b"b")})
        assert [each.base_sequence for each in log.received] == [0, 0, 1]
        assert log.values == [b"a", b"b"]
        assert producer.written == {0: Written(first=0, last=1, count=2)}


def test_lost_answer_without_idempotence() -> None:
    """With acks=1 nobody can know: it is not sent again, and the error says so."""
    with ExitStack() as stack:
        log = Log(stack)
        log.script = [None]
        producer = Producer(log.client, "orders", acks=1)
        with pytest.raises(ConnectionFailed, match="may be written or not"):
            producer.send({0: records(b"a")})
        assert [each.producer_id for each in log.received] == [-1]


def test_moved_leader() -> None:
    """A refusal that passes by itself is tried again."""
    with ExitStack() as stack:
        log = Log(stack)
        log.script = [NOT_LEADER]
        Producer(log.client, "orders").send({0: records(b"a")})
        assert [each.base_sequence for each in log.received] == [0, 0]


def test_halves() -> None:
    """A batch over the limit goes in halves, in order, with sequences that fit the log."""
    with ExitStack() as stack:
        log = Log(stack)
        log.script = [TOO_LARGE, TOO_LARGE]
        producer = Producer(log.client, "orders")
        producer.send({0: records(b"a", b"b", b"c", b"d", b"e")})
        assert log.values == [b"a", b"b", b"c", b"d", b"e"]
        assert [(each.base_sequence, each.record_count) for each in log.batches] == [(0, 1), (1, 1), (2, 3)]
        assert producer.written == {0: Written(first=0, last=4, count=5)}


def test_one_record_too_large() -> None:
    """A record that is too large by itself is refused; what was acknowledged before is told."""
    with ExitStack() as stack:
        log = Log(stack)
        log.script = [TOO_LARGE, 0, TOO_LARGE]
        producer = Producer(log.client, "orders")
        with pytest.raises(MessageTooLarge):
            producer.send({0: records(b"a", b"b")})
        assert producer.written == {0: Written(first=0, last=0, count=1)}


def test_final_refusal() -> None:
    """A refusal that does not pass is raised at once."""
    with ExitStack() as stack:
        log = Log(stack)
        log.script = [INVALID_RECORD]
        with pytest.raises(InvalidRecord):
            Producer(log.client, "orders").send({0: records(b"a")})
        assert len(log.received) == 1

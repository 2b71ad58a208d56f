"""A talk with one broker about transactions: requests of any version, each answer noted in short."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest

from holdfast.client import transactions
from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity
from holdfast.errors import ConcurrentTransactions
from holdfast.records.build import Record, build_batch
from tests.agent import raw, requests
from tests.kafka.digest import codes, digest, named_code
from tests.kafka.peers import UNKNOWN_ID, Peer

CLOSED = "connection closed"
SETTLE_SECONDS_MAX = 20.0
PAUSE_S = 0.01
TIMEOUT_MS = 60_000
INIT, ADD, END = 4, 3, 4
"""Versions of steps that only prepare a question: the newest of the first generation."""


@dataclass
class Talk:
    """One question in one version; `who` is the producer that it is about, and `topic` is its own."""

    peer: Peer
    name: str
    version: int
    rows: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.who = Identity(transactional_id=self.name)
        self.topic = self.name
        self.topic_id = UNKNOWN_ID
        self._known: dict[int, str] = {-1: "none"}

    @property
    def place(self) -> TopicPartition:
        """The partition that most is about."""
        return TopicPartition(self.topic, 0)

    def tell(self, label: str, request: Any, version: int | None = None) -> Any:
        """Ask, and note the answer; one that only says to wait is not the answer."""
        answer = self.settled(request, self.version if version is None else version)
        self.note(label, answer)
        return answer

    def note(self, label: str, answer: Any) -> None:
        """Put an answer down in short."""
        self.rows.append((label, self.digest(answer)))

    def digest(self, answer: Any) -> str:
        """An answer in short."""
        return answer if isinstance(answer, str) else digest(answer, self._known)

    def do(self, request: Any, version: int) -> Any:
        """A step that prepares the question, and must succeed."""
        answer = self.settled(request, version)
        bad = [CLOSED] if isinstance(answer, str) else [named_code(code) for code in codes(answer) if code]
        assert not bad, f"{self.peer.name}, {self.name}: {request.name} v{version} says {bad}"
        return answer

    def settled(self, request: Any, version: int) -> Any:
        """Ask again while the last transaction is on its way to its end."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while True:
            answer = self.ask(request, version)
            busy = not isinstance(answer, str) and ConcurrentTransactions.kafka_code in codes(answer)
            if not busy or time.monotonic() > deadline:
                return answer
            time.sleep(PAUSE_S)

    def ask(self, request: Any, version: int) -> Any:
        """Ask once, on a connection of its own."""
        request.API_VERSION = version
        with raw.RawClient(self.peer.port) as client:
            client.send(request)
            try:
                frame = client.receive_frame()
            except ConnectionError:
                return CLOSED
        return request.header.get_response_class().decode(frame, header=True)

    def until(self, request: Callable[[], Any], version: int, is_good: Callable[[Any], bool]) -> Any:
        """Ask until the answer is good."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while True:
            answer = self.ask(request(), version)
            if not isinstance(answer, str) and is_good(answer):
                return answer
            assert time.monotonic() < deadline, f"{self.peer.name}, {self.name}: {answer}"
            time.sleep(PAUSE_S)

    def start(self, *, timeout_ms: int = TIMEOUT_MS, **configs: str) -> None:
        """A topic and a producer, with no transaction open."""
        self.create(**configs)
        self.become(self.do(transactions.init_producer_id(self.who, timeout_ms=timeout_ms), INIT))

    def open(self, *, data: bool = False) -> None:
        """A transaction with the partition in it and, perhaps, a record."""
        self.do(transactions.add_partitions(self.who, [self.place]), ADD)
        if data:
            self.do(self.produce(self.batch()), 11)

    def end(self, *, committed: bool, version: int = END) -> None:
        """End it, and see it through."""
        answer = self.do(transactions.end_txn(self.who, committed=committed), version)
        if version > END:
            self.become(answer)
        self.completed()

    def completed(self) -> None:
        """Return when the outcome is written everywhere."""
        self.until(
            lambda: describe(self.name), 0, lambda a: a.transaction_states[0].transaction_state in SETTLED
        )

    def become(self, answer: Any) -> None:
        """Be whom an answer says."""
        self.who = replace(self.who, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)
        self._known.setdefault(answer.producer_id, f"p{len(self._known)}")

    def become_if_told(self, answer: Any) -> None:
        """Be whom a good answer of the second generation says."""
        if answer.API_VERSION > END and not answer.error_code:
            self.become(answer)

    def completed_or_open(self) -> None:
        """Return when nothing is on its way."""
        self.until(
            lambda: describe(self.name),
            0,
            lambda a: a.transaction_states[0].transaction_state in SETTLED | {"Ongoing"},
        )

    def claim(self, **changes: Any) -> Identity:
        """The producer with something changed; `epoch` is relative."""
        changes.setdefault("producer_epoch", self.who.producer_epoch + changes.pop("epoch", 0))
        return replace(self.who, **changes)

    def create(self, **configs: str) -> None:
        """The topic, with two partitions; configs with underscores for dots."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.ask(requests.create_topic(self.topic, partitions=2, configs=named), 5)
        self.until(
            lambda: requests.list_offsets(self.topic, {0: -1, 1: -1}),
            7,
            lambda answer: not any(each.error_code for each in answer.topics[0].partitions),
        )
        found = self.ask(requests.metadata(self.topic, create=False), 12)
        self.topic_id = found.topics[0].topic_id

    def batch(
        self,
        *,
        sequence: int = 0,
        count: int = 1,
        key: bytes | None = None,
        who: Identity | None = None,
        transactional: bool = True,
    ) -> bytes:
        """One batch of the producer's."""
        who = who or self.who
        return build_batch(
            [
                Record(key=key, value=b"%d" % number, timestamp_ms=1_700_000_000_000)
                for number in range(count)
            ],
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
        )

    def produce(self, batch: bytes, *, partition: int = 0, transactional_id: str | None = "") -> Any:
        """A produce request in the producer's name, or another or none."""
        name = self.name if transactional_id == "" else transactional_id
        request = transactions.produce(name, {TopicPartition(self.topic, partition): batch})
        for topic in request.topic_data:
            topic.topic_id = self.topic_id
        return request


SETTLED = {"Empty", "CompleteCommit", "CompleteAbort"}


def describe(*names: str) -> Any:
    """DescribeTransactions."""
    return DescribeTransactionsRequest(transactional_ids=list(names))

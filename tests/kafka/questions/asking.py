"""Questions about transactions: each is a function of a talk, asked in every version of a request."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest

from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity, init_producer_id
from tests.agent import requests
from tests.kafka.talk import Talk

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


@dataclass(frozen=True)
class Question:
    """A question, and the request whose versions it is asked in."""

    ask: Callable[[Talk], None]
    request: Any
    first: int = 0
    last: int = 99

    @property
    def name(self) -> str:
        """By which it is known."""
        return self.ask.__name__

    def versions(self, spoken: dict[int, tuple[int, int]]) -> range:
        """Those that a broker and kafka-python speak."""
        first, last = spoken[self.request.API_KEY]
        return range(max(first, self.first), min(last, self.last, self.request.max_version) + 1)


QUESTIONS: list[Question] = []


def question(
    request: Any, *, first: int = 0, last: int = 99
) -> Callable[[Callable[[Talk], None]], Callable[[Talk], None]]:
    """Registers a question."""

    def register(ask: Callable[[Talk], None]) -> Callable[[Talk], None]:
        QUESTIONS.append(Question(ask, request, first, last))
        return ask

    return register


def init(who: Identity, timeout_ms: int = 60_000) -> Any:
    return init_producer_id(who, timeout_ms=timeout_ms)


def strangers(talk: Talk) -> dict[str, Identity]:
    """Whom nobody should listen to."""
    return {
        "unknown id": talk.claim(transactional_id="nobody." + talk.name),
        "empty id": talk.claim(transactional_id=""),
        "wrong producer id": talk.claim(producer_id=talk.who.producer_id + 100_000),
        "old epoch": talk.claim(epoch=-1),
        "newer epoch": talk.claim(epoch=1),
    }


def aged(talk: Talk) -> None:
    """A producer at epoch 1, so that there is an older one."""
    talk.start()
    talk.become(talk.do(init(Identity(transactional_id=talk.name)), 4))


def ends(talk: Talk, label: str) -> None:
    """Notes how much of the partition is undecided: outcomes take offsets in Kafka's log, and none in ours."""
    found = []
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        request = requests.list_offsets(talk.topic, {0: -1})
        request.isolation_level = isolation
        found.append(talk.do(request, 7).topics[0].partitions[0].offset)
    talk.note(f"records {label}", f"{found[1] - found[0]} undecided")


def active_producers(*places: TopicPartition) -> Any:
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=place.topic, partition_indexes=[place.partition])
            for place in places
        ]
    )

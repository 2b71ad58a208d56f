"""What coordinators are asked about transactions: each question is a function of a talk, run in each version."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity, add_offsets, add_partitions, end_txn, init_producer_id
from tests.kafka.talk import Talk, describe

TIMEOUT_MS_MAX = 900_000
EPOCHS = {"right epoch": 0, "old epoch": -1, "newer epoch": 1}


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


@question(InitProducerIdRequest)
def init_new_and_again(talk: Talk) -> None:
    talk.tell("new", init(talk.who))
    talk.tell("again", init(talk.who))
    talk.tell("state", describe(talk.name), 0)


@question(InitProducerIdRequest)
def init_bad_input(talk: Talk) -> None:
    talk.tell("empty id", init(Identity(transactional_id="")))
    for timeout_ms in (TIMEOUT_MS_MAX, TIMEOUT_MS_MAX + 1, 1, 0, -1):
        talk.tell(f"timeout {timeout_ms}", init(talk.who, timeout_ms))
    talk.tell("id of 20000 letters", init(Identity(transactional_id=(talk.name + "x" * 20000)[:20000])))
    talk.tell("null id, timeout 0", init_producer_id(Identity(transactional_id=None), timeout_ms=0))  # type: ignore[arg-type]


@question(InitProducerIdRequest)
def init_while_open(talk: Talk) -> None:
    talk.start()
    talk.open(data=True)
    talk.tell("in the end", init(Identity(transactional_id=talk.name)))
    talk.tell("state", describe(talk.name), 0)


@question(InitProducerIdRequest)
def init_while_open_at_once(talk: Talk) -> None:
    talk.start()
    talk.open(data=True)
    talk.note("first answer", talk.ask(init(Identity(transactional_id=talk.name)), talk.version))


@question(InitProducerIdRequest, first=3)
def init_resume_unknown(talk: Talk) -> None:
    talk.create()
    talk.tell("unknown id", init(Identity(transactional_id=talk.name, producer_id=7, producer_epoch=3)))


@question(InitProducerIdRequest, first=3)
def init_resume_odd(talk: Talk) -> None:
    aged(talk)
    talk.tell("producer id without epoch", init(talk.claim(producer_epoch=-1)))
    talk.tell("epoch without producer id", init(talk.claim(producer_id=-1)))
    talk.tell("wrong producer id", init(talk.claim(producer_id=talk.who.producer_id + 100_000)))
    talk.tell("state", describe(talk.name), 0)


def _resume(talk: Talk, before: Callable[[Talk], None]) -> None:
    for label, epoch in EPOCHS.items():
        talk.name = f"{talk.topic}.{label.split()[0]}"
        talk.who = Identity(transactional_id=talk.name)
        talk.become(talk.do(init(talk.who), 4))
        talk.become(talk.do(init(Identity(transactional_id=talk.name)), 4))
        before(talk)
        claimed = talk.claim(epoch=epoch)
        talk.tell(label, init(claimed))
        talk.tell(f"{label}, once more", init(claimed))
        talk.tell(f"{label}, state", describe(talk.name), 0)


@question(InitProducerIdRequest, first=3)
def init_resume_empty(talk: Talk) -> None:
    talk.create()
    _resume(talk, lambda talk: None)


@question(InitProducerIdRequest, first=3)
def init_resume_open(talk: Talk) -> None:
    talk.create()
    _resume(talk, lambda talk: talk.open())


@question(InitProducerIdRequest, first=3)
def init_resume_committed_tv1(talk: Talk) -> None:
    talk.create()

    def before(talk: Talk) -> None:
        talk.open()
        talk.end(committed=True)

    _resume(talk, before)


@question(InitProducerIdRequest, first=3)
def init_resume_committed_tv2(talk: Talk) -> None:
    talk.create()

    def before(talk: Talk) -> None:
        talk.open()
        talk.end(committed=True, version=5)

    _resume(talk, before)


@question(AddPartitionsToTxnRequest, last=3)
def add_partitions_strangers(talk: Talk) -> None:
    aged(talk)
    for label, who in strangers(talk).items():
        talk.tell(label, add_partitions(who, [talk.place]))
    talk.tell("state", describe(talk.name), 0)


@question(AddPartitionsToTxnRequest, last=3)
def add_partitions_places(talk: Talk) -> None:
    talk.start()
    talk.tell("no partitions", add_partitions(talk.who, []))
    talk.tell("unknown topic", add_partitions(talk.who, [TopicPartition("nowhere", 0)]))
    talk.tell("unknown partition", add_partitions(talk.who, [TopicPartition(talk.topic, 9)]))
    both = [talk.place, TopicPartition(talk.topic, 9)]
    talk.tell("good and unknown partition", add_partitions(talk.who, both))
    talk.tell("state before", describe(talk.name), 0)
    talk.tell("good", add_partitions(talk.who, [talk.place]))
    talk.tell("again", add_partitions(talk.who, [talk.place]))
    talk.tell("state after", describe(talk.name), 0)


@question(AddPartitionsToTxnRequest, first=4)
def add_partitions_batched(talk: Talk) -> None:
    talk.start()
    topic_part = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic

    def ask(who: Identity, *, verify_only: bool) -> Any:
        transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            verify_only=verify_only,
            topics=[topic_part(name=talk.topic, partitions=[0])],
        )
        return AddPartitionsToTxnRequest(transactions=[transaction])

    talk.tell("verify in empty state", ask(talk.who, verify_only=True))
    talk.tell("add", ask(talk.who, verify_only=False))
    talk.tell("verify", ask(talk.who, verify_only=True))
    for label, who in strangers(talk).items():
        talk.tell(f"verify, {label}", ask(who, verify_only=True))
        talk.tell(f"add, {label}", ask(who, verify_only=False))


@question(AddOffsetsToTxnRequest)
def add_offsets_strangers(talk: Talk) -> None:
    aged(talk)
    for label, who in strangers(talk).items():
        talk.tell(label, add_offsets(who, "g." + talk.name))
    talk.tell("empty group", add_offsets(talk.who, ""))
    talk.tell("good", add_offsets(talk.who, "g." + talk.name))
    talk.tell("again", add_offsets(talk.who, "g." + talk.name))


@question(EndTxnRequest)
def end_strangers(talk: Talk) -> None:
    aged(talk)
    talk.open(data=True)
    for label, who in strangers(talk).items():
        talk.tell(f"commit, {label}", end_txn(who, committed=True))
        talk.tell(f"abort, {label}", end_txn(who, committed=False))
    talk.tell("state", describe(talk.name), 0)


@question(EndTxnRequest)
def end_empty_commit(talk: Talk) -> None:
    talk.start()
    talk.tell("commit", end_txn(talk.who, committed=True))
    talk.tell("state", describe(talk.name), 0)


@question(EndTxnRequest)
def end_empty_abort(talk: Talk) -> None:
    talk.start()
    talk.tell("abort", end_txn(talk.who, committed=False))
    talk.tell("abort again", end_txn(talk.who, committed=False))
    talk.completed()
    talk.tell("state", describe(talk.name), 0)


def _end_then(talk: Talk, *, committed: bool) -> None:
    """The same packet again, and the other outcome, by who the producer was and by who it is now."""
    talk.start()
    for label, same, current in (
        ("the same", True, False),
        ("the other", False, False),
        ("the same as it is now", True, True),
        ("the other as it is now", False, True),
    ):
        talk.open(data=False)
        before = talk.who
        talk.become_if_told(talk.tell(f"end before {label}", end_txn(before, committed=committed)))
        talk.completed()
        claimed = talk.who if current else before
        outcome = committed if same else not committed
        talk.become_if_told(talk.tell(f"then {label}", end_txn(claimed, committed=outcome)))
        talk.completed()
        talk.tell(f"state after {label}", describe(talk.name), 0)
        talk.become(talk.do(init(Identity(transactional_id=talk.name)), 4))


@question(EndTxnRequest)
def end_after_commit(talk: Talk) -> None:
    _end_then(talk, committed=True)


@question(EndTxnRequest)
def end_after_abort(talk: Talk) -> None:
    _end_then(talk, committed=False)


@question(EndTxnRequest)
def end_late(talk: Talk) -> None:
    """A commit's first packet comes late, after the next transaction has begun."""
    talk.start()
    talk.open(data=True)
    late = end_txn(talk.who, committed=True)
    talk.become_if_told(talk.tell("commit", end_txn(talk.who, committed=True)))
    talk.completed()
    talk.open()
    talk.tell("late commit", late)
    talk.completed_or_open()
    talk.tell("state", describe(talk.name), 0)


@question(InitProducerIdRequest, first=4)
def timed_out(talk: Talk) -> None:
    """After the coordinator has aborted by itself."""
    talk.start(timeout_ms=500)
    talk.open(data=True)
    talk.completed()
    talk.tell("state", describe(talk.name), 0)
    for version in (1, 4, 5):
        for committed in (True, False):
            request = end_txn(talk.who, committed=committed)
            talk.tell(f"EndTxn v{version} {'commit' if committed else 'abort'}", request, version)
    talk.tell("AddPartitionsToTxn v1", add_partitions(talk.who, [talk.place]), 1)
    talk.tell("AddPartitionsToTxn v3", add_partitions(talk.who, [talk.place]), 3)
    for version in (10, 11, 12):
        talk.tell(f"Produce v{version}", talk.produce(talk.batch(sequence=1)), version)
    talk.tell("InitProducerId, resumed", init(talk.who))
    talk.tell("InitProducerId, resumed again", init(talk.who))
    talk.tell("InitProducerId", init(Identity(transactional_id=talk.name)))


@question(ListTransactionsRequest)
def listed(talk: Talk) -> None:
    talk.start()

    def ask(label: str, **filters: Any) -> None:
        wanted = {"state_filters": [], "producer_id_filters": [], **filters}
        talk.tell(label, ListTransactionsRequest(**wanted))

    mine = {"producer_id_filters": [talk.who.producer_id]}
    ask("empty state", **mine)
    ask("state filter Empty", state_filters=["Empty"], **mine)
    talk.open(data=True)
    ask("open")
    ask("state filter Ongoing", state_filters=["Ongoing"])
    ask("state filter ongoing", state_filters=["ongoing"])
    ask("state filters CompleteCommit and Foo", state_filters=["CompleteCommit", "Foo"])
    ask("state filters Ongoing and Foo", state_filters=["Ongoing", "Foo"])
    ask("another producer", producer_id_filters=[1 << 40])
    if talk.version >= 1:
        for duration in (-1, -5, 0, 1, 3_600_000):
            ask(f"duration {duration}", duration_filter=duration)
    if talk.version >= 2:
        for pattern in (None, "", talk.name, talk.name[:-1], talk.name[:-1] + ".", ".*", "nobody", "("):
            ask(
                f"pattern {pattern and pattern.replace(talk.name[:-1], '<name less 1>')}",
                transactional_id_pattern=pattern,
            )
    talk.end(committed=True)
    ask("committed", **mine)
    if talk.version >= 1:
        ask("committed, duration 0", duration_filter=0, **mine)


@question(FindCoordinatorRequest, first=1)
def find_transaction_coordinator(talk: Talk) -> None:
    def ask(label: str, *keys: str, kind: int = 1) -> None:
        request = (
            FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
            if talk.version >= 4
            else FindCoordinatorRequest(key_type=kind, key=keys[0])
        )
        talk.tell(label, request)

    ask("unknown id", talk.name)
    ask("empty id", "")
    ask("type 7", talk.name, kind=7)
    if talk.version >= 4:
        ask("two ids", talk.name, "another")
        ask("no id")


@question(InitProducerIdRequest, first=4, last=4)
def described(talk: Talk) -> None:
    talk.start()
    talk.tell("unknown id", describe("nobody"), 0)
    talk.tell("empty id", describe(""), 0)
    talk.tell("no id", describe(), 0)
    talk.tell("empty state", describe(talk.name), 0)
    talk.tell("named twice", describe(talk.name, talk.name), 0)
    talk.open()
    talk.do(add_offsets(talk.who, "g." + talk.name), 3)
    talk.tell("open, with offsets", describe(talk.name), 0)
    talk.end(committed=False)
    talk.tell("aborted", describe(talk.name), 0)
    talk.open()
    talk.end(committed=True, version=5)
    talk.tell("committed by TV2", describe(talk.name), 0)

"""Who is it, and since when: InitProducerId, plain and resumed (KIP-360), and what a fenced producer may still do."""

from collections.abc import Callable

from kafka.protocol.producer import InitProducerIdRequest

from holdfast.client.transactions import (
    Identity,
    add_offsets,
    add_partitions,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from tests.kafka.questions.asking import aged, ends, init, question
from tests.kafka.talk import Talk, describe

TIMEOUT_MS_MAX = 900_000
EPOCHS = {"right epoch": 0, "old epoch": -1, "newer epoch": 1}


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


@question(InitProducerIdRequest, first=4, last=4)
def fenced_producer(talk: Talk) -> None:
    """Everything that a producer tries after another has taken its id over."""
    talk.start()
    talk.open(data=True)
    old = talk.who
    group = "g." + talk.name
    talk.do(add_offsets(old, group), 3)
    talk.become(talk.do(init_producer_id(Identity(transactional_id=talk.name), timeout_ms=60_000), 4))
    ends(talk, "after takeover")
    for version in (3, 10, 11, 12):
        talk.tell(f"Produce v{version}", talk.produce(talk.batch(sequence=1, who=old)), version)
        request = talk.produce(talk.batch(who=old), partition=1)
        talk.tell(f"Produce v{version}, another partition", request, version)
    for version in (1, 3):
        talk.tell(f"AddPartitionsToTxn v{version}", add_partitions(old, [talk.place]), version)
        talk.tell(f"AddOffsetsToTxn v{version}", add_offsets(old, group), version)
    for version in (0, 3, 4, 5):
        talk.tell(f"TxnOffsetCommit v{version}", txn_offset_commit(old, group, {talk.place: 1}), version)
    for version in (1, 4, 5):
        talk.tell(f"EndTxn v{version}", end_txn(old, committed=True), version)
    talk.tell("InitProducerId, resumed", init_producer_id(old, timeout_ms=60_000), 4)
    talk.tell("state", describe(talk.name), 0)

"""Commit and abort: by whom, in which state, twice, late and the other way round."""

from kafka.protocol.producer import EndTxnRequest

from holdfast.client.transactions import Identity, add_partitions, end_txn
from tests.kafka.questions.asking import aged, ends, init, question, strangers
from tests.kafka.talk import Talk, describe


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


@question(EndTxnRequest)
def end_with_nothing_in_it(talk: Talk) -> None:
    """Partitions were announced, and nothing was sent."""
    talk.start()
    talk.open()
    talk.become_if_told(talk.tell("commit", end_txn(talk.who, committed=True)))
    talk.completed()
    ends(talk, "after")
    talk.do(add_partitions(talk.who, []), 3)
    talk.tell("commit without partitions", end_txn(talk.who, committed=True))
    talk.completed()
    talk.tell("state", describe(talk.name), 0)

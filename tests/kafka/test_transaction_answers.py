"""Transactions, asked of both brokers in every version: Holdfast answers as Kafka does.

Kafka's answers are written to build/kafka-transaction-answers.md.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.lab.kafka_broker import KafkaCluster
from tests.kafka.answers import HEAD, Rows, comparable, run, table, versions_of, warm_up
from tests.kafka.peers import Peer, Peers
from tests.kafka.questions import coordinate, end, initialize, produce, stage
from tests.kafka.questions.asking import QUESTIONS, Question

END_TXN = 26
TV2_SINCE = 5
"""The version of EndTxn."""
SUBJECTS = (initialize, coordinate, end, produce, stage)
"""Where the questions are: each module adds its own to the list."""

ABORTS_AT_ONCE = "a takeover aborts in one step, with one epoch, where Kafka fences first"
REFUSES_STRANGERS = "only the owner touches a transaction: who claims another epoch or id changes nothing"
NO_OFFSETS_TOPIC = "positions are kept in no topic, so no partition of one is part of the transaction"

DELIBERATE: dict[tuple[str, str], str] = {
    ("init_while_open_at_once", "first answer"): ABORTS_AT_ONCE,
    ("init_while_open", "in the end"): ABORTS_AT_ONCE,
    ("init_while_open", "state"): ABORTS_AT_ONCE,
    ("fenced_producer", "state"): ABORTS_AT_ONCE,
    ("init_resume_open", "old epoch, state"): REFUSES_STRANGERS,
    ("init_resume_open", "newer epoch"): REFUSES_STRANGERS,
    ("init_resume_open", "newer epoch, once more"): REFUSES_STRANGERS,
    ("init_resume_open", "newer epoch, state"): REFUSES_STRANGERS,
    ("produce_strangers", "unknown id"): REFUSES_STRANGERS,
    ("produce_strangers", "empty id"): REFUSES_STRANGERS,
    ("produce_strangers", "records after"): REFUSES_STRANGERS,
    ("stage_strangers", "unknown id, after a good one"): REFUSES_STRANGERS,
    ("stage_strangers", "empty id, after a good one"): REFUSES_STRANGERS,
    ("described", "open, with offsets"): NO_OFFSETS_TOPIC,
    ("stage_unannounced", "state"): NO_OFFSETS_TOPIC,
    ("stage_places", "another group"): NO_OFFSETS_TOPIC,
    ("init_resume_committed_tv2", "old epoch, state"): "a request that is asked again changes nothing",
    ("produce_announced", "next after commit, not added"): "generations are not mixed by any client",
    (
        "produce_without_key_unannounced",
        "state",
    ): "a batch that is refused for what it is opens no transaction",
    ("producers_described", "committed by TV2"): "no marker tells a partition of the next epoch",
}
"""By question and label: where docs/unsupported.md says that Holdfast answers otherwise."""

APART = {"markers_written": "a marker aborts the whole transaction and fences its producer, who cannot go on"}
"""Questions whose course depends on such an answer."""


class Answers:
    """One broker's answers, each question asked once."""

    def __init__(self, peer: Peer) -> None:
        self.spoken = versions_of(peer)
        self.by_question: dict[str, dict[int, Rows]] = {}
        self._peer = peer
        warm_up(peer)

    def to(self, question: Question) -> dict[int, Rows]:
        """What it said, by version."""
        if question.name not in self.by_question:
            self.by_question[question.name] = {
                version: run(self._peer, question, version) for version in question.versions(self.spoken)
            }
        return self.by_question[question.name]


@pytest.fixture(scope="module")
def kafka_answers(kafka_cluster: KafkaCluster, pytestconfig: pytest.Config) -> Iterator[Answers]:
    """Kafka's, written down at the end."""
    peer = Peer("kafka", kafka_cluster.port(1))
    if versions_of(peer)[END_TXN][1] < TV2_SINCE:
        pytest.skip("this Kafka has only the first generation")
    answers = Answers(peer)
    yield answers
    tables = [
        table(each, answers.by_question[each.name]) for each in QUESTIONS if each.name in answers.by_question
    ]
    Path(pytestconfig.rootpath, "build", "kafka-transaction-answers.md").write_text(HEAD + "\n".join(tables))


@pytest.fixture(scope="module")
def our_answers(peers: Peers) -> Answers:
    """Holdfast's."""
    return Answers(peers.holdfast)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_kafka_answers(kafka_answers: Answers, question: Question) -> None:
    """Kafka has an answer to everything in every version: the questions are sound."""
    for version, rows in kafka_answers.to(question).items():
        assert rows, version
        assert len(dict(rows)) == len(rows), "two rows have the same label"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_same_answers(our_answers: Answers, kafka_answers: Answers, question: Question) -> None:
    """Holdfast says the same, but for what is deliberate."""
    if question.name in APART:
        pytest.skip(APART[question.name])
    ours, theirs = our_answers.to(question), kafka_answers.to(question)
    different = [
        f"v{version} {label}: we say {our!r}, Kafka {their!r}"
        for version in sorted(ours.keys() & theirs.keys())
        for (label, our), (_, their) in zip(
            comparable(ours[version]), comparable(theirs[version]), strict=True
        )
        if our != their and (question.name, label) not in DELIBERATE
    ]
    assert ours, "no version in common"
    assert not different, "\n".join(different)

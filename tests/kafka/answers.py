"""Runs questions and sets the answers out as a table, versions with equal answers together."""

import re

from kafka.protocol.metadata import FindCoordinatorRequest

from holdfast.client.transactions import Identity, init_producer_id
from tests.agent import raw, requests
from tests.kafka.digest import codes
from tests.kafka.peers import Peer
from tests.kafka.questions.asking import Question
from tests.kafka.talk import Talk

Rows = list[tuple[str, str]]
"""What was asked, and what was answered."""

# Outcomes take offsets in Kafka's log, and a coordinator has an epoch: neither is so in ours.
_OF_ITS_OWN = {r"@\d+": "@given", r"start=\d+": "start=given", r" coordinator=-?\d+": ""}

HEAD = """# What Apache Kafka answers about transactions

Error codes by number and name. `(p1, 0)` is a producer by order of appearance and its epoch, `@3` an offset.
A partition's records are undecided from the last stable offset on.

"""


def versions_of(peer: Peer) -> dict[int, tuple[int, int]]:
    """The versions that a broker offers, by API key."""
    answer = peer.ask(raw.ApiVersionsRequest(version=0))
    return {api["api_key"]: (api["min_version"], api["max_version"]) for api in answer["api_keys"]}


def warm_up(peer: Peer) -> None:
    """Return when the coordinators of groups and of transactions serve."""
    talk = Talk(peer, "warm-up", 0)
    init = init_producer_id(Identity(transactional_id="warm-up"), timeout_ms=1000)
    for request, version in (
        (FindCoordinatorRequest(key="warm-up", key_type=1), 2),
        (init, 1),
        (FindCoordinatorRequest(key="warm-up", key_type=0), 2),
        (requests.fetch_offset("warm-up", "none", version=5), 5),
    ):
        talk.until(lambda request=request: request, version, lambda answer: not any(codes(answer)))  # type: ignore[misc]


def run(peer: Peer, question: Question, version: int) -> Rows:
    """Asks one question in one version."""
    talk = Talk(peer, f"{question.name}.{version}", version)
    question.ask(talk)
    return talk.rows


def comparable(rows: Rows) -> Rows:
    """The answers without what is each broker's own."""
    for pattern, instead in _OF_ITS_OWN.items():
        rows = [(label, re.sub(pattern, instead, answer)) for label, answer in rows]
    return rows


def table(question: Question, answers: dict[int, Rows]) -> str:
    """The answers in Markdown."""
    lines = [f"## {question.name} ({question.request.name.removesuffix('Request')})", ""]
    labels = list(dict.fromkeys(label for rows in answers.values() for label, _ in rows))
    for label in labels:
        by_answer: dict[str, list[int]] = {}
        for version, rows in answers.items():
            if label in dict(rows):
                by_answer.setdefault(dict(rows)[label], []).append(version)
        said = "; ".join(f"v{_span(versions)}: {answer}" for answer, versions in by_answer.items())
        lines.append(f"- {label}: {said}")
    return "\n".join([*lines, ""])


def _span(versions: list[int]) -> str:
    if versions == list(range(versions[0], versions[-1] + 1)) and len(versions) > 1:
        return f"{versions[0]}-{versions[-1]}"
    return ",".join(map(str, versions))

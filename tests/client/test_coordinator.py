"""Coordinators are remembered while they answer, and looked for anew when they refuse or hang up."""

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.client import coordinator
from holdfast.client.cluster import Cluster
from holdfast.client.coordinator import CoordinatorType, ask_coordinator
from holdfast.errors import ConnectionFailed, TransientRefusal


@dataclass
class Node:
    """A connection as far as it matters here."""

    name: str
    has_hung_up: bool = False

    def is_over(self) -> bool:
        return self.has_hung_up


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[CoordinatorType, str]]:
    """What was searched for; each search finds another node."""
    made: list[tuple[CoordinatorType, str]] = []

    def find(cluster: Cluster, kind: CoordinatorType, key: str) -> Node:
        made.append((kind, key))
        return Node(f"node {len(made)}")

    monkeypatch.setattr(coordinator, "find_coordinator", find)
    return made


def ask(cluster: Cluster, key: str = "g", kind: CoordinatorType = CoordinatorType.GROUP) -> Any:
    return ask_coordinator(cluster, kind, key, lambda node: node)


def test_one_search_for_many_questions(searches: list[tuple[CoordinatorType, str]]) -> None:
    """A group and a transactional id of one name are two."""
    with Cluster("127.0.0.1:1") as cluster:
        assert ask(cluster) is ask(cluster)
        assert ask(cluster, kind=CoordinatorType.TRANSACTION) is not ask(cluster)
        ask(cluster, "h")
        assert searches == [
            (CoordinatorType.GROUP, "g"),
            (CoordinatorType.TRANSACTION, "g"),
            (CoordinatorType.GROUP, "h"),
        ]
    assert not cluster.coordinators


def test_one_that_refuses_is_not_asked_again(searches: list[tuple[CoordinatorType, str]]) -> None:
    cluster = Cluster("127.0.0.1:1")
    assert ask(cluster).name == "node 1"

    def refuse(node: Any) -> None:
        raise TransientRefusal("it has moved")

    with pytest.raises(TransientRefusal):
        ask_coordinator(cluster, CoordinatorType.GROUP, "g", refuse)
    assert ask(cluster).name == "node 2"


def test_one_that_is_gone_without_a_word_is_looked_for_at_once(
    searches: list[tuple[CoordinatorType, str]],
) -> None:
    """Once: what whoever was found then says is final."""
    cluster = Cluster("127.0.0.1:1")
    assert ask(cluster).name == "node 1"

    def answer_but_for(*gone: str) -> Any:
        def answer(node: Any) -> Any:
            if node.name in gone:
                raise ConnectionFailed("no answer")
            return node

        return ask_coordinator(cluster, CoordinatorType.GROUP, "g", answer)

    assert answer_but_for("node 1").name == "node 2"
    assert answer_but_for("node 1").name == "node 2", "remembered"
    with pytest.raises(ConnectionFailed):
        answer_but_for("node 2", "node 3")
    assert ask(cluster).name == "node 4"


def test_one_that_has_hung_up_is_replaced_without_an_error(
    searches: list[tuple[CoordinatorType, str]],
) -> None:
    cluster = Cluster("127.0.0.1:1")
    ask(cluster).has_hung_up = True
    assert ask(cluster).name == "node 2"

"""Who coordinates a group or a transactional id."""

from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import Final, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from holdfast.client.cluster import Cluster
from holdfast.client.connection import Connection
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed

Result = TypeVar("Result")

FIND_COORDINATOR_VERSIONS: Final = (0, 3)
FIND_TRANSACTION_COORDINATOR_VERSIONS: Final = (1, 3)
"""From 1 on the key has a type, from 4 on there are several keys."""


class CoordinatorType(IntEnum):
    """What a coordinator is asked about, by its number on the wire."""

    GROUP = 0
    TRANSACTION = 1


def find_coordinator(cluster: Cluster, kind: CoordinatorType, key: str) -> Connection:
    """Asks anew, since coordinators move; one question, whose refusal is raised."""
    request = FindCoordinatorRequest(key=key, key_type=int(kind))
    versions = (
        FIND_COORDINATOR_VERSIONS if kind is CoordinatorType.GROUP else FIND_TRANSACTION_COORDINATOR_VERSIONS
    )
    answer = cluster.any_broker().send(request, versions=versions)
    if answer.error_code:
        what = "group" if kind is CoordinatorType.GROUP else "transactional id"
        raise refusal(answer.error_code, f"coordinator of {what} {key!r}", answer.error_message)
    return cluster.broker(answer.node_id)


def ask_coordinator(
    cluster: Cluster, kind: CoordinatorType, key: str, ask: Callable[[Connection], Result]
) -> Result:
    """One attempt, with the coordinator that answered last; one that refused is looked for anew by the next.

    `ask` is called again, with whoever coordinates now, if the one that is remembered does not answer: it may have gone
    without a word, and other brokers know better. So what it asks has to be safe to ask twice.
    """

    def ask_and_remember(coordinator: Connection) -> Result:
        answer = ask(coordinator)
        cluster.coordinators[kind, key] = coordinator
        return answer

    remembered = cluster.coordinators.pop((kind, key), None)
    if remembered is not None and not remembered.is_over():
        with suppress(ConnectionFailed):
            return ask_and_remember(remembered)
    return ask_and_remember(find_coordinator(cluster, kind, key))

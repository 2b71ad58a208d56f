"""Who may write as task n of a micro-batch: the first that asks, wherever it runs, and nobody after it.

Spark may run a task twice: it retries one, retries a whole stage, or races two copies of a slow one. Both copies
would write under the same producer id, epoch and sequence numbers, and a broker takes the second for a repetition
of the first: rows that differ are lost without an error. So a task asks its transaction coordinator, the only party
that all copies can reach: it initializes a transactional id of its own, and every initialization is answered
with another epoch. The driver has looked up the epoch before any task began, and only one copy can get the next.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.client.cluster import Cluster
from holdfast.client.transactional_ids import describe_transactional_id
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import Generation
from holdfast.errors import TransactionalIdNotFound, WriteRefused

EPOCH_LAST_GIVEN = 2**15 - 2
"""After it an id goes on under another producer id, from epoch 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a claim's transactional id has come to."""

    producer_id: int
    producer_epoch: int


def claim_id(transactional_id: str, task: int) -> str:
    """The transactional id by which a task is claimed; nothing is ever written under it."""
    return f"{transactional_id}.task-{task}"


def look_up_claims(cluster: Cluster, transactional_id: str, tasks: Iterable[int]) -> dict[int, Claim | None]:
    """Where the claims of these tasks stand; None for one that was never made."""
    return {task: _look_up(cluster, claim_id(transactional_id, task)) for task in tasks}


def make_claim(
    cluster: Cluster,
    transactional_id: str,
    task: int,
    *,
    seen: Claim | None,
    generation: Generation,
    timeout_ms: int,
) -> Claim:
    """Claims the task, which stood at `seen` when the batch began; WriteRefused if another copy was first."""
    name = claim_id(transactional_id, task)
    producer = TransactionalProducer(cluster, name, generation=generation, timeout_ms=timeout_ms)
    producer.init()
    made = Claim(producer_id=producer.identity.producer_id, producer_epoch=producer.identity.producer_epoch)
    if not follows(made, seen):
        raise WriteRefused(
            f"task {task} has run before in this attempt at the batch (stage retry or speculation), and its rows"
            " may be written: the batch has to be written anew"
        )
    return made


def follows(made: Claim, seen: Claim | None) -> bool:
    """Whether nobody has claimed between the look and the claim."""
    if seen is None:
        return made.producer_epoch == 0
    if seen.producer_epoch == EPOCH_LAST_GIVEN:
        return made.producer_id != seen.producer_id and made.producer_epoch == 0
    return made == Claim(producer_id=seen.producer_id, producer_epoch=seen.producer_epoch + 1)


def _look_up(cluster: Cluster, name: str) -> Claim | None:
    try:
        found = describe_transactional_id(cluster, name)
    except TransactionalIdNotFound:
        return None
    return Claim(producer_id=found.producer_id, producer_epoch=found.producer_epoch)

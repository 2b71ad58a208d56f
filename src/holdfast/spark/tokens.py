"""What a micro-batch leaves beside its rows, in the same transaction: its number, and what it covered.

A token is an offset of the group of a transactional id: the batch after the one that it tells of, with the query's id
and a digest of the batch's offsets as metadata. Spark replays its newest batch alone, as it was planned. A query that
comes with any other batch the log has already comes with a checkpoint that is older than the log: were its batch taken
for the one that was committed, its rows would be lost.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.client.cluster import Cluster
from holdfast.client.groups import fetch_positions
from holdfast.errors import CheckpointOutdated, WriteRefused

GROUP_PREFIX: Final = "holdfast-sink."
TOKEN_MARK: Final = "holdfast-sink"  # noqa: S105  not a secret: it marks what a sink has committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A micro-batch of a query."""

    query_id: str
    number: int
    digest: str = ""
    """Of the offsets that it covers, see `planned`; empty where they cannot be seen."""

    @property
    def token(self) -> str:
        """What stands beside its number."""
        return f"{TOKEN_MARK} {self.query_id} {self.digest}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The last batch of a query that was committed."""

    next_batch: int
    digest: str = ""
    """Empty, too, if an earlier Holdfast wrote it."""

    def tells_of(self, batch: Batch) -> bool:
        """Whether the batch is the committed one; CheckpointOutdated if it can be neither that nor a later one."""
        if batch.number >= self.next_batch:
            return False
        last = self.next_batch - 1
        if batch.number < last:
            raise _outdated(f"it goes on with batch {batch.number}, and batch {last} is committed", last)
        if batch.digest and self.digest and batch.digest != self.digest:
            raise _outdated(f"its batch {last} has other offsets than the one that is committed", last)
        return True


def read_tokens(cluster: Cluster, transactional_id: str) -> dict[str, Token]:
    """By query id. Topics come and go, so that a query may have left tokens at several; the last one counts."""
    group = GROUP_PREFIX + transactional_id
    found: dict[str, Token] = {}
    for place, position in fetch_positions(cluster, group, settled=True).items():
        mark, _, told = position.metadata.partition(" ")
        if mark != TOKEN_MARK:
            raise WriteRefused(
                f"group {group!r} has an offset for {place.topic}-{place.partition} that no sink has committed:"
                " the group belongs to the sink alone; delete what somebody else has committed there"
            )
        query_id, _, digest = told.partition(" ")
        if query_id not in found or position.offset > found[query_id].next_batch:
            found[query_id] = Token(next_batch=position.offset, digest=digest)
    return found


def _outdated(how: str, last: int) -> CheckpointOutdated:
    return CheckpointOutdated(
        f"the query's checkpoint is older than what the log has committed: {how}. Nothing is written, since rows would"
        f" be lost: bring back the newest checkpoint, or begin a new one where batch {last} has ended"
    )

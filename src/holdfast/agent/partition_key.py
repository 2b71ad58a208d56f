"""How the agent names a partition of a topic."""

from typing import NamedTuple
from uuid import UUID


class PartitionKey(NamedTuple):
    """A partition of a topic; sorts, so that a frame's body is in a settled order."""

    topic_id: UUID
    partition: int

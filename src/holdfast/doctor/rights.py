"""Which right it was that a cluster did not grant, by the names that Kafka's own tools have for them."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import (
    ClusterAuthorizationFailed,
    RightMissing,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)


@contextmanager
def needing(right: str, topic: str | None = None) -> Iterator[None]:
    """RightMissing, with the right's name, if what is asked in the block is refused for want of it."""
    try:
        yield
    except (TopicAuthorizationFailed, ClusterAuthorizationFailed) as failure:
        on = "the cluster" if topic is None else f"topic {topic!r}"
        raise RightMissing(f"the right {right} on {on} is missing") from failure
    except TransactionalIdAuthorizationFailed as failure:
        raise RightMissing("the right Write on the transactional id is missing") from failure

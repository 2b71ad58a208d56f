"""What a transactional producer asks before its first transaction, of brokers whose every answer is scripted."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from holdfast.client.cluster import Cluster
from holdfast.client.transactions import TV1, TV2, Generation, generation_of
from holdfast.errors import ConnectionFailed
from tests.client.fake_broker import FakeBroker

FEATURES_VERSION = 3


@contextmanager
def cluster_with(level: int, *, breaks: int, patience_s: float = 5.0) -> Iterator[Cluster]:
    """A broker at a level of `transaction.version` that breaks off so many times when it is asked for it."""
    left = breaks
    with ExitStack() as stack:
        broker: FakeBroker

        def api_versions(request: Any) -> dict[str, Any] | None:
            nonlocal left
            fields = broker.api_versions()
            if request.API_VERSION < FEATURES_VERSION:
                return fields
            left -= 1
            if left >= 0:
                return None
            feature = ApiVersionsResponse.FinalizedFeatureKey(
                name="transaction.version", max_version_level=level, min_version_level=level
            )
            return fields | {"finalized_features_epoch": 1, "finalized_features": [feature]}

        broker = stack.enter_context(FakeBroker({ApiVersionsRequest: api_versions}))
        address = f"127.0.0.1:{broker.port}"
        yield stack.enter_context(Cluster(address, timeout=5.0, patience_s=patience_s))


@pytest.mark.parametrize("breaks", [0, 2])
@pytest.mark.parametrize(("level", "generation"), [(0, TV1), (1, TV1), (2, TV2)])
def test_the_generation_is_the_newest_that_is_finalized(
    level: int, generation: Generation, breaks: int
) -> None:
    """A connection that breaks off while it is asked for is made anew."""
    with cluster_with(level, breaks=breaks) as cluster:
        assert generation_of(cluster) is generation


def test_patience_ends() -> None:
    """Nobody waits for ever for a broker that always breaks off."""
    with cluster_with(2, breaks=1000, patience_s=0.2) as cluster, pytest.raises(ConnectionFailed):
        generation_of(cluster)

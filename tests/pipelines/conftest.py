"""One Spark session and one Holdfast process for all tests in this folder: each costs seconds."""

from collections.abc import Iterator

import pytest

from holdfast.client.cluster import Cluster
from tests.process import HoldfastProcess
from tests.spark.session import spark

__all__ = ["spark"]


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Holdfast process whose new topics have two partitions."""
    with HoldfastProcess(tmp_path_factory.mktemp("pipelines") / "data", "--partitions", "2") as process:
        yield process.bootstrap
        assert process.stop() == 0
        assert "Traceback" not in process.log


@pytest.fixture(scope="session")
def cluster(bootstrap: str) -> Iterator[Cluster]:
    """A client of it, to prepare and to check."""
    with Cluster(bootstrap) as cluster:
        yield cluster

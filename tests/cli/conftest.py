"""A cluster for the command line: Holdfast, or the Apache Kafka that `--kafka` names."""

from collections.abc import Iterator

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from tests.cli.commands import Command
from tests.process import HoldfastProcess


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where it listens."""
    if request.config.getoption("kafka") is not None:
        yield request.getfixturevalue("kafka_cluster").bootstrap
        return
    with HoldfastProcess(tmp_path_factory.mktemp("cli") / "data") as process:
        yield process.bootstrap
        assert process.stop() == 0
        assert "Traceback" not in process.log


@pytest.fixture(scope="session")
def cluster(bootstrap: str) -> Iterator[Cluster]:
    """A client of it, to prepare and to check."""
    with Cluster(bootstrap) as cluster:
        yield cluster


@pytest.fixture
def command(bootstrap: str) -> Command:
    """The command line, pointed at it."""
    return Command(bootstrap)


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """A topic of two partitions of the test's own."""
    name = "".join(c if c.isalnum() else "-" for c in f"{request.path.stem} {request.node.name}")
    create_topic(cluster, name, partitions=2)
    return name

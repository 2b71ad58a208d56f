"""One Spark session and one Holdfast process for all tests in this folder: each costs seconds."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.spark.session import spark_session
from tests.process import HoldfastProcess

# Half the processor time of a JVM that lives for a minute goes into optimising compilation.
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session as users get it."""
    session = spark_session("tests", master="local[2]", config=SHORT_LIVED)
    yield session
    session.stop()


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

"""One Spark session and one Holdfast process for all tests in this folder: each costs seconds."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.session import spark_session
from tests.process import HoldfastProcess
from tests.spark.streams import SHORT_LIVED


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session as users get it."""
    session = spark_session("tests", master="local[2]", config=SHORT_LIVED)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def holdfast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Holdfast process whose new topics have three partitions."""
    with HoldfastProcess(tmp_path_factory.mktemp("holdfast") / "data", "--partitions", "3") as process:
        yield process.bootstrap
        assert process.stop() == 0

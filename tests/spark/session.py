"""The Spark session that tests share: `conftest.py` of a folder that needs it imports the fixture."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.session import spark_session
from tests.spark.streams import SHORT_LIVED


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session as users get it."""
    session = spark_session("tests", master="local[2]", config=SHORT_LIVED)
    yield session
    session.stop()

"""One cluster and one session on it for all tests in this folder. `make test-cluster` runs them."""

import os
import shutil
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import JavaUnavailable
from holdfast.records.kernel.jit import cache_directory
from holdfast.records.warm import warm
from holdfast.spark.java import find_system_java
from holdfast.spark.session import spark_session
from tests.cluster.standalone import SESSION, SparkCluster

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "1s",
}


def pytest_sessionstart() -> None:
    """Nothing in here works without it: say so once, and not as a failure of each test."""
    try:
        find_system_java()
    except JavaUnavailable as unavailable:
        pytest.exit(str(unavailable), returncode=2)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers, on a machine where an executor has compiled the kernels before."""
    directory = tmp_path_factory.mktemp("cluster")
    warm()
    compiled = cache_directory()
    assert compiled is not None
    shutil.copytree(compiled, directory / "cache" / "holdfast" / compiled.name)
    with SparkCluster(directory, cache=directory / "cache") as running:
        yield running


@pytest.fixture(scope="session")
def spark(cluster: SparkCluster) -> Iterator[SparkSession]:
    """A session with two executors of one core each, which repeats tasks that take too long."""
    assert "PYSPARK_PYTHON" not in os.environ, "it would be taken for the executors' Python"
    os.environ["PYSPARK_PYTHON"] = str(cluster.python)
    try:
        session = spark_session("tests", master=cluster.url, config=SESSION | SPECULATION)
    finally:
        del os.environ["PYSPARK_PYTHON"]
    assert str(cluster.python) != sys.executable
    yield session
    session.stop()

"""One Spark session and one Holdfast process for all tests in this folder: each costs seconds."""

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas with importlib.resources.read_text, which Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

from pyspark.sql import SparkSession

from holdfast.spark.session import spark_session

# Half the processor time of a JVM that lives for a minute goes into optimising compilation.
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

SOURCES = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session as users get it."""
    with warnings.catch_warnings():
        # PySpark 4.3 warns about pandas 3 when it is imported; nothing here goes through pandas.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        session = spark_session("tests", master="local[2]", config=SHORT_LIVED)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def holdfast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Holdfast process whose new topics have three partitions."""
    directory = tmp_path_factory.mktemp("holdfast")
    command = [sys.executable, "-m", "holdfast", "up", "--data", str(directory / "data")]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--partitions", "3"],
            stdout=subprocess.PIPE,
            stderr=log,
            env={"PYTHONPATH": str(SOURCES)},
        )
    assert server.stdout is not None
    try:
        line = server.stdout.readline().decode()
        found = re.search(r"listening on (\S+:\d+)", line)
        assert found is not None, line + (directory / "log").read_text()
        yield found[1]
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()

"""Spark Connect: a client without a JVM, whose jobs run on the cluster with the Holdfast that it was sent."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import SparkCluster
from tests.keeper.test_process import configured, create, run_keeper, settled_to, write
from tests.process import HoldfastProcess

SECONDS_MAX = 240.0
READ = """
import sys
from holdfast.spark.session import spark_session
from holdfast.spark.shipping import is_connect

spark = spark_session("reader", master=sys.argv[1])
assert is_connect(spark)
topic = spark.read.format("holdfast").option("bootstrap", sys.argv[2]).option("topic", "t").load()
print(topic.count(), topic.selectExpr("cast(key as string) as key").distinct().count())
spark.stop()
"""


@pytest.fixture(scope="module")
def server(cluster: SparkCluster) -> Iterator[str]:
    """The address of a Connect server on the cluster."""
    with cluster.connect_server() as address:
        yield address


def test_a_round_and_a_read(server: str, tmp_path: Path) -> None:
    """`sc://` is a master like any other."""
    options = configured(tmp_path / "never.toml", round_seconds=86400.0, spark_bytes_min=0)
    data = tmp_path / "data"
    with HoldfastProcess(data, "--nodes", "2", *options) as log:
        create(log.bootstrap)
        write(log.bootstrap, 300, "v")
        keeper = run_keeper(data, "--master", server)
        said = keeper.communicate(timeout=SECONDS_MAX)[0]
        assert (keeper.returncode, settled_to(data)) == (0, [300, 300]), said
        write(log.bootstrap, 100, "w")
        done = subprocess.run(
            [sys.executable, "-c", READ, server, log.bootstrap],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        # Five keys, once each, and what came later.
        assert done.stdout.split() == ["105", "5"], done.stderr

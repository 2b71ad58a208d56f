"""Spark Connect: a client without a JVM, whose jobs run on the cluster with the Holdfast that it was sent."""

import json
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


def test_sql(server: str, tmp_path: Path) -> None:
    """Its answer, and what is wrong with a query, as on any master: nothing is asked of a session that has ended."""
    options = configured(tmp_path / "never.toml", round_seconds=86400.0)
    with HoldfastProcess(tmp_path / "data", "--nodes", "2", *options) as log:
        create(log.bootstrap)
        write(log.bootstrap, 100, "v")

        def ask(query: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "holdfast", "sql", query, "--json", "--master", server]
            command += ["-b", log.bootstrap, "--through", "stores"]
            return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)

        done = ask(
            "SELECT KEY, count(*) AS n, min(timestamp) IS NULL AS x FROM t GROUP BY 1 ORDER BY 1 LIMIT 1"
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert json.loads(done.stdout) == {"KEY": "k0", "n": 20, "x": False}
        refused = ask("SELECT * FROM absent")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Traceback" not in refused.stderr
        assert "holdfast: option topic: there is no topic 'absent'" in refused.stderr.splitlines()[-1]

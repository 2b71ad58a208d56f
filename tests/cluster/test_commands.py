"""Commands on a cluster: the keeper that `holdfast up` runs, one by hand, the doctor, tables, and the demo."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.cluster.standalone import SESSION, SparkCluster, wait_for
from tests.keeper.test_process import configured, create, run_keeper, settled_to, write
from tests.process import HoldfastProcess

SECONDS_MAX = 240.0
PRINTED_RECORDS = 20_000
"""More than one fingerprint of the doctor stands for."""


@pytest.fixture(autouse=True)
def user(cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user of a cluster has set: the executors' Python, and how much of the cluster to take."""
    (tmp_path / "conf").mkdir()
    settings = "".join(f"{name} {value}\n" for name, value in SESSION.items())
    (tmp_path / "conf" / "spark-defaults.conf").write_text(settings)
    monkeypatch.setenv("PYSPARK_PYTHON", str(cluster.python))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))


def count_keepers(cluster: SparkCluster) -> int:
    """How many keepers have used the cluster so far."""
    return cluster.log("master").count("Registered app holdfast keeper")


def test_up_has_its_keeper_use_the_cluster(cluster: SparkCluster, tmp_path: Path) -> None:
    """The setting spark_master is enough; two stores are compacted."""
    before = count_keepers(cluster)
    options = configured(tmp_path / "cluster.toml", round_seconds=0.2, idle_seconds=0.5, spark_bytes_min=0)
    with Path(options[1]).open("a") as settings:
        settings.write(f'\nspark_master = "{cluster.url}"\n')
    data = tmp_path / "data"
    with HoldfastProcess(data, "--nodes", "2", *options) as log:
        create(log.bootstrap)
        write(log.bootstrap, 500, "v")
        wait_for(lambda: settled_to(data) == [500, 500], "compaction", seconds_max=SECONDS_MAX)
        assert log.stop() == 0
    assert count_keepers(cluster) > before, log.log


def test_a_keeper_by_hand(cluster: SparkCluster, tmp_path: Path) -> None:
    """`--master` has the last word; nobody there is one line that says so, and nothing is lost."""
    options = configured(tmp_path / "never.toml", round_seconds=86400.0, spark_bytes_min=0)
    data = tmp_path / "data"
    with HoldfastProcess(data, "--nodes", "2", *options) as log:
        create(log.bootstrap)
        write(log.bootstrap, 200, "v")
        lost = run_keeper(data, "--master", "spark://127.0.0.1:1")
        said = lost.communicate(timeout=SECONDS_MAX)[0]
        assert lost.returncode == 1
        assert "nobody to talk to at spark://127.0.0.1:1" in said
        assert "Traceback" not in said
        before = count_keepers(cluster)
        keeper = run_keeper(data, "--master", cluster.url)
        said = keeper.communicate(timeout=SECONDS_MAX)[0]
        assert (keeper.returncode, settled_to(data)) == (0, [200, 200]), said
        assert count_keepers(cluster) == before + 1


def test_the_doctor(cluster: SparkCluster, tmp_path: Path) -> None:
    """`doctor --spark --master` has its tasks run there, and compares both replicas of a sound topic."""
    with HoldfastProcess(tmp_path / "data", "--nodes", "2") as log:
        create(log.bootstrap)
        write(log.bootstrap, PRINTED_RECORDS, "v")
        command = [sys.executable, "-m", "holdfast", "doctor", "--spark", "--master", cluster.url]
        command += ["--topic", "t", "--bootstrap", log.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert (done.returncode, done.stdout) == (
        0,
        "1 partition compared, 0 differences: all replicas show the same\n",
    ), done.stderr
    assert "Registered app holdfast doctor" in cluster.log("master")


def test_tables(cluster: SparkCluster, tmp_path: Path) -> None:
    """`sql`, `topic export` and `log diff`, whose tasks read the stores' files: nobody falls back to an agent."""
    options = configured(tmp_path / "never.toml", round_seconds=86400.0)
    with HoldfastProcess(tmp_path / "data", "--nodes", "2", *options) as log:
        create(log.bootstrap)
        write(log.bootstrap, 500, "v")

        def run(*words: str) -> str:
            command = [sys.executable, "-m", "holdfast", *words, "--master", cluster.url]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        stores = ("--bootstrap", log.bootstrap, "--through", "stores")
        assert run("sql", "SELECT count(*) AS n FROM t", "--json", *stores) == '{"n": 500}\n'
        run("topic", "export", "t", str(tmp_path / "out"), *stores)
        tables = [parquet.read_table(file) for file in (tmp_path / "out").glob("*.parquet")]
        assert sorted(offset.as_py() for table in tables for offset in table["offset"]) == list(range(500))
        found = run("log", "diff", "t", "--data", str(log.data))
        assert found == "t, 1 partition on stores 1, 2: equal up to the last stable offsets 0:500\n"
    for name in ("sql", "topic export", "log diff"):
        assert f"Registered app holdfast {name}" in cluster.log("master")


def test_the_demo(cluster: SparkCluster) -> None:
    """`make demo` with its Spark on the cluster."""
    command = [sys.executable, "-m", "examples.demo", "--master", cluster.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "keep the newest value per key, compare with the consumer" in done.stdout
    assert "Registered app holdfast demo" in cluster.log("master")

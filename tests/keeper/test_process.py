"""The keeper as a process: `holdfast up` runs one when something is due, and starts it again when it is killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.process import HoldfastProcess

WAIT_SECONDS_MAX = 60.0
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"no {what} within {WAIT_SECONDS_MAX} s"
        time.sleep(0.05)


def configured(path: Path, **keeper: float) -> tuple[str, str]:
    """Options for a config file with these settings of the keeper."""
    lines = [f"{name} = {value}" for name, value in keeper.items()]
    path.write_text("\n".join(["expire_seconds = 86400", "[keeper]", "settle_ms_max = 0", *lines]))
    return "--config", str(path)


def count_segments(data: Path) -> dict[int, int]:
    """Segments by store, as the control plane names them."""
    with sqlite3.connect(f"file:{data / 'control.db'}?mode=ro", uri=True, timeout=30) as db:
        return dict(db.execute("SELECT store, count(*) FROM segments GROUP BY store").fetchall())


def settled_to(data: Path) -> list[int]:
    with sqlite3.connect(f"file:{data / 'control.db'}?mode=ro", uri=True, timeout=30) as db:
        return [row[0] for row in db.execute("SELECT settled_to FROM replicas ORDER BY store")]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def write(bootstrap: str, count: int, value: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce("t", key=f"k{number % 5}", value=value)
    assert producer.flush(30) == 0


def create(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    client.create_topics([NewTopic("t", 1, 2, config=COMPACTED)])["t"].result()


def run_keeper(data: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "holdfast", "keeper", "run", "--once", "--data", str(data), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "data"


def test_up_runs_a_keeper_while_something_is_due(tmp_path: Path, data: Path) -> None:
    """Nothing due, no process; then one compacts both stores, is killed, comes again, and leaves when it is idle."""
    options = configured(tmp_path / "quick.toml", round_seconds=0.2, idle_seconds=0.5)
    with HoldfastProcess(data, "--nodes", "2", *options) as log:
        create(log.bootstrap)
        assert children(log.pid) == []
        write(log.bootstrap, 100, "first")
        wait_until(lambda: bool(children(log.pid)), "keeper")
        os.kill(children(log.pid)[0], signal.SIGKILL)
        wait_until(lambda: settled_to(data) == [100, 100], "compaction")
        wait_until(lambda: not children(log.pid), "idle keeper that leaves")
        write(log.bootstrap, 50, "second")
        wait_until(lambda: settled_to(data) == [150, 150], "compaction")
        assert log.stop() == 0
    assert "the keeper ended with -9" in log.log


def test_a_keeper_without_a_server(tmp_path: Path, data: Path) -> None:
    """It opens the directory itself, and what it leaves is what the next start serves."""
    options = configured(tmp_path / "never.toml", round_seconds=86400.0)
    with HoldfastProcess(data, "--nodes", "2", *options) as log:
        create(log.bootstrap)
        write(log.bootstrap, 20, "v")
        assert log.stop() == 0
        keeper = run_keeper(data, *options)
        output = keeper.communicate(timeout=WAIT_SECONDS_MAX)[0]
        assert keeper.returncode == 0, output
        assert count_segments(data) == {1: 1, 2: 1}, output
        log.start()
        write(log.bootstrap, 5, "w")


def test_two_keepers_share_the_stores_one_at_a_time(tmp_path: Path, data: Path) -> None:
    """Both come to their end, the second waits for the first, and each replica is compacted once."""
    options = configured(tmp_path / "never.toml", round_seconds=86400.0)
    with HoldfastProcess(data, "--nodes", "2", *options) as log:
        create(log.bootstrap)
        write(log.bootstrap, 200, "v")
        keepers = [run_keeper(data), run_keeper(data)]
        outputs = [keeper.communicate(timeout=WAIT_SECONDS_MAX)[0] for keeper in keepers]
        assert [keeper.returncode for keeper in keepers] == [0, 0], outputs
        assert settled_to(data) == [200, 200]
        assert sum(output.count("is compacted up to 200") for output in outputs) == 2, outputs


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """One line says what to do, and nothing is made."""
    command = [sys.executable, "-m", "holdfast", "keeper", "run", "--once", "--data", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS_MAX, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "none" in done.stderr
    assert not (tmp_path / "none").exists()


def test_the_admin_file_of_a_dead_server_is_no_obstacle(tmp_path: Path, data: Path) -> None:
    """admin.json is left behind by a kill: the keeper finds nobody there, and opens the directory."""
    options = configured(tmp_path / "never.toml", round_seconds=86400.0)
    with HoldfastProcess(data, "--nodes", "2", *options) as log:
        create(log.bootstrap)
        log.kill()
        assert json.loads((data / "admin.json").read_text())["pid"]
        keeper = run_keeper(data)
        assert keeper.wait(WAIT_SECONDS_MAX) == 0, keeper.stdout
        keeper.communicate()


def test_a_keeper_of_a_dead_server_leaves_the_directory_alone(tmp_path: Path, data: Path) -> None:
    """One that `holdfast up` has started must not be in the way of the next start."""
    options = configured(tmp_path / "never.toml", round_seconds=86400.0)
    with HoldfastProcess(data, "--nodes", "2", *options) as log:
        create(log.bootstrap)
        write(log.bootstrap, 20, "v")
        log.kill()
        # As `up` starts it; alone it would stay with what it finds to do, and hold the directory.
        keeper = run_keeper(data, "--idle-seconds", "60", *options)
        output = keeper.communicate(timeout=WAIT_SECONDS_MAX)[0]
        assert (keeper.returncode, settled_to(data)) == (0, [0, 0]), output
        assert "no more upkeep" in output

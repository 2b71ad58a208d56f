"""A session that ends says nothing, whatever its workers were waiting for."""

import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from holdfast.spark.parting import DAEMON, STREAM_RUNNER, ending_quietly, quiet

PROGRAM = """
import sys, time
from pathlib import Path
from holdfast.spark.session import spark_session

quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
spark = spark_session("parting", master="local[1]", config=quick)
java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
topic = spark.read.format("holdfast").option("bootstrap", sys.argv[1]).option("topic", sys.argv[2]).load()
print(topic.count(), spark.range(3).mapInArrow(lambda batches: batches, "id long").count(), flush=True)
spark.stop()
# What its workers still say, Java hands on. Of the script that became Java there may be a child that nobody waits for.
def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
deadline = time.monotonic() + 60
def children():
    return [pid for each in Path(f"/proc/{java}/task").iterdir() for pid in (each / "children").read_text().split()]
while any(map(is_alive, children())):
    assert time.monotonic() < deadline
    time.sleep(0.02)
"""


def test_a_worker_without_java_ends_without_a_word() -> None:
    def lost(sock: socket.socket, authenticated: bool) -> int:
        raise BrokenPipeError

    def failed(sock: socket.socket, authenticated: bool) -> int:
        raise ZeroDivisionError

    with socket.socket() as sock:
        assert ending_quietly(lost)(sock, True) == 1
        assert ending_quietly(lambda sock, authenticated: 7 * authenticated)(sock, True) == 7
        with pytest.raises(ZeroDivisionError):
            ending_quietly(failed)(sock, True)


def test_only_workers_of_pysparks_own_daemon_are_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: the data source is loaded anew by nobody, but many tasks come by."""

    def worker(sock: socket.socket, authenticated: bool) -> int:
        return 0

    for spec, is_changed in (
        ({"__spec__": SimpleNamespace(name=DAEMON)}, True),
        ({"__spec__": SimpleNamespace(name="holdfast.spark.daemon")}, False),
        ({"__spec__": None}, False),
        ({}, False),
    ):
        main = SimpleNamespace(**spec, worker=worker)
        monkeypatch.setitem(sys.modules, "__main__", main)
        quiet()
        assert (main.worker is not worker) == is_changed, spec
        once = main.worker
        quiet()
        assert main.worker is once


def test_a_pyspark_with_other_workers_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends with some words more still reads and writes."""
    main = SimpleNamespace(__spec__=SimpleNamespace(name=DAEMON))
    monkeypatch.setitem(sys.modules, "__main__", main)
    quiet()
    assert vars(main).keys() == {"__spec__"}
    assert ending_quietly(lambda *given, more: len(given) + more)(1, 2, 3, more=4) == 7


def test_what_plans_a_stream_tells_of_all_but_javas_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last words have no listener."""
    main = SimpleNamespace(__spec__=SimpleNamespace(name=STREAM_RUNNER))
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    quiet()
    sys.excepthook(BrokenPipeError, BrokenPipeError(), None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("this is told"), None)
    assert "this is told" in capsys.readouterr().err


@pytest.mark.timeout(180)
def test_a_session_ends_in_silence(holdfast: str) -> None:
    """After reads that were planned and carried out by workers which wait for more."""
    producer = Producer({"bootstrap.servers": holdfast})
    for number in range(5):
        producer.produce("parting", b"%d" % number)
    assert producer.flush(30) == 0
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, holdfast, "parting"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    try:
        out, err = running.communicate(timeout=150)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        raise
    assert (out, err, running.returncode) == (b"5 3\n", b"", 0)

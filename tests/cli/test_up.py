"""`holdfast up` as its user sees it: one line, clean ends, refusals that say what to do."""

import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from holdfast.cli.up import parse_address
from holdfast.errors import UsageError
from holdfast.records.build import Record, build_batch
from tests.cli.commands import run_here
from tests.process import HoldfastProcess

SECONDS_MAX = 30.0
METADATA_V1 = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">ih", 1, 1) + b"t"


@pytest.fixture
def process(tmp_path: Path) -> Iterator[HoldfastProcess]:
    with HoldfastProcess(tmp_path / "data") as process:
        yield process


def up(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a start that is expected to fail."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "up", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def said(result: subprocess.CompletedProcess[str]) -> str:
    """The one line on stderr of a start that failed."""
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("holdfast: ")
    return line


def exchange(client: socket.socket, body: bytes) -> bytes:
    """One request, one answer."""
    client.sendall(struct.pack(">i", len(body)) + body)
    return receive(client)


def receive(client: socket.socket) -> bytes:
    with client.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)


def test_says_one_line(process: HoldfastProcess) -> None:
    """Address and directory, and nothing else on stdout or stderr in a whole life."""
    assert process.announcement == (
        f"holdfast is listening on 127.0.0.1:{process.port}, data in {process.data.resolve()}\n"
    )
    stdout = process._process and process._process.stdout
    assert stdout
    with socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as client:
        exchange(client, METADATA_V1)
    assert process._process
    process._process.send_signal(signal.SIGTERM)
    assert process._process.wait(SECONDS_MAX) == 0
    assert stdout.read() == ""
    assert process.log == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_with_0(process: HoldfastProcess, number: signal.Signals) -> None:
    """SIGTERM and ^C are good ends, with clients connected and a long poll under way."""
    with (
        socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as idle,
        socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as waiting,
    ):
        exchange(idle, METADATA_V1)
        fetch = struct.pack(">hhih", 1, 4, 8, -1) + struct.pack(">iiiib", -1, 600_000, 1, 1000, 0)
        fetch += struct.pack(">ih", 1, 1) + b"t" + struct.pack(">iiqi", 1, 0, 0, 1000)
        waiting.sendall(struct.pack(">i", len(fetch)) + fetch)
        exchange(idle, METADATA_V1)
        assert process._process
        process._process.send_signal(number)
        assert struct.unpack_from(">i", receive(waiting)) == (8,), "the long poll is answered on the way out"
        assert waiting.recv(1) == b""
        assert idle.recv(1) == b""
        waiting.close()
        idle.close()
        assert process._process.wait(SECONDS_MAX) == 0
    assert "Traceback" not in process.log


def test_batches_under_way_are_answered_before_the_end(process: HoldfastProcess) -> None:
    """A producer that is stopped in full flow reads its answers to the last, then the end of the stream."""
    value = bytes(20_000)
    data = build_batch([Record(value=value)])
    produce = struct.pack(">hhihhhi", 0, 3, 9, -1, -1, -1, 1000)
    produce += struct.pack(">ih", 1, 1) + b"t" + struct.pack(">iii", 1, 0, len(data)) + data
    frame = struct.pack(">i", len(produce)) + produce
    with (
        ThreadPoolExecutor() as pool,
        socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as client,
    ):
        exchange(client, METADATA_V1)
        sender = pool.submit(send_until_refused, client, frame)
        with client.makefile("rb") as stream:
            answers = [read_answer(stream) for _ in range(20)]
            stopped = pool.submit(process.stop)
            while (answer := read_answer(stream)) is not None:
                answers.append(answer)
        client.shutdown(socket.SHUT_WR)
        sender.result(SECONDS_MAX)
        assert stopped.result(SECONDS_MAX) == 0
    offsets = [struct.unpack_from(">iihciihq", answer or b"")[-1] for answer in answers]
    assert offsets == list(range(len(answers)))
    process.start()
    with socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as client:
        list_offsets = struct.pack(">hhihiih", 2, 1, 5, -1, -1, 1, 1) + b"t" + struct.pack(">iiq", 1, 0, -1)
        (end,) = struct.unpack_from(">q", exchange(client, list_offsets)[-8:])
    assert end == len(answers)


def send_until_refused(client: socket.socket, frame: bytes) -> None:
    """As fast as the other side takes it."""
    with suppress(OSError):
        while True:
            client.sendall(frame)


def read_answer(stream: BinaryIO) -> bytes | None:
    """The next answer; None at the end of the stream."""
    head = stream.read(4)
    return stream.read(struct.unpack(">i", head)[0]) if head else None


def test_restart_keeps_the_cluster(process: HoldfastProcess) -> None:
    """What was made before the stop is there after it."""
    with socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as client:
        before = exchange(client, METADATA_V1)
    assert process.stop() == 0
    process.start()
    with socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as client:
        assert exchange(client, METADATA_V1) == before


def test_directory_in_use_is_refused(process: HoldfastProcess) -> None:
    """Exit code 1 and the way out; the first process is not disturbed."""
    result = up("--data", str(process.data), "--listen", "127.0.0.1:0")
    assert result.returncode == 1
    assert "is in use by another process: stop that one, or choose another with --data" in said(result)
    with socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as client:
        exchange(client, METADATA_V1)


def test_port_in_use_is_refused(process: HoldfastProcess, tmp_path: Path) -> None:
    """The address is named, and the directory is free again."""
    other = tmp_path / "other"
    result = up("--data", str(other), "--listen", process.bootstrap)
    assert result.returncode == 2
    assert f"cannot listen on {process.bootstrap}" in said(result)
    with HoldfastProcess(other) as second:
        assert second.stop() == 0


def test_a_directory_that_cannot_be_used_is_bad_usage(tmp_path: Path) -> None:
    """Exit code 2 and the reason, like any other option that is wrong."""
    (tmp_path / "file").touch()
    for data in (tmp_path / "file" / "data", Path("/proc/x")):
        result = up("--data", str(data), "--listen", "127.0.0.1:0")
        assert result.returncode == 2
        assert f"cannot use {data} as --data: " in said(result)


def test_newer_format_is_refused(process: HoldfastProcess) -> None:
    """Exit code 1, both numbers, and nothing is touched."""
    process.stop()
    file = process.data / "holdfast.json"
    newer = json.dumps(json.loads(file.read_text()) | {"format": 99})
    file.write_text(newer)
    result = up("--data", str(process.data), "--listen", "127.0.0.1:0")
    assert result.returncode == 1
    assert "has format 99, this Holdfast knows up to 1" in said(result)
    assert file.read_text() == newer


def test_newer_control_plane_is_refused(process: HoldfastProcess) -> None:
    """The same for the schema of control.db."""
    import sqlite3

    process.stop()
    connection = sqlite3.connect(process.data / "control.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    result = up("--data", str(process.data), "--listen", "127.0.0.1:0")
    assert result.returncode == 1
    assert "has schema 99" in said(result)


def test_damaged_control_plane_is_refused_with_the_cure(process: HoldfastProcess) -> None:
    """It can be removed: the journals hold all of it."""
    process.stop()
    (process.data / "control.db").write_bytes(b"no database" * 1000)
    result = up("--data", str(process.data), "--listen", "127.0.0.1:0")
    assert result.returncode == 1
    assert "remove it: the journals hold all of it" in said(result)
    (process.data / "control.db").unlink()
    process.start()


@pytest.mark.parametrize(
    ("listen", "why"),
    [
        ("0.0.0.0:0", "is not a loopback address"),
        ("192.0.2.1:9092", "is not a loopback address"),
        ("[::]:9092", "is not a loopback address"),
        ("example.org:9092", "takes an IP address or localhost, not 'example.org'"),
        ("127.0.0.1:70000", "takes HOST:PORT"),
        ("127.0.0.1:-1", "takes HOST:PORT"),
        ("127.0.0.1:http", "takes HOST:PORT"),
        ("127.0.0.1", "takes HOST:PORT"),
        (":9092", "takes an IP address"),
        ("", "takes HOST:PORT"),
    ],
)
def test_bad_address_is_refused(tmp_path: Path, listen: str, why: str) -> None:
    """Exit code 2, one line, and no directory is made."""
    data = tmp_path / "data"
    answer = run_here("up", "--data", str(data), "--listen", listen)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, b"", 1)
    assert why in answer.err
    assert not data.exists()


def test_other_addresses_need_to_be_allowed() -> None:
    """There is no authentication: whoever opens the log to others says so. An address of no machine helps nobody."""
    assert parse_address("192.0.2.1:9092", insecure=True) == ("192.0.2.1", 9092)
    with pytest.raises(UsageError, match="--insecure allows it"):
        parse_address("192.0.2.1:9092")
    with pytest.raises(UsageError, match="name the address that clients reach"):
        parse_address("0.0.0.0:9092", insecure=True)
    with pytest.raises(UsageError, match=r"not a loopback address$"):
        parse_address("192.0.2.1:0", option="--admin")


@pytest.mark.parametrize(
    ("listen", "host"), [("localhost:0", "127.0.0.1"), ("127.0.0.2:0", "127.0.0.2"), ("[::1]:0", "[::1]")]
)
def test_loopback_addresses(tmp_path: Path, listen: str, host: str) -> None:
    """All of them will do; the line can be given to a client as it is."""
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", "--data", str(tmp_path), "--listen", listen],
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout
        line = started.stdout.readline()
        started.terminate()
        assert started.wait(SECONDS_MAX) == 0
    assert line.startswith(f"holdfast is listening on {host}:")


def test_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """Bad usage, in a line."""
    file = tmp_path / "file"
    file.touch()
    result = up("--data", str(file))
    assert result.returncode == 2
    assert "is a file" in said(result)


def test_partitions_of_new_topics(tmp_path: Path) -> None:
    """--partitions is what auto-creation uses."""
    with (
        HoldfastProcess(tmp_path / "data", "--partitions", "3") as process,
        socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as client,
    ):
        answer = exchange(client, METADATA_V1)
    name = answer.index(b"\0\x01t\0")
    assert struct.unpack_from(">i", answer, name + 4) == (3,)

"""Disks that fill, fail or turn read-only: nothing acknowledged is lost, and the service comes back."""

import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import RawClient
from tests.process import HoldfastProcess

MB = 1024 * 1024
TOPIC = "t"
STORAGE_ERROR = 56


def produce(client: RawClient, data: bytes | None = None) -> tuple[int, int]:
    """Error code and base offset."""
    message = requests.produce(TOPIC, {0: data or batch(b"honest")})
    part = client.call(message).responses[0].partition_responses[0]
    return int(part.error_code), int(part.base_offset)


@contextmanager
def mounted(directory: Path, options: str) -> Iterator[Callable[[str], None]]:
    """A small file system; gives a function that mounts it anew with other options."""
    directory.mkdir()

    def mount(options: str) -> None:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "holdfast-test", str(directory)],
            check=True,
            capture_output=True,
        )

    try:
        mount(options)
    except (subprocess.CalledProcessError, FileNotFoundError) as failure:
        pytest.skip(f"mounting needs root and is not permitted here: {failure}")
    try:
        yield lambda changed: mount(f"remount,{changed}")
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def store_until_full(client: RawClient, values: Iterator[bytes]) -> tuple[list[bytes], bytes, int]:
    """Produce until it fails; what was acknowledged, what was refused, and the error code."""
    stored: list[bytes] = []
    for value in values:
        code, offset = produce(client, batch(value))
        if code:
            return stored, value, code
        assert offset == len(stored)
        stored.append(value)
    raise AssertionError("the disk never filled")


def with_what_may_have_happened(client: RawClient, stored: list[bytes], refused: bytes) -> list[bytes]:
    """What the log must hold: the refused value too, if its frame was durable and only recording it failed."""
    part = client.call(requests.list_offsets(TOPIC, {0: -1})).topics[0].partitions[0]
    return [*stored, refused][: max(int(part.offset), len(stored))]


def values() -> Iterator[bytes]:
    for number in range(10_000):
        yield f"value-{number:05d}-".encode() + bytes(50_000)


def test_full_disk_refuses_writes_until_there_is_space(tmp_path: Path) -> None:
    """A retriable error, reads go on, nothing acknowledged is lost, and space is all that it takes to go on."""
    with mounted(tmp_path / "small", "size=8m") as remount:
        data = tmp_path / "small" / "data"
        # A log on the disk that fills would lose the lines that are looked for.
        process = HoldfastProcess(data, log=tmp_path / "log")
        with process, RawClient(process.port) as client:
            client.call(requests.metadata(TOPIC))
            stored, refused, code = store_until_full(client, values())
            assert code == STORAGE_ERROR
            assert len(stored) > 50
            assert produce(client, batch(bytes(50_000)))[0] == STORAGE_ERROR
            assert first_values(client, len(stored)) == [value[:12] for value in stored]
            remount("size=16m")
            code, offset = produce(client)
            stored = with_what_may_have_happened(client, stored, refused)[:offset]
            assert (code, offset) == (0, len(stored))
            assert first_values(client, offset) == [value[:12] for value in stored]
            assert process.log.count("writes are refused until this is mended") == 1
            assert process.log.count("writes are taken again") == 1
            process.kill()
            process.start()
            with RawClient(process.port) as later:
                assert first_values(later, len(stored)) == [value[:12] for value in stored]
                assert produce(later) == (0, len(stored) + 1)
            assert "Traceback" not in process.log


def test_restart_on_a_full_disk(tmp_path: Path) -> None:
    """What is there can be served or is refused in a line; with space it is all there."""
    with mounted(tmp_path / "small", "size=8m") as remount:
        data = tmp_path / "small" / "data"
        with HoldfastProcess(data) as process:
            with RawClient(process.port) as client:
                client.call(requests.metadata(TOPIC))
                stored, refused, _ = store_until_full(client, values())
            fill(tmp_path / "small" / "ballast")
            process.kill()
            with suppress(AssertionError):
                process.start()
                process.kill()
            assert "Traceback" not in process.log
            remount("size=16m")
            process.start()
            with RawClient(process.port) as client:
                stored = with_what_may_have_happened(client, stored, refused)
                assert first_values(client, len(stored)) == [value[:12] for value in stored]
                assert produce(client) == (0, len(stored))


def fill(file: Path) -> None:
    """Take all space that is left."""
    with file.open("ab", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))


def first_values(client: RawClient, count: int) -> list[bytes]:
    """The first twelve bytes of the first `count` values."""
    found: list[bytes] = []
    while len(found) < count:
        message = requests.fetch(TOPIC, {0: len(found)}, partition_bytes_max=4 * MB)
        part = client.call(message).responses[0].partitions[0]
        assert part.error_code == 0
        data = bytes(part.records)
        position = data.find(b"value-")
        assert position >= 0
        while position >= 0 and len(found) < count:
            found.append(data[position : position + 12])
            position = data.find(b"value-", position + 12)
    return found


@pytest.mark.parametrize("made_before", [True, False])
def test_read_only_directory_is_refused_in_a_line(tmp_path: Path, made_before: bool) -> None:
    """Whether it holds data or not: a message, no traceback, nothing half made."""
    with mounted(tmp_path / "ro", "size=8m") as remount:
        data = tmp_path / "ro" / "data"
        process = HoldfastProcess(data)
        process._errors = tmp_path / "stderr"
        if made_before:
            with process:
                assert process.stop() == 0
        remount("ro")
        with pytest.raises(AssertionError, match="holdfast: cannot use"):
            process.start()
        assert "Traceback" not in process.log


@pytest.mark.parametrize("room_bytes", [0, 31, 500, 5000])
def test_write_that_breaks_off_in_the_middle_is_taken_back(tmp_path: Path, room_bytes: int) -> None:
    """Wherever the frame broke off: refused, not readable, and the next one takes its offset."""
    with HoldfastProcess(tmp_path / "data") as process, RawClient(process.port) as client:
        client.call(requests.metadata(TOPIC))
        assert produce(client) == (0, 0)
        (journal,) = (process.data / "stores" / "1" / "journal").iterdir()
        limit_file_size(process, journal.stat().st_size + room_bytes)
        assert produce(client, batch(b"refused", bytes(9000)))[0] == STORAGE_ERROR
        part = client.call(requests.fetch(TOPIC, {0: 0})).responses[0].partitions[0]
        assert (part.error_code, part.high_watermark) == (0, 1)
        limit_file_size(process, resource.RLIM_INFINITY)
        assert produce(client) == (0, 1)
        process.kill()
        process.start()
        with RawClient(process.port) as later:
            assert produce(later) == (0, 2)
            stored = later.call(requests.fetch(TOPIC, {0: 0})).responses[0].partitions[0].records
        assert b"refused" not in bytes(stored)
        assert "Traceback" not in process.log


def limit_file_size(process: HoldfastProcess, size: int) -> None:
    """RLIMIT_FSIZE of the running process: writes past it fail, in the middle if need be."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
